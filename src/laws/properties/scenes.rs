//! Scenes: a limiter with its numbers, what happened to its key, and the next call.

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, RngSeed, TestCaseResult, TestRunner};

use crate::laws::calls::Family;
use crate::laws::clock::BEGIN_US;
use crate::laws::histories::{USUAL_HISTORIES, histories, seed};
use crate::laws::keyspace::Keyspace;
use crate::laws::model::Answer;

pub const DAY_MS: i64 = 86_400_000;
const FIFTEEN_NINES: u64 = 999_999_999_999_999;
/// Later instants than this are not reached: the sixteen digits of an instant end in 2286.
pub const LAST_US: i64 = 9_000_000_000_000_000;

/// Puts a law to so many random cases, always the same ones unless `RL_SEED` says otherwise; with fewer or more
/// histories than usual there are fewer or more cases too.
pub fn law<S: Strategy>(cases: u32, strategy: S, test: impl Fn(S::Value) -> TestCaseResult) {
    let cases = u64::from(cases) * histories() / USUAL_HISTORIES;
    let cases = u32::try_from(cases).unwrap().max(50);
    let config = Config {
        cases,
        rng_seed: RngSeed::Fixed(seed()),
        rng_algorithm: RngAlgorithm::XorShift,
        failure_persistence: None,
        max_global_rejects: cases * 20,
        ..Config::default()
    };
    if let Err(broken) = TestRunner::new(config).run(&strategy, test) {
        panic!("{broken}");
    }
}

/// A limiter in words.
#[derive(Clone, Debug)]
pub struct Limiter {
    pub family: Family,
    pub limit: u64,
    pub rate: u64,
    pub period_ms: i64,
    /// The period or calendar unit as it is written.
    pub period: String,
    pub parts: i64,
    /// Options that say which limiter it is.
    pub standing: String,
    /// Options of a decision.
    pub options: String,
}

impl Limiter {
    fn numbers(&self) -> String {
        let Self { limit, rate, period, .. } = self;
        let algorithm = self.family.algorithm();
        if matches!(self.family, Family::Token | Family::Leaky) {
            format!("{algorithm} {limit} {rate} {period}")
        } else {
            format!("{algorithm} {limit} {period}")
        }
    }

    /// The rule of a decision.
    pub fn rule(&self, cost: u64) -> String {
        join(&[&self.numbers(), &format!("COST {cost}"), &self.standing, &self.options])
    }

    /// The rule without the options of a decision.
    pub fn plain(&self, cost: u64) -> String {
        join(&[&self.numbers(), &format!("COST {cost}"), &self.standing])
    }

    pub fn decide(&self, cost: u64) -> String {
        format!("RL.{}", self.rule(cost).replacen(' ', " k ", 1))
    }

    /// The decision without options.
    pub fn take(&self, cost: u64) -> String {
        format!("RL.{}", self.plain(cost).replacen(' ', " k ", 1))
    }

    pub fn verb(&self, verb: &str, cost: u64) -> String {
        format!("RL.{verb} k {}", self.plain(cost))
    }

    pub fn has(&self, option: &str) -> bool {
        self.options.split(' ').any(|word| word == option)
    }

    pub fn is_log(&self) -> bool {
        matches!(self.family, Family::Log | Family::LogWithIds)
    }

    pub fn is_fixed(&self) -> bool {
        matches!(self.family, Family::Fixed | Family::Aligned | Family::Calendar)
    }

    pub fn most_cost(&self) -> u64 {
        if self.is_log() { 250 } else { FIFTEEN_NINES }
    }

    /// The length of a sub-window.
    pub fn part_ms(&self) -> i64 {
        (self.period_ms + self.parts - 1) / self.parts
    }

    /// Milliseconds, rounded up, in which so many units are worked off.
    pub fn time_for(&self, units: u64) -> i64 {
        let shares = i128::from(units) * i128::from(self.period_ms);
        let rate = i128::from(self.rate);
        i64::try_from((shares + rate - 1) / rate).unwrap_or(i64::MAX)
    }
}

fn join(parts: &[&str]) -> String {
    parts.iter().filter(|part| !part.is_empty()).copied().collect::<Vec<_>>().join(" ")
}

/// How many units a call asks for.
#[derive(Clone, Copy, Debug)]
pub enum Cost {
    Units(u64),
    /// So many thousandths of the limit, and some more.
    Share(u64, u64),
}

impl Cost {
    pub fn of(self, limiter: &Limiter) -> u64 {
        let cost = match self {
            Self::Units(units) => units,
            Self::Share(thousandths, more) => {
                let share = u128::from(limiter.limit) * u128::from(thousandths) / 1_000;
                u64::try_from(share).unwrap().saturating_add(more)
            }
        };
        cost.min(limiter.most_cost())
    }
}

/// How the clock goes on.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    Micros(i64),
    /// Thousandths of the period.
    Share(i64),
    /// What the last reply told to wait, and so many microseconds.
    Told(i64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    Decide,
    DecideWithOptions,
    Charge,
    Refund,
    Persist,
}

