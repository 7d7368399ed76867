//! What token and leaky buckets share: a debt that is worked off at a rate.
//!
//! **Idea.** A token bucket that holds `capacity - d` tokens and a leaky bucket whose level is `d` owe the same: `d`
//! units, worked off continuously, which may not exceed the capacity. Both are read into that debt, decided upon, and
//! written back in their own words. **Formula.** In shares of a unit (see [`super::rate`]) with `C` the capacity,
//! `c` the cost and `D` the debt now: admit exactly if `D + c <= C`; else the wait is the time for `D + c - C`, rounded
//! up to a microsecond and then to a millisecond, which is the same as rounding once. **State.** An amount with an
//! exact fraction, and the microsecond it is true of. **Rounding.** None while the period stays; under another period a
//! stored fraction that does not fit is rounded against the caller. **Guarantee.** At most
//! `capacity + rate x T / period` units in any time `T`. **To read.** "Generic cell rate algorithm" (ITU-T I.371), of
//! which this is the continuous-state form; Turner's leaky bucket as a meter.

use super::rate::{Amount, Rate, Shares};
use super::time::{Micros, Millis, Span};
use super::{Ask, Change, Decision, Verdict, Write, moved_expiry};

/// A bucket's stored state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Tokens left, or the level.
    pub amount: Amount,
    /// The instant that the amount is true of.
    pub at: Micros,
    /// The key's expiry.
    pub expiry: Option<Millis>,
}

/// A bucket's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// The burst: units that fit at once.
    pub capacity: u64,
    /// How fast debt is worked off.
    pub rate: Rate,
}

/// What to do with a debt once it is known; the two buckets differ only in how they write it.
pub struct Debt<'a> {
    bucket: &'a Bucket,
    owed: Shares,
    stored: Option<Stored>,
    now: Micros,
}

/// A debt after a call, and what the call does to the key.
pub enum Settled {
    /// The key stays.
    Untouched,
    /// A new debt is stored.
    Owes(Amount),
    /// Nothing is owed any more after units were given back.
    Nothing,
}

impl Bucket {
    /// Shares of the whole capacity.
    #[must_use]
    #[inline(always)]
    pub fn full(&self) -> Shares {
        self.rate.of_units(self.capacity)
    }

    /// Whole units that fit beside a debt.
    #[inline(always)]
    fn room(&self, debt: Amount) -> u64 {
        u64::try_from(debt.left_of(self.capacity).whole).unwrap_or(0)
    }

    /// The debt now, from the debt as of the stored instant.
    #[must_use]
    #[inline(always)]
    pub fn debt(&self, stored: Option<Stored>, owed_then: Shares, now: Micros) -> Debt<'_> {
        let worked_off = stored.map_or(0, |stored| self.rate.given_back(now.since(stored.at)));
        Debt { bucket: self, owed: (owed_then - worked_off).max(0), stored, now }
    }
}

