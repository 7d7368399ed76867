//! Sequences of calls on one key, with a clock that mostly goes forward: what every decision, refund and charge keeps
//! to, whatever went before.
#![no_main]

mod keyspace;

use keyspace::Key;
use libfuzzer_sys::fuzz_target;
use redis_limiters::commands::reply;
use redis_limiters::engine::bucket::Bucket;
use redis_limiters::engine::buckets::Buckets;
use redis_limiters::engine::calendar::{Offset, Period};
use redis_limiters::engine::fixed::{Fixed, SHUT};
use redis_limiters::engine::leaky::{Leaky, Outflow};
use redis_limiters::engine::rate::Rate;
use redis_limiters::engine::sliding::Sliding;
use redis_limiters::engine::time::{LONGEST_MS, Micros, Millis, Span};
use redis_limiters::engine::token::Token;
use redis_limiters::engine::{Ask, Decision, Limiter, Loaded, Rule, Verb, Verdict, Write, answer, mend};

const FIFTEEN_DIGITS: u64 = 999_999_999_999_999;
const STEPS: usize = 48;
const IDS: [&[u8]; 3] = [b"a", b"b", b"i000:a"];

/// The fuzzer's bytes as numbers; zeros when they are used up.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn below(&mut self, bound: u64) -> u64 {
        let number = (0..4).fold(0, |number, _| number << 8 | u64::from(self.byte()));
        number % bound
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[usize::from(self.byte()) % choices.len()]
    }

    fn chance(&mut self, in_256: u8) -> bool {
        self.byte() < in_256
    }
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let changing = input.chance(64);
    let mut rule = limiter(&mut input);
    let mut history = History::default();
    let mut key = Key::default();
    let mut now = Micros::from_clock(match input.byte() {
        0 => 0,
        // Sixteen digits end in the year 2286; the longest sub-window must still have an end of thirteen.
        1 => 9_999_999_999_999_999 - 4 * 315_360_000_000_000,
        offset => 1_767_225_600_000_000 + i64::from(offset) * 333_667,
    });
    for _ in 0..STEPS {
        if input.0.is_empty() {
            break;
        }
        if changing && input.chance(32) {
            let other = limiter(&mut input);
            // Under one key only the numbers change: another limiter finds somebody else's value there.
            if std::mem::discriminant(&other) == std::mem::discriminant(&rule) {
                rule = other;
                history.changed = true;
            }
        }
        now = step(&mut input, &mut history, now);
        if input.chance(4) {
            key.persist();
            history.changed = true;
        }
        let limiter = with_id(rule, &mut input);
        let verb = input.of(&[Verb::Decide, Verb::Decide, Verb::Decide, Verb::Refund, Verb::Charge]);
        let logs = matches!(limiter, Limiter::Sliding(_));
        let cost = match input.byte() {
            0..=15 => 0,
            16..=31 if !logs => FIFTEEN_DIGITS,
            32..=63 => input.below(251),
            more => u64::from(more % 8),
        };
        let has_id = matches!(limiter, Limiter::Sliding(Sliding { id: Some(_), .. }));
        let shapes = matches!(limiter, Limiter::Leaky(Leaky { outflow: Outflow::Shape { .. }, .. }));
        let partial = verb == Verb::Decide && !has_id && !shapes && input.chance(64);
        // A refund of a request takes no COST, a charge no ID.
        let cost = if has_id && verb == Verb::Refund { 1 } else { cost };
        let limiter = if verb == Verb::Charge { without_id(limiter) } else { limiter };
        call(&mut key, &Rule { limiter, ask: Ask { cost, partial } }, verb, now, &mut history);
    }
});

