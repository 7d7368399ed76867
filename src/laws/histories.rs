//! Long random histories of all verbs on shared keys, under a clock that jumps: the engine answers what the model
//! answers, and sets the expiries that the model expects.

use std::io::Write as _;

use super::calls::{Cast, Family, Numbers, Size, Subject};
use super::clock::{BEGIN_US, Clock, Temper};
use super::dice::Dice;
use super::model::Answer;
use super::sides::{Act, Event, Outcome, Sides};

/// What was compared.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    calls: u64,
    /// Answers of limiters and leases, of PEEK and of each rule of a whole; not of REFUND, CHARGE, RENEW and RELEASE.
    decisions: u64,
    admitted: u64,
    refused: u64,
    never: u64,
    /// Admissions with a turn to wait for.
    queued: u64,
    /// Refusals that had to write.
    mended: u64,
    errors: u64,
    /// Calls whose answer the contract leaves open; they found their keys deleted.
    open: u64,
    /// The most fields or members of a key.
    largest: usize,
}

impl Tally {
    fn count(&mut self, words: &[String], outcome: &Outcome) {
        self.calls += 1;
        self.open += u64::from(outcome.open);
        self.largest = self.largest.max(outcome.elements);
        let fives: &[[i64; 5]] = match &outcome.answer {
            Answer::Five(_) if matches!(words[0].as_str(), "RL.REFUND" | "RL.CHARGE") => &[],
            Answer::Five(five) | Answer::Lease { five, .. } => &[*five],
            Answer::Whole { each, .. } => each,
            Answer::Count(_) => &[],
            Answer::Refused => {
                self.errors += 1;
                &[]
            }
        };
        for [allowed, _, _, wait, _] in fives {
            self.decisions += 1;
            self.admitted += u64::from(*allowed > 0);
            self.refused += u64::from(*allowed == 0 && *wait > 0);
            self.never += u64::from(*wait == -1);
            self.queued += u64::from(*allowed > 0 && *wait > 0);
            self.mended += u64::from(*allowed == 0 && outcome.wrote);
        }
    }

    fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.decisions += other.decisions;
        self.admitted += other.admitted;
        self.refused += other.refused;
        self.never += other.never;
        self.queued += other.queued;
        self.mended += other.mended;
        self.errors += other.errors;
        self.open += other.open;
        self.largest = self.largest.max(other.largest);
    }

    fn tell(&self, of: &str) {
        let Self { calls, decisions, admitted, refused, never, queued, mended, errors, open, largest } = self;
        let _ = writeln!(
            std::io::stderr().lock(),
            "{of}: {decisions} decisions in {calls} calls agree with the fraction model: {admitted} admissions \
             ({queued} with a turn to wait for), {refused} refusals, {never} nevers ({mended} refusals mended); \
             {errors} errors; {open} calls left open by the contract began afresh; at most {largest} elements under \
             a key"
        );
    }
}

/// How a history goes.
#[derive(Clone, Copy, Debug)]
struct Plan {
    size: Size,
    temper: Temper,
    /// Every key keeps its numbers, and no operator interferes.
    steady: bool,
}

const EVENTS: usize = 600;

/// A history by this plan.
fn planned(seed: u64, plan: Plan) -> Tally {
    let mut dice = Dice::new(seed);
    let cast = Cast::draw(&mut dice, plan.size, plan.steady);
    let clock = Clock::new(plan.temper, *dice.pick(&[1, 4, 8, 11, 13]));
    let act = |dice: &mut Dice, now_us| {
        let operator = !plan.steady && dice.once_in(60);
        if operator { interfere(dice, &cast, now_us) } else { Act::Call(cast.call(dice)) }
    };
    play(&format!("seed {seed}, {plan:?}"), EVENTS, dice, clock, act)
}

/// So many events.
fn play(title: &str, count: usize, mut dice: Dice, mut clock: Clock, act: impl Fn(&mut Dice, i64) -> Act) -> Tally {
    let (mut sides, mut tally, mut events) = (Sides::new(), Tally::default(), Vec::new());
    for _ in 0..count {
        clock.step(&mut dice);
        events.push(Event { now_us: clock.now_us, act: act(&mut dice, clock.now_us) });
        let event = events.last().unwrap();
        match sides.live(event) {
            Ok(None) => {}
            Ok(Some(outcome)) => {
                clock.hear(&outcome.answer);
                if let Act::Call(words) = &event.act {
                    tally.count(words, &outcome);
                }
            }
            Err(_) => panic!("{title}: {}", shortest(events)),
        }
    }
    tally
}

/// What an operator or another program does to a key.
fn interfere(dice: &mut Dice, cast: &Cast, now_us: i64) -> Act {
    let subject = dice.pick(&cast.subjects);
    let key = subject.key.clone();
    let number = subject.numbers[0].limit;
    let counter = subject.family.algorithm() == "FIXED";
    match dice.below(12) {
        0..5 => Act::Delete(key),
        5 => Act::SetForeign(key, usize::try_from(dice.below(9)).unwrap()),
        _ if !counter || dice.once_in(3) => Act::Persist(key),
        _ => {
            let used = match dice.below(6) {
                0 => 0,
                1 => i64::MAX,
                2 => 1_000_000_000_000_000_000 - dice.time_below(2),
                _ => dice.time_below(i64::try_from(number).unwrap() * 2 + 2),
            };
            let end = now_us / 1_000 + 1 + dice.time_below(subject.numbers[0].period_ms * 3);
            Act::SetCounter(key, used, (dice.below(3) > 0).then_some(end))
        }
    }
}

