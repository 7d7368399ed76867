//! The token bucket: a burst, then an average rate.
//!
//! **Idea.** A bucket of `capacity` tokens that starts full and gains `rate` per `period` continuously; a call takes
//! its cost out or is refused. **State.** Tokens left (negative in debt) and the instant they are true of; a full
//! bucket is as good as none. **Rounding, guarantee, formula.** As in [`super::bucket`]: the debt is what is missing to
//! a full bucket. Tokens beyond a capacity that has become smaller are cut, by an admission and not before; a larger
//! capacity does not fill the bucket. **To read.** RFC 2697 and RFC 2698 for the token bucket as a meter.

use super::bucket::{Bucket, Debt, Settled, Stored};
use super::time::Micros;
use super::{Ask, Decision, Policy, Write};

/// A token bucket's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token(pub Bucket);

impl Token {
    #[inline(always)]
    fn debt(&self, stored: Option<Stored>, now: Micros) -> Debt<'_> {
        let owed = stored.map_or(0, |stored| self.0.full() - self.0.rate.of_amount_floor(stored.amount));
        self.0.debt(stored, owed, now)
    }

    #[inline(always)]
    fn settle(&self, debt: &Debt<'_>, cost: u64, (decision, settled): (Decision, Settled)) -> (Decision, Write) {
        (decision, debt.write(cost, &settled, decision.reset, |debt| debt.left_of(self.0.capacity)))
    }
}

impl Policy for Token {
    type State = Option<Stored>;

    /// Takes tokens, or refuses.
    #[inline(always)]
    fn decide(&self, stored: &Option<Stored>, ask: Ask, now: Micros) -> (Decision, Write) {
        let debt = self.debt(*stored, now);
        self.settle(&debt, ask.cost, debt.decide(ask, false, None))
    }

    /// Gives tokens back, not beyond a full bucket.
    fn refund(&self, stored: &Option<Stored>, cost: u64, now: Micros) -> (Decision, Write) {
        let debt = self.debt(*stored, now);
        self.settle(&debt, cost, debt.refund(cost))
    }

    /// Takes tokens whether or not there are enough, down to minus the capacity.
    fn charge(&self, stored: &Option<Stored>, cost: u64, now: Micros) -> (Decision, Write) {
        let debt = self.debt(*stored, now);
        self.settle(&debt, cost, debt.charge(cost))
    }

    /// Mends without taking anything.
    fn mend(&self, stored: &Option<Stored>, _cost: u64, now: Micros) -> Write {
        self.debt(*stored, now).mend()
    }
}