fn limiter(input: &mut Input<'_>) -> Limiter<'static> {
    let limit = match input.byte() {
        0 => 0,
        1 => FIFTEEN_DIGITS,
        2 => input.below(1_000_000),
        more => u64::from(more % 12),
    };
    let units = match input.byte() {
        0 => FIFTEEN_DIGITS,
        1 => input.below(1_000_000) + 1,
        more => u64::from(more % 9) + 1,
    };
    let period = Span::from_ms(match input.byte() {
        0 => 315_360_000_000,
        1 => 1,
        2 => i64::try_from(input.below(1_000_000)).expect("small") + 1,
        more => i64::from(more) * 7,
    });
    let bucket = Bucket { capacity: limit, rate: Rate::new(units, period).expect("a rate") };
    match input.byte() % 6 {
        0 => {
            let align = input.chance(128).then_some(Offset::UTC);
            let block = input.chance(48).then_some(Span::from_ms(500));
            Limiter::Fixed(Fixed { limit, period: Period::Plain(period), align, block })
        }
        1 => Limiter::Sliding(Sliding { limit: limit.min(300), period, id: None }),
        2 => Limiter::Buckets(Buckets { limit, period, parts: input.of(&[2, 3, 7, 60, 360]) }),
        3 => Limiter::Token(Token(bucket)),
        4 => Limiter::Leaky(Leaky { bucket, outflow: Outflow::Police }),
        _ => {
            let within = input.chance(128).then_some(Span::from_ms(100));
            Limiter::Leaky(Leaky { bucket, outflow: Outflow::Shape { within } })
        }
    }
}

fn with_id(rule: Limiter<'static>, input: &mut Input<'_>) -> Limiter<'static> {
    match rule {
        Limiter::Sliding(sliding) if input.chance(96) => {
            Limiter::Sliding(Sliding { id: Some(input.of(&IDS)), ..sliding })
        }
        other => other,
    }
}

