//! The questions that are put to every limiter, whatever its algorithm, and the state of one key.

use super::buckets::Buckets;
use super::counter::Counter;
use super::drip::Drip;
use super::leases::Leases;
use super::log::Log;
use super::words::{Algorithm, Rule};

/// A rule at an instant: every question about a limiter is asked with one.
#[derive(Clone, Copy)]
pub struct At<'a> {
    pub now_us: i64,
    pub rule: &'a Rule,
}

impl At<'_> {
    pub fn now_ms(&self) -> i64 {
        self.now_us.div_euclid(1000)
    }

    pub fn period_us(&self) -> i64 {
        self.rule.period_ms * 1000
    }
}

/// Waits and resets are whole milliseconds rounded up; units are whole.
pub trait Books {
    /// Brings instants from the future down to now, and gives an endless window an end.
    fn mend(&mut self, at: &At);
    /// The limit less what is booked, rounded down; negative when more is booked than the limit.
    fn spare(&self, at: &At) -> i128;
    /// Until there are so many units, at most the limit, which there are not now.
    fn wait_for(&self, at: &At, units: i128) -> i128;
    /// Until untouched.
    fn reset(&self, at: &At) -> i128;
    /// Books units that there are.
    fn take(&mut self, at: &At, units: i128);
    /// Books units up to one limit beyond the limit; whether that changed anything.
    fn charge(&mut self, at: &At, units: i128) -> bool;
    /// Takes units off the books, a fraction counting as one; how many.
    fn refund(&mut self, at: &At, units: i128) -> i128;
    /// The first microsecond at which the state is as good as absent, and the milliseconds from empty to full.
    fn forget(&self, at: &At) -> (i64, i64);

    fn room(&self, at: &At) -> i128 {
        self.spare(at).max(0)
    }

    fn untouched(&self, at: &At) -> bool {
        self.spare(at) == at.rule.limit
    }

    /// Whether the contract leaves open what this state answers, apart from the key being gone.
    fn open(&self, _at: &At) -> bool {
        false
    }

    /// A request with an ID whose outcome is already on the books.
    fn repeated(&self, _at: &At) -> bool {
        false
    }

    /// The key is shut by BLOCK.
    fn shut(&self, _at: &At) -> bool {
        false
    }
}

/// What a key holds.
#[derive(Clone, Debug)]
pub enum Value {
    Counter(Counter),
    Log(Log),
    Buckets(Buckets),
    Drip(Drip),
    Leases(Leases),
    Foreign,
}

impl Value {
    pub fn fresh(at: &At) -> Value {
        match at.rule.algorithm {
            Algorithm::Fixed => Value::Counter(Counter::default()),
            Algorithm::Log => Value::Log(Log::default()),
            Algorithm::Buckets => Value::Buckets(Buckets::default()),
            Algorithm::Token | Algorithm::Leaky => Value::Drip(Drip::fresh(at)),
        }
    }

    /// The state as the books of this rule; `None` when the key is another algorithm's or nobody's.
    pub fn books(&self, at: &At) -> Option<&dyn Books> {
        match (self, at.rule.algorithm) {
            (Value::Counter(counter), Algorithm::Fixed) => Some(counter),
            (Value::Log(log), Algorithm::Log) => Some(log),
            (Value::Buckets(buckets), Algorithm::Buckets) => Some(buckets),
            (Value::Drip(drip), algorithm) if drip.algorithm == algorithm => Some(drip),
            _ => None,
        }
    }

    pub fn books_mut(&mut self, at: &At) -> Option<&mut dyn Books> {
        self.books(at)?;
        match self {
            Value::Counter(counter) => Some(counter),
            Value::Log(log) => Some(log),
            Value::Buckets(buckets) => Some(buckets),
            Value::Drip(drip) => Some(drip),
            _ => None,
        }
    }
}