fn replay(events: &[Event]) -> Option<String> {
    let mut sides = Sides::new();
    events.iter().find_map(|event| sides.live(event).err())
}

/// Takes out of a history what is not needed for its surprise, and tells it.
fn shortest(mut events: Vec<Event>) -> String {
    let mut chunk = events.len() / 2;
    while chunk > 0 {
        let mut start = 0;
        while start < events.len() {
            let mut fewer = events.clone();
            fewer.drain(start..(start + chunk).min(events.len()));
            if replay(&fewer).is_some() {
                events = fewer;
            } else {
                start += chunk;
            }
        }
        chunk /= 2;
    }
    let lines = events.iter().map(|event| match &event.act {
        Act::Call(words) => format!("{} {words:?}", event.now_us - BEGIN_US),
        act => format!("{} {act:?}", event.now_us - BEGIN_US),
    });
    let surprise = replay(&events).unwrap_or_default();
    format!("{surprise}; the history, in microseconds:\n{}", lines.collect::<Vec<_>>().join("\n"))
}

/// A number from the environment.
fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a whole number"))
}

/// Histories of each kind, unless somebody wants fewer or more.
pub const USUAL_HISTORIES: u64 = 150;

/// How many histories of each kind there are.
pub fn histories() -> u64 {
    setting("RL_HISTORIES").unwrap_or(USUAL_HISTORIES)
}

/// Where random histories start.
pub fn seed() -> u64 {
    setting("RL_SEED").unwrap_or(2_026)
}

/// Protects every decision: a naive model in exact fractions, which shares no code with the engine, comes to the same
/// answers and expiries over a million decisions and more.
#[test]
fn the_engine_agrees_with_the_model_on_a_million_decisions() {
    let histories = histories();
    let mut tally = Tally::default();
    for size in [Size::Small, Size::Middling, Size::Huge] {
        for temper in [Temper::Forward, Temper::Jittery, Temper::Wild] {
            for steady in [true, false] {
                for number in 0..histories {
                    tally.add(&planned(seed() + number * 97, Plan { size, temper, steady }));
                }
            }
        }
    }
    tally.tell("mixed histories");
    assert!(tally.open * 10 < tally.calls, "the contract leaves too many calls open: {tally:?}");
    assert!(tally.refused * 10 > tally.decisions && tally.admitted * 10 > tally.decisions, "one-sided: {tally:?}");
    if histories >= USUAL_HISTORIES {
        assert!(tally.decisions >= 1_000_000, "too few decisions: {tally:?}");
    }
}

/// Calls on one log with room for hundreds of entries.
fn crowded_log(dice: &mut Dice, family: Family) -> Cast {
    let limit = 300 + dice.below(700);
    let numbers = [limit, limit / 3].map(|limit| Numbers {
        limit,
        rate: 1,
        period_ms: 10_000,
        period: "10s".to_owned(),
        parts: 2,
        offset: None,
    });
    let numbers = numbers.to_vec();
    Cast { subjects: vec![Subject { key: "crowd".to_owned(), family, numbers }] }
}

/// A call on sub-windows of three grids, so that more than may be kept weigh at once.
fn crowded_sub_windows(dice: &mut Dice) -> Act {
    let verb = dice.pick(&["RL.SLIDING k", "RL.SLIDING k", "RL.SLIDING k", "RL.CHARGE k SLIDING", "RL.PEEK k SLIDING"]);
    let verb = if dice.once_in(40) { &"RL.REFUND k SLIDING" } else { verb };
    let (limit, parts, cost) = (dice.pick(&[900, 100_000, 100_000]), dice.pick(&[360, 359, 357]), 1 + dice.below(3));
    let call = format!("{verb} {limit} 1h BUCKETS {parts} COST {cost}");
    Act::Call(call.split(' ').map(str::to_owned).collect())
}

/// How many histories of crowded keys there are.
fn crowds() -> u64 {
    histories().div_ceil(25)
}

/// Protects the bound on work: logs of hundreds of entries that leave the window, or lie in the future, at once.
#[test]
fn crowded_logs_agree_with_the_model() {
    let mut tally = Tally::default();
    for number in 0..crowds() {
        for (family, temper) in [(Family::Log, Temper::Wild), (Family::LogWithIds, Temper::Jittery)] {
            let mut dice = Dice::new(seed() + number);
            let cast = crowded_log(&mut dice, family);
            let act = |dice: &mut Dice, _| Act::Call(cast.call(dice));
            tally.add(&play(&format!("{family:?} {number}"), 400, dice, Clock::new(temper, 9), act));
        }
    }
    tally.tell("crowded logs");
    assert!(tally.largest > 500, "no log was crowded: {tally:?}");
}

/// Protects the bound on size: more sub-windows than may be kept weigh at once, and the oldest merge.
#[test]
fn crowded_sub_windows_agree_with_the_model() {
    let mut tally = Tally::default();
    for number in 0..crowds() {
        let clock = Clock::new(Temper::Ticking(3_000_000), 0);
        let act = |dice: &mut Dice, _| crowded_sub_windows(dice);
        tally.add(&play(&format!("sub-windows {number}"), 3_000, Dice::new(seed() + number), clock, act));
    }
    tally.tell("crowded sub-windows");
    assert_eq!(tally.largest, 720, "{tally:?}");
}