fn without_id(rule: Limiter<'_>) -> Limiter<'_> {
    match rule {
        Limiter::Sliding(sliding) => Limiter::Sliding(Sliding { id: None, ..sliding }),
        other => other,
    }
}

fn step(input: &mut Input<'_>, history: &mut History, now: Micros) -> Micros {
    let forward = |us: u64| now.plus(Span::from_us(i64::try_from(us).unwrap_or(i64::MAX)));
    match input.byte() {
        0..=5 => {
            history.went_back = true;
            Micros::from_clock(now.get().saturating_sub(i64::try_from(input.below(3_000_000_000)).expect("small")))
        }
        6..=15 => forward(input.below(u64::MAX >> 32) * 1_000),
        16..=79 => now,
        _ => forward(input.below(400_000)),
    }
}

/// What happened so far, for the laws that hold over time.
#[derive(Default)]
struct History {
    /// Whether numbers changed, or somebody else touched the key.
    changed: bool,
    went_back: bool,
    /// Whether anything but decisions happened.
    adjusted: bool,
    /// Instant, units and the window's end of each admission.
    admitted: Vec<(Micros, u64, Millis)>,
}

impl History {
    /// One limiter's numbers and a clock that only went forward: what the guarantees speak of.
    fn plain(&self) -> bool {
        !self.changed && !self.went_back
    }
}

fn call(key: &mut Key, rule: &Rule<'_>, verb: Verb, now: Micros, history: &mut History) {
    let stale = key.clone();
    if key.expire(now) && history.plain() {
        // Correctness never rests on expiry.
        let (with, _) = answer(verb, &stale.load(rule, verb, now), rule.ask, now);
        let (without, _) = answer(verb, &key.load(rule, verb, now), rule.ask, now);
        assert_eq!(with, without, "an expired key is as good as absent: {rule:?}");
    }
    let before = key.clone();
    let (standing, nothing) =
        answer(Verb::Decide, &key.load(&asking_nothing(rule), Verb::Decide, now), Ask::NOTHING, now);
    assert_eq!(nothing, Write::Keep, "a look writes nothing");
    let loaded = key.load(rule, verb, now);
    let (decision, write) = answer(verb, &loaded, rule.ask, now);
    let mended = mend(&loaded, rule.ask.cost, now);
    key.apply(rule, &write, now);

    let seen = matches!(&loaded, Loaded::Sliding(_, log) if log.seen);
    // In the millisecond of its end a shut key is still there, and open.
    let ended = before.expiry().is_some_and(|end| end <= now.floor_ms());
    let shut = matches!(rule.limiter, Limiter::Fixed(_)) && before.units().is_some_and(|used| used >= SHUT) && !ended;
    assert_numbers(&decision, rule);
    if rule.ask.cost == 0 {
        assert_eq!((&write, &*key), (&Write::Keep, &before), "COST 0 writes nothing");
        assert_eq!(decision.remaining, standing.remaining);
    } else if key.exists() {
        assert_lifetime(key, rule, &decision, &write, now);
    }
    match decision.verdict {
        Verdict::Allow { answer: granted, .. } => {
            assert_eq!(verb, Verb::Decide);
            if seen || rule.ask.cost == 0 {
                assert_eq!(decision.remaining, standing.remaining);
                return;
            }
            assert!(!shut, "a shut key admits nobody");
            let granted = if rule.ask.partial { granted } else { rule.ask.cost };
            assert!(granted >= 1 && granted <= rule.ask.cost);
            assert_eq!(decision.remaining + granted, standing.remaining, "{rule:?}");
            assert_restored_by_a_refund(key, rule, granted, &standing, now, history);
            let end = now.floor_ms().plus_ceil(decision.reset);
            history.admitted.push((now, granted, end));
            if history.plain() && !history.adjusted {
                assert_budget(history, rule, now);
            }
        }
        Verdict::Deny { wait } => {
            assert!(wait > Span::ZERO);
            let blocks = matches!(rule.limiter, Limiter::Fixed(fixed) if fixed.block.is_some()) && !shut;
            if blocks {
                assert_eq!((key.units(), decision.remaining), (Some(SHUT), 0));
            } else {
                assert_eq!(write, mended, "a refusal leaves no trace but mending: {rule:?}");
                assert_eq!(decision.remaining, standing.remaining);
            }
            // A log with more entries in the future than one call mends promises nothing.
            if !matches!(&loaded, Loaded::Sliding(_, log) if log.future > rule.ask.cost + 250) {
                assert_promise(key, rule, &decision, wait, now);
            }
        }
        Verdict::Never => {
            assert!(rule.ask.wanted() > decision.limit);
            assert_eq!(write, mended, "a refusal leaves no trace but mending: {rule:?}");
        }
        Verdict::Returned { .. } | Verdict::Booked { .. } => {
            history.adjusted = true;
            assert_adjusted(&before, key, rule, (&decision, &standing), (&write, &mended), shut);
        }
    }
    if wait_worst_case(rule).is_some_and(|worst| !history.changed && !shut && worst < reply::wait_ms(decision.verdict))
    {
        panic!("nobody waits longer than the worst case: {rule:?} {decision:?}");
    }
}

/// What holds of units given back and of units booked.
fn assert_adjusted(
    before: &Key,
    key: &Key,
    rule: &Rule<'_>,
    (decision, standing): (&Decision, &Decision),
    (write, mended): (&Write, &Write),
    shut: bool,
) {
    match decision.verdict {
        Verdict::Returned { units } => {
            assert!(units <= rule.ask.cost || matches!(rule.limiter, Limiter::Sliding(Sliding { id: Some(_), .. })));
            assert!(decision.remaining >= standing.remaining);
            assert!(decision.remaining <= standing.remaining.saturating_add(units));
            if units == 0 {
                assert_eq!(*write, if rule.ask.cost == 0 { Write::Keep } else { mended.clone() });
            }
            if *write == Write::Drop {
                assert_eq!((decision.remaining, decision.reset), (decision.limit, Span::ZERO));
            }
            assert!(before.exists() || !key.exists(), "a refund creates nothing");
        }
        Verdict::Booked { within, wait } => {
            assert!(decision.remaining <= standing.remaining);
            if rule.ask.cost > 0 {
                assert_eq!(wait.is_none(), decision.limit == 0);
                assert!(decision.limit > 0 || !within);
                assert!(decision.remaining == 0 || (within && wait == Some(Span::ZERO)));
                if shut {
                    assert_eq!(key.units(), before.units());
                }
            }
        }
        Verdict::Allow { .. } | Verdict::Deny { .. } | Verdict::Never => panic!("not an adjustment: {decision:?}"),
    }
}

fn asking_nothing<'a>(rule: &Rule<'a>) -> Rule<'a> {
    Rule { ask: Ask::NOTHING, ..*rule }
}

