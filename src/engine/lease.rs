//! Leases: at most `limit` holders at a time.
//!
//! **Idea.** A holder is an id with the instant at which its lease ends; one that has ended holds nothing. **State.**
//! One entry per holder in a sorted set. **Rounding.** Waits up to a millisecond; an end is exact to the microsecond.
//! **Guarantee.** Never more than `limit` leases run at once, on the server's clock. A lease is not a lock: it can end
//! while its holder still works. Ends lie in the future by nature, so nothing is mended when the clock steps back.
//! **To read.** Gray and Cheriton, "Leases" (1989).

use super::time::{Micros, Millis, Span};
use super::{Decision, Verdict, moved_expiry};

/// Ended leases that a call may trim.
pub const TRIM: u64 = 250;

/// The numbers of one acquisition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acquire {
    /// Holders at a time.
    pub limit: u64,
    /// How long the lease runs.
    pub lease: Span,
}

/// What an acquisition needs to know of the leases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holders {
    /// Leases that run.
    pub live: u64,
    /// Leases that have ended and are not trimmed yet.
    pub ended: u64,
    /// Whether the caller's id holds a lease that runs.
    pub holds: bool,
    /// The latest end of a lease that is not the caller's.
    pub last_other: Option<Micros>,
    /// The latest end of all.
    pub last: Option<Micros>,
    /// The end of the lease at [`Acquire::leaving_index`].
    pub leaving: Option<Micros>,
    /// The key's expiry.
    pub expiry: Option<Millis>,
}

/// An acquisition that succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// When the lease ends.
    pub end: Micros,
    /// Ended leases to trim.
    pub trim: u64,
    /// The key's new expiry, if it moves.
    pub expiry: Option<Millis>,
}

impl Acquire {
    /// Which running lease, counted from the one that ends first, has to end before this call could succeed.
    #[must_use]
    pub fn leaving_index(&self, live: u64) -> Option<u64> {
        live.checked_sub(self.limit)
    }

    /// Gives the caller a lease, renews the one it has, or refuses.
    #[must_use]
    pub fn decide(&self, holders: &Holders, now: Micros) -> (Decision, Option<Held>) {
        let answer = |verdict, live: u64, last: Option<Micros>| Decision {
            verdict,
            limit: self.limit,
            remaining: self.limit.saturating_sub(live),
            reset: last.map_or(Span::ZERO, |last| last.since(now)),
        };
        if self.limit > 0 && (holders.holds || holders.live < self.limit) {
            let end = now.plus(self.lease);
            let last = holders.last_other.map_or(end, |other| other.max(end));
            let expiry = moved_expiry(holders.expiry, now, last.since(now), || self.lease);
            let live = holders.live + u64::from(!holders.holds);
            let verdict = Verdict::Allow { answer: 1, delay: Span::ZERO };
            let held = Held { end, trim: holders.ended.min(TRIM), expiry };
            return (answer(verdict, live, Some(last)), Some(held));
        }
        let verdict = match holders.leaving {
            Some(end) if self.limit > 0 => Verdict::Deny { wait: end.since(now) },
            _ => Verdict::Never,
        };
        (answer(verdict, holders.live, holders.last), None)
    }

    /// What a new holder would get.
    #[must_use]
    pub fn peek(&self, holders: &Holders, now: Micros) -> Decision {
        let newcomer = Holders { holds: false, last_other: holders.last, ..*holders };
        let (decision, _) = self.decide(&newcomer, now);
        Decision { reset: holders.last.map_or(Span::ZERO, |last| last.since(now)), ..decision }
    }
}