/// Something that happened to the key.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    pub step: Step,
    pub deed: Deed,
    pub cost: Cost,
    /// Under the other numbers.
    pub other: bool,
}

/// A limiter, its key's past and the next call.
#[derive(Clone, Debug)]
pub struct Scene {
    pub limiter: Limiter,
    pub other: Limiter,
    pub past: Vec<Moment>,
    pub step: Step,
    pub cost: Cost,
}

/// What a scene may contain.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// The clock never steps back.
    pub forward: bool,
    /// The numbers never change and nobody takes an expiry away.
    pub steady: bool,
}

pub const ANY: Kind = Kind { forward: false, steady: false };
pub const STEADY: Kind = Kind { forward: true, steady: true };

fn limit() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0..9_u64, 3 => 1..300_u64, 1 => Just(FIFTEEN_NINES), 1 => 1..=FIFTEEN_NINES]
}

fn rate() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 1..12_u64, 3 => 1..5_000_u64, 1 => Just(FIFTEEN_NINES), 1 => 1..=FIFTEEN_NINES]
}

fn period_ms() -> impl Strategy<Value = i64> {
    prop_oneof![
        4 => 1..20_i64,
        3 => Just(1_000_i64),
        3 => 1..100_000_i64,
        1 => Just(7 * DAY_MS),
        1 => Just(3_650 * DAY_MS),
        1 => DAY_MS..3_650 * DAY_MS
    ]
}

const CALENDAR: [(&str, i64); 6] = [("1mo", 31), ("2mo", 62), ("3mo", 92), ("4mo", 123), ("6mo", 184), ("1y", 366)];
const OFFSETS: [&str; 5] = ["", "TZ +02:00", "TZ -05:30", "TZ +14:00", "TZ -23:59"];

fn families() -> impl Strategy<Value = Family> {
    proptest::sample::select(Family::ALL[..8].to_vec())
}

/// A limiter of this family with any numbers and options.
pub fn limiter_of(family: Family) -> impl Strategy<Value = Limiter> {
    let numbers = (limit(), rate(), period_ms(), 2..=360_i64, 0..6_usize, 0..5_usize);
    (numbers, 0..4_u8, period_ms()).prop_map(move |(numbers, option, duration_ms)| {
        let (limit, rate, period_ms, parts, calendar, offset) = numbers;
        let is_log = matches!(family, Family::Log | Family::LogWithIds);
        let (period, period_ms) = match family {
            Family::Calendar => (CALENDAR[calendar].0.to_owned(), CALENDAR[calendar].1 * DAY_MS),
            _ if period_ms % (7 * DAY_MS) == 0 => (format!("{}w", period_ms / (7 * DAY_MS)), period_ms),
            _ => (format!("{period_ms}ms"), period_ms),
        };
        let standing = match family {
            Family::Aligned | Family::Calendar => join(&["ALIGN", OFFSETS[offset]]),
            Family::Buckets => format!("BUCKETS {parts}"),
            _ => String::new(),
        };
        let limit = if is_log { limit % 61 } else { limit };
        let options = options(family, option, duration_ms);
        Limiter { family, limit, rate, period_ms, period, parts, standing, options }
    })
}

fn options(family: Family, option: u8, duration_ms: i64) -> String {
    match (family, option) {
        (Family::LogWithIds, 0..3) => format!("ID {}", ["a", "b", "i001:a"][usize::from(option)]),
        (_, 0) => "PARTIAL".to_owned(),
        (Family::Fixed | Family::Aligned | Family::Calendar, 1) => format!("BLOCK {duration_ms}ms"),
        (Family::Leaky, 1) => "SHAPE".to_owned(),
        (Family::Leaky, 2) => format!("SHAPE WITHIN {duration_ms}ms"),
        _ => String::new(),
    }
}

pub fn any_limiter() -> impl Strategy<Value = Limiter> {
    families().prop_flat_map(limiter_of)
}

pub fn cost() -> impl Strategy<Value = Cost> {
    prop_oneof![
        6 => (1..4_u64).prop_map(Cost::Units),
        1 => Just(Cost::Units(0)),
        2 => Just(Cost::Share(1_000, 0)),
        1 => Just(Cost::Share(1_000, 1)),
        4 => (0..1_100_u64, 0..2_u64).prop_map(|(share, more)| Cost::Share(share, more)),
        1 => (1_000..2_500_u64).prop_map(|share| Cost::Share(share, 0)),
    ]
}

pub fn step(forward: bool) -> BoxedStrategy<Step> {
    let on = prop_oneof![
        4 => Just(Step::Micros(0)),
        2 => (1..3_000_i64).prop_map(Step::Micros),
        3 => (0..300_i64).prop_map(Step::Share),
        1 => (300..2_500_i64).prop_map(Step::Share),
        3 => proptest::sample::select(vec![0, 1, 1_000, 2]).prop_map(Step::Told),
        2 => proptest::sample::select(vec![-1, -1_000, -999]).prop_map(Step::Told),
    ];
    if forward {
        return on.boxed();
    }
    let back = prop_oneof![(-3_000..0_i64).prop_map(Step::Micros), (-2_500..0_i64).prop_map(Step::Share)];
    prop_oneof![5 => on, 1 => back].boxed()
}