fn assert_numbers(decision: &Decision, rule: &Rule<'_>) {
    let [first, limit, remaining, wait, reset] = reply::five(decision);
    assert!(first >= 0 && 0 <= remaining && remaining <= limit, "{rule:?} {decision:?}");
    assert!((-1..=LONGEST_MS).contains(&wait) && (0..=LONGEST_MS).contains(&reset), "{rule:?} {decision:?}");
}

/// The time from empty to full.
fn filling(rule: &Rule<'_>) -> Span {
    match rule.limiter {
        Limiter::Fixed(_) => Span::ZERO,
        Limiter::Sliding(sliding) => sliding.period,
        Limiter::Buckets(buckets) => buckets.period,
        Limiter::Token(Token(bucket)) | Limiter::Leaky(Leaky { bucket, .. }) => bucket.rate.time_ceil(bucket.full()),
    }
}

/// A key lives at least until it is as good as absent, and an expiry that was set is not much later.
fn assert_lifetime(key: &Key, rule: &Rule<'_>, decision: &Decision, write: &Write, now: Micros) {
    let expiry = key.expiry().expect("every key that a call went over has an expiry");
    let reset = decision.reset;
    let needed = match rule.limiter {
        // The windows of these two end at whole milliseconds.
        Limiter::Fixed(_) | Limiter::Buckets(_) => {
            now.floor_ms().plus_ceil(reset).at_most_longest_after(now.floor_ms())
        }
        _ => now.ceil_ms_after(reset),
    };
    // What no expiry covers is left alone while half of the longest is left.
    let half = now.floor_ms().plus_ceil(Span::from_ms(LONGEST_MS / 2));
    let least = if reset.ceil_ms() > LONGEST_MS { half } else { needed };
    // A key with nothing left to remember may go at once.
    assert!(expiry >= least || reset == Span::ZERO, "{rule:?} {decision:?} {expiry:?} {least:?}");
    if let Write::Put(_, Some(at)) = write {
        let latest = needed.plus_ceil(filling(rule)).plus_ceil(Span::from_ms(1));
        assert!(
            *at <= latest && at.get() - now.floor_ms().get() <= LONGEST_MS,
            "{rule:?} {decision:?} {at:?} {latest:?}"
        );
    }
}

/// The very units that were taken can be given back, and then everything is as before.
fn assert_restored_by_a_refund(
    key: &Key,
    rule: &Rule<'_>,
    granted: u64,
    standing: &Decision,
    now: Micros,
    history: &History,
) {
    let with_id = matches!(rule.limiter, Limiter::Sliding(Sliding { id: Some(_), .. }));
    if with_id && !history.plain() {
        // Units of an earlier request of the same id may have come back into the window.
        return;
    }
    let refund = Rule { ask: Ask { cost: if with_id { 1 } else { granted }, partial: false }, ..*rule };
    let (decision, write) = answer(Verb::Refund, &key.load(&refund, Verb::Refund, now), refund.ask, now);
    assert_eq!(decision.verdict, Verdict::Returned { units: granted }, "{rule:?}");
    assert_eq!(decision.remaining, standing.remaining, "{rule:?}");
    if history.plain() {
        // Else the newest units may be others than those that were taken.
        assert_eq!(decision.reset, standing.reset, "{rule:?}");
    }
    let mut restored = key.clone();
    restored.apply(&refund, &write, now);
}

