//! The leaky bucket: a level that drains.
//!
//! **Idea.** Each admission raises a level by its cost; the level drains by `rate` per `period`; what would overflow
//! `capacity` is refused (policing). With SHAPE the level is a queue: an admitted call is told how long to wait until
//! everything admitted before it has drained, and with WITHIN it is refused if that is longer than it is willing to
//! wait. **State.** The level and the instant it is true of; level 0 is as good as none. **Rounding, guarantee,
//! formula.** As in [`super::bucket`]: the debt is the level. A level above a capacity that has become smaller is kept.
//! **To read.** Turner, "New directions in communications" (1986); ITU-T I.371, annex A.

use super::bucket::{Bucket, Debt, Settled, Stored};
use super::time::{Micros, Span};
use super::{Ask, Decision, Policy, Write};

/// What an admitted call is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outflow {
    /// To go ahead at once.
    Police,
    /// To wait for its turn.
    Shape {
        /// The longest turn worth booking.
        within: Option<Span>,
    },
}

/// A leaky bucket's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaky {
    /// Capacity and rate.
    pub bucket: Bucket,
    /// Policing or shaping.
    pub outflow: Outflow,
}

impl Leaky {
    #[inline(always)]
    fn debt(&self, stored: Option<Stored>, now: Micros) -> Debt<'_> {
        let level = stored.map_or(0, |stored| self.bucket.rate.of_amount_ceil(stored.amount));
        self.bucket.debt(stored, level, now)
    }

    #[inline(always)]
    fn settle(&self, debt: &Debt<'_>, cost: u64, (decision, settled): (Decision, Settled)) -> (Decision, Write) {
        (decision, debt.write(cost, &settled, decision.reset, |level| level))
    }
}

impl Policy for Leaky {
    type State = Option<Stored>;

    /// Raises the level, or refuses.
    #[inline(always)]
    fn decide(&self, stored: &Option<Stored>, ask: Ask, now: Micros) -> (Decision, Write) {
        let debt = self.debt(*stored, now);
        let answer = match self.outflow {
            Outflow::Police => debt.decide(ask, false, None),
            Outflow::Shape { within } => debt.decide(ask, true, within),
        };
        self.settle(&debt, ask.cost, answer)
    }

    /// Lowers the level, not below empty.
    fn refund(&self, stored: &Option<Stored>, cost: u64, now: Micros) -> (Decision, Write) {
        let debt = self.debt(*stored, now);
        self.settle(&debt, cost, debt.refund(cost))
    }

    /// Raises the level whether or not it fits, up to twice the capacity.
    fn charge(&self, stored: &Option<Stored>, cost: u64, now: Micros) -> (Decision, Write) {
        let debt = self.debt(*stored, now);
        self.settle(&debt, cost, debt.charge(cost))
    }

    /// Mends without taking anything.
    fn mend(&self, stored: &Option<Stored>, _cost: u64, now: Micros) -> Write {
        self.debt(*stored, now).mend()
    }
}
