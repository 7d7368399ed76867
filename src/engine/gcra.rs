//! The generic cell rate algorithm, in redis-cell's numbers and stored form.
//!
//! **Idea.** A bucket that is told as one instant. Every unit takes an emission interval of time; the theoretical
//! arrival time, TAT, is the instant at which everything admitted so far has been worked off, and what is left of it
//! from now is the debt. A call adds its units to the debt and is limited if that would pass the tolerance, which is
//! one interval per unit of the limit. **Formula.** interval = period / count, rounded down to a nanosecond; tolerance
//! = interval × limit; debt = max(TAT - now, 0); allowed if debt + interval × quantity ≤ tolerance. A negative
//! quantity gives units back, not beyond untouched.
//!
//! **State.** The TAT in nanoseconds and the key's expiry. redis-cell lets a key expire up to a millisecond before its
//! TAT. Here the expiry lies as far behind the TAT as the debt was long when it was written: a debt only shrinks, so
//! one that is longer now tells that the clock has stepped back and is cut to what it was, whoever asks with whatever
//! numbers. An expiry that cannot say so, redis-cell's or somebody's, leaves the tolerance of the call as the bound.
//! **Size.** A string of nineteen digits.
//!
//! **Rounding.** Waits and resets are exact here. What remains is room / interval with both cut to whole microseconds,
//! as redis-cell does: from about a thousand units a second on it may show more than there is. No decision rests on it.
//! **Guarantee.** At most limit + count × T/period units in any time T; the
//! interval is up to a nanosecond short. **To read.** ITU-T I.371, annex A: the virtual scheduling algorithm.

use super::Verdict;
use super::time::{Micros, Millis, Span};

/// The longest time in which a limit may come back: a hundred years of 365 days, in nanoseconds.
pub const LONGEST_NS: i64 = 100 * 365 * 86_400 * 1_000_000_000;

/// Nanoseconds below which an interval has no whole microsecond.
const NS_PER_US: i128 = 1_000;

/// A limit and the time that a unit takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gcra {
    limit: i64,
    interval_ns: i64,
}

/// What was found under a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The theoretical arrival time in nanoseconds since the Unix epoch.
    pub tat_ns: i64,
    /// The key's expiry.
    pub expiry: Option<Millis>,
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Throttled {
    /// Allowed, not yet, or never with these numbers.
    pub verdict: Verdict,
    /// Units that fit at once.
    pub limit: i64,
    /// Units left after this call.
    pub remaining: i64,
    /// Nanoseconds until the same call is allowed, if it is limited and ever will be.
    pub retry_ns: Option<i64>,
    /// Nanoseconds until everything is worked off.
    pub reset_ns: i64,
}

/// What becomes of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// It stays exactly as it is.
    Keep,
    /// It holds this TAT and expires then.
    Put {
        /// The theoretical arrival time in nanoseconds.
        tat_ns: i64,
        /// The expiry, which also says how long the debt is now.
        expiry: Millis,
    },
    /// It is deleted.
    Drop,
}

impl Gcra {
    /// A limit of at least one unit, each of which takes at least a nanosecond and all of them a hundred years at most.
    #[must_use]
    pub const fn new(limit: i64, interval_ns: i64) -> Option<Self> {
        if limit < 1 || interval_ns < 1 || limit > LONGEST_NS / interval_ns {
            return None;
        }
        Some(Self { limit, interval_ns })
    }

    /// Adds `quantity` units to the debt, or refuses.
    #[must_use]
    pub fn decide(&self, stored: Option<Stored>, quantity: i64, now: Micros) -> (Throttled, Write) {
        let interval = i128::from(self.interval_ns);
        let tolerance = interval * i128::from(self.limit);
        let debt = stored.map_or(Debt::NONE, |stored| Debt::of(stored, tolerance, now));
        let added = interval * i128::from(quantity);
        let wanted = (debt.ns + added).max(0);
        let limited = wanted > tolerance;
        let left = if limited { debt.ns } else { wanted };
        let wait = wanted - tolerance;
        let verdict = match limited {
            false => Verdict::Allow { answer: 1, delay: Span::ZERO },
            true if added <= tolerance => Verdict::Deny { wait: Span::ceil_of_ns(wait) },
            true => Verdict::Never,
        };
        let answer = Throttled {
            verdict,
            limit: self.limit,
            remaining: remaining(tolerance - left, interval),
            retry_ns: matches!(verdict, Verdict::Deny { .. }).then(|| whole(wait)),
            reset_ns: whole(left),
        };
        let write = match (quantity, limited) {
            (0, _) => Write::Keep,
            (_, true) if !debt.mended => Write::Keep,
            _ if left > 0 => put(left, now),
            _ if stored.is_some() => Write::Drop,
            _ => Write::Keep,
        };
        (answer, write)
    }
}

/// What is still to be worked off, and whether the key has to say so anew.
struct Debt {
    ns: i128,
    mended: bool,
}

impl Debt {
    const NONE: Self = Self { ns: 0, mended: false };