/// A refused call repeated after exactly the stated wait is admitted, and one millisecond earlier is not; nor, where
/// the wait is exact to the microsecond, is it one microsecond earlier.
fn assert_promise(key: &Key, rule: &Rule<'_>, decision: &Decision, wait: Span, now: Micros) {
    let wait_ms = reply::wait_ms(decision.verdict);
    let admitted_after = |span: Span| {
        let later = now.plus(span);
        let mut key = key.clone();
        key.expire(later);
        let (decision, _) = answer(Verb::Decide, &key.load(rule, Verb::Decide, later), rule.ask, later);
        decision.verdict.is_allow()
    };
    // A wait at the cap is no promise, and beyond the last instant there is no clock.
    if wait_ms == LONGEST_MS || now.plus(Span::from_ms(wait_ms)) >= Micros::from_clock(i64::MAX) {
        return;
    }
    let shown = || format!("wait of {wait_ms} ms: {rule:?} {decision:?} {key:?}");
    assert!(admitted_after(Span::from_ms(wait_ms)), "not admitted after the {}", shown());
    if wait_ms > 1 {
        assert!(!admitted_after(Span::from_ms(wait_ms - 1)), "admitted a millisecond before the {}", shown());
    }
    if !matches!(rule.limiter, Limiter::Fixed(_) | Limiter::Buckets(_)) {
        assert!(admitted_after(wait), "not admitted after the exact {}", shown());
        assert!(!admitted_after(wait.minus(Span::from_us(1))), "admitted a microsecond before the {}", shown());
    }
}

/// The longest that a call can be told to wait, if there is such a time.
fn wait_worst_case(rule: &Rule<'_>) -> Option<i64> {
    let span = match rule.limiter {
        Limiter::Fixed(fixed) if fixed.block.is_none() => fixed.period.span()?,
        Limiter::Fixed(_) => return None,
        Limiter::Sliding(sliding) => sliding.period,
        // An end up to half a period away is not of the future.
        Limiter::Buckets(buckets) => buckets.period.plus(Span::from_ms(buckets.period.part_ceil_ms(2))),
        Limiter::Token(_) => filling(rule).plus(filling(rule)),
        Limiter::Leaky(_) => filling(rule).plus(filling(rule)),
    };
    Some(reply::ms(span))
}

/// No more than the algorithm promises, in any stretch of time that ends now.
fn assert_budget(history: &History, rule: &Rule<'_>, now: Micros) {
    let units = |since: &dyn Fn(&(Micros, u64, Millis)) -> bool| -> u128 {
        history.admitted.iter().filter(|admission| since(admission)).map(|(_, units, _)| u128::from(*units)).sum()
    };
    match rule.limiter {
        Limiter::Fixed(fixed) => {
            let end = history.admitted.last().map(|(_, _, end)| *end);
            let window = units(&|(_, _, other)| Some(*other) == end);
            assert!(window <= u128::from(fixed.limit), "{window} in one window: {rule:?}");
        }
        Limiter::Sliding(Sliding { limit, period, .. }) | Limiter::Buckets(Buckets { limit, period, .. }) => {
            let cutoff = now.minus_us(period);
            let window = units(&|(at, _, _)| at.get() > cutoff);
            assert!(window <= u128::from(limit), "{window} in one period: {rule:?}");
        }
        Limiter::Token(Token(bucket)) | Limiter::Leaky(Leaky { bucket, .. }) => {
            for (start, _, _) in &history.admitted {
                let taken = bucket.rate.of_units(1) * units(&|(at, _, _)| at >= start).cast_signed();
                let most = bucket.full() + bucket.rate.given_back(now.since(*start));
                assert!(taken <= most, "{taken} of {most} shares: {rule:?}");
            }
        }
    }
}
