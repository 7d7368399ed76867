//! The budget: in any interval at most what the algorithm promises, and no less than it can.

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use super::scenes::{Cost, DAY_MS, Limiter, Step, World, any_limiter, cost, law, step};
use crate::engine::bucket::{Bucket, Stored};
use crate::engine::leaky::{Leaky, Outflow};
use crate::engine::rate::{Amount, Rate};
use crate::engine::time::{Micros, Span};
use crate::engine::token::Token;
use crate::engine::{Ask, Change, Loaded, Write, decide};
use crate::laws::calls::Family;
use crate::laws::clock::BEGIN_US;

/// Units that were admitted, or the first refusal to look at.
#[derive(Clone, Copy, Debug)]
struct Admitted {
    at_us: i64,
    units: i128,
    delay_ms: i64,
}

/// A call that was answered, with what had been admitted before.
struct Answered<'a> {
    limiter: &'a Limiter,
    before: &'a [Admitted],
    at_us: i64,
    cost: u64,
    five: [i64; 5],
}

impl Answered<'_> {
    fn wanted(&self) -> i128 {
        i128::from(if self.limiter.has("PARTIAL") { 1 } else { self.cost })
    }

    fn limit(&self) -> i128 {
        i128::from(self.limiter.limit)
    }

    fn granted(&self) -> i128 {
        let [allowed, ..] = self.five;
        if allowed == 0 || self.limiter.has("PARTIAL") { i128::from(allowed) } else { i128::from(self.cost) }
    }

    /// Units admitted before that satisfy a condition.
    fn units(&self, counts: impl Fn(&Admitted) -> bool) -> i128 {
        self.before.iter().filter(|admitted| counts(admitted)).map(|admitted| admitted.units).sum()
    }

    /// At most `most` units count together, and a refusal only where this one would have been too many.
    fn fits(&self, counted: i128, most: i128) -> TestCaseResult {
        prop_assert!(counted + self.granted() <= most, "{counted} and {} units, at most {most}", self.granted());
        Ok(())
    }

    fn is_refused_for(&self, counted: i128) -> TestCaseResult {
        let refused = self.granted() == 0;
        prop_assert!(!refused || counted + self.wanted() > self.limit(), "refused {} with {counted}", self.wanted());
        Ok(())
    }
}

/// The start of the window that an instant lies in.
fn window(limiter: &Limiter, at_ms: i64) -> i64 {
    let offset = limiter.standing.strip_prefix("ALIGN TZ ").map_or(0, |text| {
        let minutes = text[1..3].parse::<i64>().unwrap() * 60 + text[4..].parse::<i64>().unwrap();
        if text.starts_with('-') { -minutes * 60_000 } else { minutes * 60_000 }
    });
    // Weeks begin on Monday, the epoch on a Thursday.
    let origin = if limiter.period.ends_with('w') { -3 * DAY_MS } else { 0 };
    (at_ms + offset - origin).div_euclid(limiter.period_ms)
}

fn is_within_budget(answered: &Answered<'_>, opened_ms: i64) -> TestCaseResult {
    let (limiter, now_us) = (answered.limiter, answered.at_us);
    let (period_us, now_ms) = (limiter.period_ms * 1_000, now_us / 1_000);
    match limiter.family {
        Family::Fixed => {
            let open = now_ms < opened_ms + limiter.period_ms;
            let counted = answered.units(|admitted| open && admitted.at_us / 1_000 >= opened_ms);
            answered.fits(counted, answered.limit())?;
            answered.is_refused_for(counted)
        }
        Family::Aligned => {
            let counted = answered.units(|admitted| window(limiter, admitted.at_us / 1_000) == window(limiter, now_ms));
            answered.fits(counted, answered.limit())?;
            answered.is_refused_for(counted)
        }
        Family::Log => {
            let counted = answered.units(|admitted| now_us - admitted.at_us < period_us);
            answered.fits(counted, answered.limit())?;
            answered.is_refused_for(counted)
        }
        Family::Buckets => sub_windows_and_the_log(answered),
        Family::Token | Family::Leaky => {
            for first in answered.before {
                let counted = answered.units(|admitted| admitted.at_us >= first.at_us);
                let passed = i128::from(now_us - first.at_us) * i128::from(limiter.rate);
                // capacity + rate x T / period, in units of 1 / period.
                let most = answered.limit() * i128::from(period_us) + passed;
                let together = (counted + answered.granted()) * i128::from(period_us);
                prop_assert!(together <= most, "{together} in shares, at most {most}");
            }
            answered.fits(0, answered.limit())
        }
        Family::Calendar | Family::LogWithIds | Family::Leases => Ok(()),
    }
}

/// Sub-windows never admit more than the exact log over the same admissions, and refuse at most one sub-window longer.
fn sub_windows_and_the_log(answered: &Answered<'_>) -> TestCaseResult {
    let (limiter, now_us) = (answered.limiter, answered.at_us);
    let now_ms = now_us / 1_000;
    let exact = answered.units(|admitted| now_us - admitted.at_us < limiter.period_ms * 1_000);
    answered.fits(exact, answered.limit())?;
    let longer_ms = limiter.period_ms + limiter.part_ms();
    answered.is_refused_for(answered.units(|admitted| now_ms - admitted.at_us / 1_000 < longer_ms))?;
    let [allowed, .., wait, _] = answered.five;
    if allowed == 0 && wait > 0 {
        let later_ms = now_ms + wait - 1 - limiter.part_ms();
        // A sub-window earlier than a millisecond before it admits, the log would still be too full.
        let then = answered.units(|admitted| later_ms - admitted.at_us / 1_000 < limiter.period_ms);
        prop_assert!(
            then + answered.wanted() > answered.limit(),
            "the wait {wait} is longer than a sub-window too much"
        );
    }
    Ok(())
}