impl Debt<'_> {
    #[inline(always)]
    fn decision(&self, verdict: Verdict, owed: Shares) -> Decision {
        self.settled(verdict, owed).0
    }

    /// The answer of a call after which so much is owed, and that debt in whole units and a fraction.
    #[inline(always)]
    fn settled(&self, verdict: Verdict, owed: Shares) -> (Decision, Amount) {
        let Bucket { capacity, rate } = *self.bucket;
        let debt = rate.amount(owed);
        let remaining = self.bucket.room(debt);
        (Decision { verdict, limit: capacity, remaining, reset: rate.time_ceil(owed) }, debt)
    }

    /// The time until everything owed is worked off.
    #[must_use]
    pub fn turn(&self) -> Span {
        self.bucket.rate.time_ceil(self.owed)
    }

    /// Takes the units asked for if they fit; `within` bounds the turn and `queued` says that the caller waits for it.
    #[must_use]
    #[inline(always)]
    pub fn decide(&self, ask: Ask, queued: bool, within: Option<Span>) -> (Decision, Settled) {
        let Bucket { capacity, rate } = *self.bucket;
        if ask.cost == 0 {
            let verdict = Verdict::Allow { answer: ask.answer(0), delay: Span::ZERO };
            return (self.decision(verdict, self.owed), Settled::Untouched);
        }
        if ask.wanted() > capacity {
            return (self.decision(Verdict::Never, self.owed), Settled::Untouched);
        }
        let missing = self.owed + rate.of_units(ask.wanted()) - self.bucket.full();
        let early = within.map_or(Span::ZERO, |within| self.turn().minus(within));
        if missing > 0 || early > Span::ZERO {
            let wait = rate.time_ceil(missing).max(early);
            return (self.decision(Verdict::Deny { wait }, self.owed), Settled::Untouched);
        }
        let granted = if ask.partial { ask.cost.min(self.bucket.room(rate.amount(self.owed))) } else { ask.cost };
        let owed = self.owed + rate.of_units(granted);
        let delay = if queued { self.turn() } else { Span::ZERO };
        let verdict = Verdict::Allow { answer: ask.answer(granted), delay };
        let (decision, debt) = self.settled(verdict, owed);
        (decision, Settled::Owes(debt))
    }

    /// Gives units back, a fraction on the books counting as one.
    #[must_use]
    pub fn refund(&self, cost: u64) -> (Decision, Settled) {
        let rate = self.bucket.rate;
        let units = cost.min(u64::try_from(rate.amount(self.owed).ceil()).unwrap_or(0));
        let owed = (self.owed - rate.of_units(units)).max(0);
        let (decision, debt) = self.settled(Verdict::Returned { units }, owed);
        let settled = match (units, owed) {
            (0, _) => Settled::Untouched,
            (_, 0) => Settled::Nothing,
            _ => Settled::Owes(debt),
        };
        (decision, settled)
    }

    /// Books units up to a debt of twice the capacity.
    #[must_use]
    pub fn charge(&self, cost: u64) -> (Decision, Settled) {
        let Bucket { capacity, rate } = *self.bucket;
        if cost == 0 {
            let verdict = Verdict::Booked { within: true, wait: Some(Span::ZERO) };
            return (self.decision(verdict, self.owed), Settled::Untouched);
        }
        let full = self.bucket.full();
        let owed = self.owed.max((self.owed + rate.of_units(cost)).min(full * 2));
        let wait = (capacity > 0).then(|| rate.time_ceil(owed + rate.of_units(1) - full));
        let verdict = Verdict::Booked { within: capacity > 0 && owed <= full, wait };
        let (decision, debt) = self.settled(verdict, owed);
        (decision, if owed == self.owed { Settled::Untouched } else { Settled::Owes(debt) })
    }

    /// The expiry that a debt needs which is worked off in `needed`, if the present one is too short for it.
    #[inline(always)]
    fn expiry_for(&self, needed: Span) -> Option<Millis> {
        let current = self.stored.and_then(|stored| stored.expiry);
        moved_expiry(current, self.now, needed, || self.bucket.rate.time_ceil(self.bucket.full()))
    }

    /// Mends an instant from the future and an expiry that is missing or too short.
    #[must_use]
    pub fn mend(&self) -> Write {
        self.mend_for(self.turn())
    }

    fn mend_for(&self, needed: Span) -> Write {
        let Some(stored) = self.stored else { return Write::Keep };
        let expiry = self.expiry_for(needed);
        if stored.at > self.now {
            return Write::Put(Change::Stamp { at: self.now }, expiry);
        }
        Write::expiry(expiry)
    }

    /// What a settled debt that is worked off in `needed` does to the key; `amount` says it in the bucket's own words.
    #[must_use]
    #[inline(always)]
    pub fn write(&self, cost: u64, settled: &Settled, needed: Span, amount: impl FnOnce(Amount) -> Amount) -> Write {
        match settled {
            Settled::Untouched if cost == 0 => Write::Keep,
            Settled::Untouched => self.mend_for(needed),
            Settled::Owes(debt) => {
                Write::Put(Change::Level { amount: amount(*debt), at: self.now }, self.expiry_for(needed))
            }
            Settled::Nothing => Write::Drop,
        }
    }
}