    fn of(stored: Stored, tolerance: i128, now: Micros) -> Self {
        let tat_ns = i128::from(stored.tat_ns);
        let told = stored.expiry.map_or(0, |expiry| expiry.ns() - Millis::ceil_of_ns(tat_ns).ns());
        let most = if told > 0 { told } else { tolerance };
        let ns = (tat_ns - now.ns()).max(0);
        Self { ns: ns.min(most), mended: told <= 0 || ns > most }
    }
}

/// A TAT that lies `left` ahead, and the expiry that says how far.
fn put(left: i128, now: Micros) -> Write {
    let tat_ns = now.ns() + left;
    let expiry = Millis::ceil_of_ns(tat_ns).plus_ceil(Span::ceil_of_ns(left));
    Write::Put { tat_ns: whole(tat_ns), expiry }
}

/// Units that fit into `room`, as redis-cell counts them.
fn remaining(room: i128, interval: i128) -> i64 {
    let unit = if interval < NS_PER_US { 1 } else { NS_PER_US };
    whole(((room / unit) / (interval / unit)).max(0))
}

/// A number that fits 64 bits in every sound state, and is the largest one in any other.
fn whole(number: i128) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW_US: i64 = 1_767_225_600_000_000;
    const SECOND: i64 = 1_000_000_000;

    fn at(us: i64) -> Micros {
        Micros::from_clock(NOW_US + us)
    }

    /// What the key holds after a write.
    fn apply(stored: Option<Stored>, write: Write) -> Option<Stored> {
        match write {
            Write::Keep => stored,
            Write::Put { tat_ns, expiry } => Some(Stored { tat_ns, expiry: Some(expiry) }),
            Write::Drop => None,
        }
    }

    fn numbers(answer: &Throttled) -> (bool, i64, Option<i64>, i64) {
        (answer.verdict.is_allow(), answer.remaining, answer.retry_ns, answer.reset_ns)
    }

    #[test]
    fn a_burst_passes_and_then_one_unit_per_interval() {
        let rule = Gcra::new(2, SECOND).unwrap();
        let mut stored = None;
        for (us, expected) in [
            (0, (true, 1, None, SECOND)),
            (0, (true, 0, None, 2 * SECOND)),
            (0, (false, 0, Some(SECOND), 2 * SECOND)),
            (999_999, (false, 0, Some(1_000), SECOND + 1_000)),
            (1_000_000, (true, 0, None, 2 * SECOND)),
            (9_000_000, (true, 1, None, SECOND)),
        ] {
            let (answer, write) = rule.decide(stored, 1, at(us));
            assert_eq!(numbers(&answer), expected, "at {us} us");
            stored = apply(stored, write);
        }
        let (never, write) = rule.decide(stored, 3, at(9_000_000));
        assert_eq!((never.verdict, never.retry_ns, write), (Verdict::Never, None, Write::Keep));
    }

    #[test]
    fn the_numbers_are_bounded_where_they_are_made() {
        assert!(Gcra::new(0, 1).is_none() && Gcra::new(1, 0).is_none() && Gcra::new(-1, -1).is_none());
        assert!(Gcra::new(2, LONGEST_NS / 2).is_some() && Gcra::new(3, LONGEST_NS / 2).is_none());
        assert!(Gcra::new(LONGEST_NS, 1).is_some() && Gcra::new(i64::MAX, i64::MAX).is_none());
    }

    #[test]
    fn units_given_back_end_at_untouched() {
        let rule = Gcra::new(5, SECOND).unwrap();
        let stored = apply(None, rule.decide(None, 3, at(0)).1);
        assert_eq!(numbers(&rule.decide(stored, -2, at(0)).0), (true, 4, None, SECOND));
        assert_eq!(rule.decide(stored, -3, at(0)).1, Write::Drop);
        let (answer, write) = rule.decide(stored, i64::MIN, at(0));
        assert_eq!((numbers(&answer), write), ((true, 5, None, 0), Write::Drop));
        assert_eq!(rule.decide(None, -1, at(0)).1, Write::Keep);
    }

    /// A call with smaller numbers must not forget the debt that larger numbers made.
    #[test]
    fn another_rule_keeps_the_debt_while_the_clock_goes_on() {
        let (large, small) = (Gcra::new(10, SECOND).unwrap(), Gcra::new(2, SECOND).unwrap());
        let stored = apply(None, large.decide(None, 10, at(0)).1);
        let (answer, write) = small.decide(stored, 1, at(0));
        assert_eq!((numbers(&answer), write), ((false, 0, Some(9 * SECOND), 10 * SECOND), Write::Keep));
    }

    #[test]
    fn a_clock_that_steps_back_leaves_the_debt_as_it_was() {
        let rule = Gcra::new(5, SECOND).unwrap();
        let stored = apply(None, rule.decide(None, 3, at(0)).1);
        let (answer, write) = rule.decide(stored, 3, at(-3_600_000_000));
        assert_eq!(numbers(&answer), (false, 2, Some(SECOND), 3 * SECOND));
        let mended = apply(stored, write);
        assert_ne!(mended, stored, "or the next call would find the same future");
        assert_eq!(numbers(&rule.decide(mended, 3, at(-3_599_000_000)).0), (true, 0, None, 5 * SECOND));
        assert_eq!(rule.decide(stored, 0, at(-3_600_000_000)).1, Write::Keep, "a look mends nothing");
    }

    /// redis-cell's expiry lies before the TAT, and a key that somebody made may have none.
    #[test]
    fn an_expiry_that_says_nothing_is_given_one_that_does() {
        let rule = Gcra::new(5, SECOND).unwrap();
        let tat_ns = at(3_000_000).ns();
        for (expiry, ahead_us) in [(Some(Millis::new(NOW_US / 1_000 + 2_999)), 0), (None, 0), (None, -3_600_000_000)] {
            let stored = Stored { tat_ns: whole(tat_ns), expiry };
            let (answer, write) = rule.decide(Some(stored), 5, at(ahead_us));
            let debt = if ahead_us == 0 { 3 } else { 5 };
            assert_eq!(numbers(&answer), (false, 5 - debt, Some(debt * SECOND), debt * SECOND));
            let expiry = at(ahead_us).floor_ms().plus_ceil(Span::from_ms(2 * debt * 1_000));
            assert_eq!(write, Write::Put { tat_ns: whole(at(ahead_us).ns()) + debt * SECOND, expiry });
        }
        let stale = Stored { tat_ns: whole(at(-1).ns()), expiry: None };
        assert_eq!(rule.decide(Some(stale), 6, at(0)).1, Write::Drop);
    }

    /// redis-cell cuts both sides to microseconds; below a microsecond it would divide by zero.
    #[test]
    fn what_remains_is_counted_as_redis_cell_counts() {
        assert_eq!(remaining(10 * 1_999, 1_999), 19);
        assert_eq!(remaining(10 * 999, 999), 10);
        assert_eq!(remaining(-1_998, 1_999), 0);
    }

    proptest! {
        /// The promise: a limited call passes after its wait and not a nanosecond earlier.
        #[test]
        fn a_wait_is_exact(
            limit in 1..1_000_i64, ms in 1..10_000_i64, spent in 1..1_000_i64, quantity in 1..1_000_i64
        ) {
            let rule = Gcra::new(limit, ms * 1_000_000).unwrap();
            let stored = apply(None, rule.decide(None, spent.min(limit), at(0)).1);
            if let Some(retry_ns) = rule.decide(stored, quantity, at(0)).0.retry_ns {
                prop_assert!(rule.decide(stored, quantity, at(retry_ns / 1_000)).0.verdict.is_allow());
                prop_assert!(!rule.decide(stored, quantity, at(retry_ns / 1_000 - 1)).0.verdict.is_allow());
            }
        }

        /// Whatever the clock does and whatever numbers are asked with, nobody waits longer than the longest
        /// tolerance so far, the key has an expiry, and at its expiry it would have been as good as none.
        #[test]
        fn no_wait_is_longer_than_the_numbers_allow(
            calls in proptest::collection::vec(
                (1..50_i64, 1..5_000_000_000_i64, -3..60_i64, -1_000_000_000..90_000_000_i64), 1..60
            )
        ) {
            let (mut us, mut stored, mut longest) = (0, None, 0);
            for (limit, interval_ns, quantity, step) in calls {
                us += step;
                let rule = Gcra::new(limit, interval_ns).unwrap();
                longest = longest.max(limit * interval_ns);
                let (answer, write) = rule.decide(stored, quantity, at(us));
                // The expiry tells the debt in whole milliseconds.
                let slack = 1_000_000;
                prop_assert!(answer.reset_ns <= longest + slack);
                prop_assert!(answer.retry_ns.is_none_or(|wait| wait <= longest + slack));
                prop_assert!(answer.verdict.is_allow() || write == Write::Keep || stored.is_some());
                if let Write::Put { tat_ns, expiry } = write {
                    prop_assert!(expiry.ns() >= i128::from(tat_ns) && i128::from(tat_ns) > at(us).ns());
                }
                stored = apply(stored, write).filter(|stored| stored.expiry.is_some_and(|end| end > at(us).floor_ms()));
            }
        }

        /// Hostile numbers give an answer, whatever stands in the key.
        #[test]
        fn no_number_is_too_large(
            limit in any::<i64>(), interval in any::<i64>(), quantity in any::<i64>(), tat_ns in any::<i64>(),
            us in any::<i64>()
        ) {
            if let Some(rule) = Gcra::new(limit, interval) {
                for expiry in [None, Some(Millis::new(us)), Some(Millis::new(i64::MAX))] {
                    let (answer, _) = rule.decide(Some(Stored { tat_ns, expiry }), quantity, Micros::from_clock(us));
                    prop_assert!(answer.reset_ns >= 0 && answer.remaining >= 0 && answer.retry_ns != Some(0));
                }
            }
        }
    }
}