fn arrivals() -> impl Strategy<Value = Vec<(Step, Cost)>> {
    proptest::collection::vec((step(true), cost()), 1..40)
}

/// Protects what is behind the limiter: in any interval no more passes than the algorithm says, and of the windows
/// and the log no less either.
#[test]
fn in_any_interval_at_most_what_the_algorithm_promises() {
    law(6_000, (any_limiter(), arrivals()), |(mut limiter, arrivals)| {
        if limiter.has("BLOCK") || limiter.has("ID") {
            limiter.options.clear();
        }
        let (mut world, mut before, mut opened_ms) = (World::new(), Vec::<Admitted>::new(), i64::MIN / 2);
        for (step, cost) in arrivals {
            world.step(step, &limiter);
            let cost = cost.of(&limiter);
            let five = world.five(&limiter.decide(cost));
            if cost == 0 {
                continue;
            }
            let answered = Answered { limiter: &limiter, before: &before, at_us: world.now_us, cost, five };
            is_within_budget(&answered, opened_ms)?;
            let units = answered.granted();
            if units > 0 {
                let now_ms = world.now_us / 1_000;
                if now_ms >= opened_ms + limiter.period_ms {
                    opened_ms = now_ms;
                }
                before.push(Admitted { at_us: world.now_us, units, delay_ms: five[3] });
            }
        }
        if limiter.has("SHAPE") { turns_come_in_order(&limiter, &before) } else { Ok(()) }
    });
}

/// A turn comes exactly when everything admitted before it has drained, rounded up to a millisecond.
fn turns_come_in_order(limiter: &Limiter, admitted: &[Admitted]) -> TestCaseResult {
    let (rate, period_us) = (i128::from(limiter.rate), i128::from(limiter.period_ms) * 1_000);
    let (mut level, mut at_us) = (0_i128, BEGIN_US - 10 * DAY_MS);
    for one in admitted {
        level = (level - i128::from(one.at_us - at_us) * rate).max(0);
        at_us = one.at_us;
        let turn_ms = (level + rate * 1_000 - 1) / (rate * 1_000);
        prop_assert_eq!(i128::from(one.delay_ms), turn_ms.min(999_999_999_999_999));
        level += one.units * period_us;
    }
    Ok(())
}

/// Protects a pool: with the clock going forward, never more leases run than the limit.
#[test]
fn never_more_holders_than_the_limit() {
    let deed = (0..5_u8, 0..9_usize, 1..2_000_i64, 0..700_i64);
    law(2_000, (proptest::collection::vec(deed, 1..40), 0..5_u64), |(deeds, limit)| {
        let (mut world, mut ends) = (World::new(), [0_i64; 9]);
        for (verb, id, lease_ms, step_ms) in deeds {
            world.now_us += step_ms * 1_009;
            let end = world.now_us + lease_ms * 1_000;
            let holds = ends[id] > world.now_us;
            let running = ends.iter().filter(|end| **end > world.now_us).count();
            let free = u64::try_from(running).unwrap() < limit;
            let acquired = match verb {
                0 => {
                    world.call(&format!("RL.RELEASE k {id}"));
                    ends[id] = 0;
                    continue;
                }
                1 => world.call(&format!("RL.RENEW k {lease_ms}ms {id}")) == crate::laws::model::Answer::Count(1),
                _ => world.five(&format!("RL.ACQUIRE k {limit} {lease_ms}ms ID {id}"))[0] == 1,
            };
            prop_assert_eq!(acquired, holds || (free && verb > 1), "{} hold of {}", running, limit);
            if acquired {
                ends[id] = end;
            }
        }
        Ok(())
    });
}

const CALLS: i64 = 10_000_000;

/// Ten million admissions a few microseconds apart, which never fill or empty the bucket.
fn drive(make: impl Fn(Option<Stored>) -> Loaded<'static>) -> Stored {
    let mut stored = None;
    for call in 1..=CALLS {
        let now = Micros::from_clock(BEGIN_US + call * 7);
        let (decision, write) = decide(&make(stored), Ask { cost: 1, partial: false }, now);
        assert!(decision.verdict.is_allow());
        let Write::Put(Change::Level { amount, at }, _) = write else { panic!("{write:?}") };
        stored = Some(Stored { amount, at, expiry: None });
    }
    stored.expect("there were calls")
}

/// Protects busy keys from drifting: ten million calls later the state is what exact fractions say, in a bucket of
/// either kind, with a rate that fits no decimal.
#[test]
fn ten_million_calls_later_nothing_has_drifted() {
    let (capacity, units, period) = (900_000_000, 13, Span::from_ms(3_001));
    let bucket = Bucket { capacity, rate: Rate::new(units, period).unwrap() };
    // The first call finds the bucket untouched, so that it is worked off during one interval less.
    let worked_off = i128::from(CALLS - 1) * 7 * 13;
    let shares = i128::from(period.us());
    let value =
        |amount: Amount| i128::from(amount.whole) * i128::from(amount.denominator) + i128::from(amount.numerator);
    let tokens = drive(|stored| Loaded::Token(Token(bucket), stored)).amount;
    assert_eq!(value(tokens), (i128::from(capacity) - i128::from(CALLS)) * shares + worked_off);
    let level = drive(|stored| Loaded::Leaky(Leaky { bucket, outflow: Outflow::Police }, stored)).amount;
    assert_eq!(value(level), i128::from(CALLS) * shares - worked_off);
    assert_eq!(tokens.denominator, period.us(), "a fraction of a unit that is a rest");
}