fn moment(kind: Kind) -> impl Strategy<Value = Moment> {
    let deed = prop_oneof![
        6 => Just(Deed::Decide),
        3 => Just(Deed::DecideWithOptions),
        2 => Just(Deed::Charge),
        2 => Just(Deed::Refund),
        u32::from(!kind.steady) => Just(Deed::Persist),
    ];
    (step(kind.forward), deed, cost(), 0..4_u8).prop_map(move |(step, deed, cost, other)| Moment {
        step,
        deed,
        cost,
        other: !kind.steady && other == 0,
    })
}

fn scene_of(limiter: impl Strategy<Value = Limiter>, kind: Kind) -> impl Strategy<Value = Scene> {
    let pair = limiter.prop_flat_map(|limiter| (limiter_of(limiter.family), Just(limiter)));
    let past = proptest::collection::vec(moment(kind), 0..10);
    (pair, past, step(kind.forward), cost()).prop_map(|((other, limiter), past, step, cost)| Scene {
        limiter,
        other,
        past,
        step,
        cost,
    })
}

/// Any limiter with any past of this kind.
pub fn scene(kind: Kind) -> impl Strategy<Value = Scene> {
    scene_of(any_limiter(), kind)
}

/// A keyspace and its clock.
#[derive(Clone, Debug, Default)]
pub struct World {
    pub keyspace: Keyspace,
    pub now_us: i64,
    told_ms: i64,
}

impl World {
    pub fn new() -> Self {
        // Not a whole millisecond, on a Thursday, on the last day of a month.
        Self { keyspace: Keyspace::default(), now_us: BEGIN_US - 1_234_567, told_ms: 1 }
    }

    /// The instant after a step; the clock stays within sixteen digits.
    pub fn after(&self, step: Step, limiter: &Limiter) -> i64 {
        let by = match step {
            Step::Micros(us) => us,
            Step::Share(thousandths) => limiter.period_ms * thousandths,
            Step::Told(us) => self.told_ms.saturating_mul(1_000).saturating_add(us).max(0),
        };
        let at = self.now_us.saturating_add(by);
        if (BEGIN_US / 10 * 8..LAST_US).contains(&at) { at } else { self.now_us }
    }

    pub fn step(&mut self, step: Step, limiter: &Limiter) {
        self.now_us = self.after(step, limiter);
    }

    /// A call in words that contain no spaces.
    pub fn call(&mut self, text: &str) -> Answer {
        let words: Vec<&[u8]> = text.split(' ').map(str::as_bytes).collect();
        self.send(&words)
    }

    pub fn send(&mut self, words: &[&[u8]]) -> Answer {
        let answer = self.keyspace.call(self.now_us, words);
        if let Answer::Five([_, _, _, wait, reset]) = answer {
            self.told_ms = [wait, reset, 1].into_iter().find(|ms| *ms > 0).unwrap_or(1);
        }
        assert_ne!(answer, Answer::Refused, "{words:?}: {}", self.keyspace.error);
        answer
    }

    /// The five integers of a call.
    pub fn five(&mut self, text: &str) -> [i64; 5] {
        five(&self.call(text))
    }

    /// A copy of this world, so much later.
    pub fn later(&self, ms: i64) -> Self {
        self.at(self.now_us.saturating_add(ms.saturating_mul(1_000)))
    }

    /// A copy of this world at another instant.
    pub fn at(&self, now_us: i64) -> Self {
        Self { now_us, ..self.clone() }
    }

    /// Whether that much later is still within the instants that can be told.
    pub fn reaches(&self, ms: i64) -> bool {
        ms < (LAST_US - self.now_us) / 1_000
    }
}

pub fn five(answer: &Answer) -> [i64; 5] {
    match answer {
        Answer::Five(five) | Answer::Lease { five, .. } => *five,
        other => panic!("no five integers: {other:?}"),
    }
}

impl Scene {
    /// Lives through the past, up to the next call.
    pub fn live(&self) -> World {
        let mut world = World::new();
        for moment in &self.past {
            let limiter = if moment.other { &self.other } else { &self.limiter };
            world.step(moment.step, limiter);
            let cost = moment.cost.of(limiter);
            match moment.deed {
                Deed::Decide => world.call(&limiter.take(cost)),
                Deed::DecideWithOptions => world.call(&limiter.decide(cost)),
                Deed::Charge => world.call(&limiter.verb("CHARGE", cost)),
                Deed::Refund => world.call(&limiter.verb("REFUND", cost)),
                Deed::Persist => {
                    world.keyspace.keys.set_expiry(b"k", None);
                    continue;
                }
            };
        }
        world.step(self.step, &self.limiter);
        world
    }

    pub fn cost(&self) -> u64 {
        self.cost.of(&self.limiter)
    }
}
