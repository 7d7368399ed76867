//! TOKEN and LEAKY: an amount in exact fractions at an instant.

use super::books::{At, Books};
use super::words::{Algorithm, MAX_UNITS};
use num_bigint::BigInt;
use num_integer::{Integer, div_ceil};
use num_traits::ToPrimitive;
use std::cmp::Ordering;
use std::ops::{Add, Sub};

/// Deeds that a story holds before it is given up.
const CHAPTERS: usize = 200;

/// Never reduced: what is stored has the period for denominator, so that nothing grows, and a common divisor costs
/// more than all the rest.
#[derive(Clone, Debug)]
struct Fraction(BigInt, BigInt);

#[derive(Clone, Debug)]
pub struct Drip {
    pub algorithm: Algorithm,
    /// Tokens left, or the level.
    amount: Fraction,
    ts_us: i64,
    story: Option<Story>,
}

/// A second witness: everything booked since the limiter was last untouched, under numbers that never changed and a
/// clock that never went back. Neither full nor empty in between, it holds what the sum of it all says.
#[derive(Clone, Debug)]
struct Story {
    /// Capacity, rate, period.
    numbers: (i128, i128, i64),
    begun_us: i64,
    deeds: Vec<i128>,
}

impl Drip {
    pub fn fresh(at: &At) -> Drip {
        let algorithm = at.rule.algorithm;
        let amount = if algorithm == Algorithm::Token { at.rule.limit } else { 0 };
        Drip { algorithm, amount: whole(amount), ts_us: at.now_us, story: None }
    }

    /// Units free at this instant, in debt negative. The call's numbers hold for all the time since `ts`.
    fn free(&self, at: &At) -> Fraction {
        let moved = moved(at, self.ts_us.min(at.now_us));
        let free = match self.algorithm {
            Algorithm::Token => &self.amount + &moved,
            _ => &(&whole(at.rule.limit) - &self.amount) + &moved,
        };
        if free < whole(at.rule.limit) { free } else { whole(at.rule.limit) }
    }

    /// Stores what is free, in units of 1/(period in microseconds), what does not fit rounded against the caller.
    fn store(&mut self, at: &At, free: &Fraction) {
        let period_us = BigInt::from(at.period_us());
        let free = Fraction((&free.0 * &period_us).div_floor(&free.1), period_us);
        self.amount = match self.algorithm {
            Algorithm::Token => free,
            _ => &whole(at.rule.limit) - &free,
        };
        self.ts_us = at.now_us;
    }

    /// Books units (gives them back, if negative) and goes on with the story, or begins one.
    fn book(&mut self, at: &At, units: i128) {
        let numbers = (at.rule.limit, at.rule.rate, at.rule.period_ms);
        let free = self.free(at);
        if free == whole(at.rule.limit) {
            self.story = Some(Story { numbers, begun_us: at.now_us, deeds: Vec::new() });
        }
        self.store(at, &(&free - &whole(units)));
        let mut story = self.story.take().filter(|story| story.numbers == numbers && story.deeds.len() < CHAPTERS);
        if let Some(story) = &mut story {
            // Recounted from zero: full, less all that was booked, plus the rate over the whole time.
            story.deeds.push(units);
            let booked: i128 = story.deeds.iter().sum();
            let sum = &whole(at.rule.limit - booked) + &moved(at, story.begun_us);
            assert_eq!(self.free(at), sum, "the balance and the sum of all deeds disagree: {story:?}");
        }
        self.story = story;
    }

    /// Units of time, of which the period has so many, until so many units are free.
    fn time_for(&self, at: &At, units: i128, period: i64) -> i128 {
        let Fraction(part, of) = &whole(units) - &self.free(at);
        (part * period).div_ceil(&(of * at.rule.rate)).to_i128().unwrap()
    }
}

/// What the rate gives back from an instant until now.
fn moved(at: &At, from_us: i64) -> Fraction {
    Fraction(BigInt::from(at.now_us - from_us) * at.rule.rate, BigInt::from(at.period_us()))
}

fn whole(units: i128) -> Fraction {
    Fraction(BigInt::from(units), BigInt::from(1))
}

impl Add for &Fraction {
    type Output = Fraction;
    fn add(self, other: &Fraction) -> Fraction {
        if self.1 == other.1 {
            return Fraction(&self.0 + &other.0, self.1.clone());
        }
        Fraction(&self.0 * &other.1 + &other.0 * &self.1, &self.1 * &other.1)
    }
}

impl Sub for &Fraction {
    type Output = Fraction;
    fn sub(self, other: &Fraction) -> Fraction {
        self + &Fraction(-&other.0, other.1.clone())
    }
}

impl PartialOrd for Fraction {
    fn partial_cmp(&self, other: &Fraction) -> Option<Ordering> {
        Some((&self.0 * &other.1).cmp(&(&other.0 * &self.1)))
    }
}

impl PartialEq for Fraction {
    fn eq(&self, other: &Fraction) -> bool {
        self.partial_cmp(other) == Some(Ordering::Equal)
    }
}

impl Books for Drip {
    /// A `ts` from the future becomes now; the amount stays.
    fn mend(&mut self, at: &At) {
        if self.ts_us > at.now_us {
            self.ts_us = at.now_us;
            self.story = None;
        }
    }

    fn spare(&self, at: &At) -> i128 {
        let free = self.free(at);
        free.0.div_floor(&free.1).to_i128().unwrap()
    }

    fn wait_for(&self, at: &At, units: i128) -> i128 {
        self.time_for(at, units, at.rule.period_ms)
    }

    fn reset(&self, at: &At) -> i128 {
        self.time_for(at, at.rule.limit, at.rule.period_ms)
    }

    fn take(&mut self, at: &At, units: i128) {
        self.book(at, units);
    }

    /// Stops exactly at the bound, a fraction included; books that are already beyond it stay.
    fn charge(&mut self, at: &At, units: i128) -> bool {
        let (free, bound) = (self.free(at), whole(-at.rule.limit));
        if &free - &whole(units) >= bound {
            self.book(at, units);
        } else if free > bound {
            self.story = None;
            self.store(at, &bound);
        }
        free > bound
    }

    /// Never beyond untouched, where the caller deletes the key.
    fn refund(&mut self, at: &At, units: i128) -> i128 {
        let owed = &whole(at.rule.limit) - &self.free(at);
        let given = units.min(owed.0.div_ceil(&owed.1).to_i128().unwrap());
        if whole(given) < owed {
            self.book(at, -given);
        } else if given > 0 {
            *self = Drip::fresh(at);
        }
        given
    }

    fn forget(&self, at: &At) -> (i64, i64) {
        let left_us = self.time_for(at, at.rule.limit, at.period_us()).min(MAX_UNITS * 1000);
        let full_ms = div_ceil(at.rule.limit * i128::from(at.rule.period_ms), at.rule.rate);
        let full_ms = full_ms.min(MAX_UNITS);
        (at.now_us + i64::try_from(left_us).unwrap(), i64::try_from(full_ms).unwrap())
    }
}
