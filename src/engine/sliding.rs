//! The sliding window as an exact log.
//!
//! **Idea.** Each admitted unit is an entry with its microsecond; units are the entries younger than the period.
//! **Formula.** With `n` live units, admit exactly if `n + cost <= limit`; else the wait is until the
//! `(n + cost - limit)`-th oldest live entry leaves the window. **State.** One entry per unit, in a sorted set; what
//! this file sees are the few numbers in [`Log`], counted by whoever holds the set. **Rounding.** Waits up to a
//! millisecond, nothing else. **Guarantee.** Never more than `limit` units in any period; entries that lie in the
//! future (the clock stepped back) count as now. **Bounded work.** A call trims or mends at most `cost + 250` entries,
//! however many have left the window. **To read.** "Sliding window log" in any text on rate limiting.

use super::time::{Micros, Millis, Span};
use super::{Ask, Change, Decision, Policy, Verb, Verdict, Write, moved_expiry};

/// Entries that a call may trim or mend beyond its cost.
const SWEEP: u64 = 250;
/// Entries that an admission trims beyond its cost: enough to catch up, few enough to be quick.
const TRIM: u64 = 8;

/// A log's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sliding<'a> {
    /// Units in any period.
    pub limit: u64,
    /// The window's length.
    pub period: Span,
    /// The caller's request id.
    pub id: Option<&'a [u8]>,
}

/// What a call needs to know of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// Whether the key exists.
    pub exists: bool,
    /// Entries younger than the period, those of the future included.
    pub live: u64,
    /// Entries that have left the window and are not trimmed yet.
    pub dead: u64,
    /// Entries that lie in the future.
    pub future: u64,
    /// The instant of the newest entry.
    pub newest: Option<Micros>,
    /// The instant of the live entry at [`Sliding::leaving_index`], if there is one.
    pub leaving: Option<Micros>,
    /// Whether the request id's first unit is in the window.
    pub seen: bool,
    /// Units that a refund takes out.
    pub returned: u64,
    /// The instant of the newest entry that a refund leaves.
    pub newest_left: Option<Micros>,
    /// The key's expiry.
    pub expiry: Option<Millis>,
}

/// Changes of a log, in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogChange {
    /// Entries to take out: those of the request id, or the highest ones.
    pub take_out: u64,
    /// Entries of the future that become entries of now, at most, the highest first.
    pub mend: u64,
    /// Units to add now.
    pub add: u64,
    /// Entries that left the window to trim, at most, the lowest first.
    pub trim: u64,
}

impl Sliding<'_> {
    /// Which live entry, counted from the oldest, has to leave before this call could succeed.
    #[must_use]
    pub fn leaving_index(&self, verb: Verb, ask: Ask, live: u64) -> Option<u64> {
        let after = match verb {
            Verb::Decide => live.saturating_add(ask.wanted()),
            Verb::Charge => live.saturating_add(self.booked(ask.cost, live)).saturating_add(1),
            Verb::Refund => return None,
        };
        after.checked_sub(self.limit)?.checked_sub(1)
    }

    fn booked(&self, cost: u64, live: u64) -> u64 {
        cost.min(self.limit.saturating_mul(2).saturating_sub(live))
    }

    /// Until the entry made at `then` leaves the window.
    fn until_gone(&self, then: Micros, now: Micros) -> Span {
        self.period.minus(now.since(then))
    }

    fn decision(&self, verdict: Verdict, live: u64, newest: Option<Micros>, now: Micros) -> Decision {
        let reset = newest.filter(|_| live > 0).map_or(Span::ZERO, |newest| self.until_gone(newest, now));
        Decision { verdict, limit: self.limit, remaining: self.limit.saturating_sub(live), reset }
    }

    fn expiry_for(&self, log: &Log, newest: Option<Micros>, now: Micros) -> Option<Millis> {
        let needed = newest.map_or(Span::ZERO, |newest| self.until_gone(newest, now));
        moved_expiry(log.expiry, now, needed, || self.period)
    }

    /// Adds units, trims what has left the window and mends what lies in the future.
    fn add(&self, log: &Log, units: u64, cost: u64, now: Micros) -> Write {
        let trim = log.dead.min(cost + TRIM);
        let mend = log.future.min(cost + SWEEP - trim);
        let change = LogChange { add: units, trim, mend, ..LogChange::default() };
        Write::Put(Change::Log(change), self.expiry_for(log, Some(now), now))
    }
}

impl Policy for Sliding<'_> {
    type State = Log;

    /// Takes the units asked for, or refuses.
    fn decide(&self, log: &Log, ask: Ask, now: Micros) -> (Decision, Write) {
        let allow = |answer| Verdict::Allow { answer, delay: Span::ZERO };
        if ask.cost == 0 {
            return (self.decision(allow(ask.answer(0)), log.live, log.newest, now), Write::Keep);
        }
        if log.seen {
            return (self.decision(allow(1), log.live, log.newest, now), self.mend(log, ask.cost, now));
        }
        if let Some(granted) = ask.granted(self.limit.saturating_sub(log.live)) {
            let verdict = allow(ask.answer(granted));
            let write = self.add(log, granted, ask.cost, now);
            return (self.decision(verdict, log.live.saturating_add(granted), Some(now), now), write);
        }
        let verdict = if ask.wanted() > self.limit {
            Verdict::Never
        } else {
            Verdict::Deny { wait: self.until_gone(log.leaving.unwrap_or(now), now) }
        };
        (self.decision(verdict, log.live, log.newest, now), self.mend(log, ask.cost, now))
    }

    /// Takes out the newest units, or those of a request id.
    fn refund(&self, log: &Log, cost: u64, now: Micros) -> (Decision, Write) {
        let units = if cost == 0 { 0 } else { log.returned.min(log.live) };
        let live = log.live - units;
        let newest = if units == 0 { log.newest } else { log.newest_left };
        let write = match (cost, units, live) {
            (0, ..) => Write::Keep,
            (_, 0, _) => self.mend(log, cost, now),
            (_, _, 0) => Write::Drop,
            _ => {
                let mend = log.future.min((cost + SWEEP).saturating_sub(units));
                let change = LogChange { take_out: units, mend, ..LogChange::default() };
                Write::Put(Change::Log(change), self.expiry_for(log, newest, now))
            }
        };
        (self.decision(Verdict::Returned { units }, live, newest, now), write)
    }

    /// Books units up to twice the limit.
    fn charge(&self, log: &Log, cost: u64, now: Micros) -> (Decision, Write) {
        if cost == 0 {
            let verdict = Verdict::Booked { within: true, wait: Some(Span::ZERO) };
            return (self.decision(verdict, log.live, log.newest, now), Write::Keep);
        }
        let units = self.booked(cost, log.live);
        let live = log.live.saturating_add(units);
        let wait = match self.leaving_index(Verb::Charge, Ask { cost, partial: false }, log.live) {
            _ if self.limit == 0 => None,
            None => Some(Span::ZERO),
            Some(index) if index < log.live => Some(self.until_gone(log.leaving.unwrap_or(now), now)),
            Some(_) => Some(self.until_gone(now, now)),
        };
        let (newest, write) = if units == 0 {
            (log.newest, self.mend(log, cost, now))
        } else {
            (Some(now), self.add(log, units, cost, now))
        };
        let within = self.limit > 0 && live <= self.limit;
        (self.decision(Verdict::Booked { within, wait }, live, newest, now), write)
    }

    /// Mends entries from the future and an expiry that is missing or too short.
    fn mend(&self, log: &Log, cost: u64, now: Micros) -> Write {
        if !log.exists {
            return Write::Keep;
        }
        let expiry = self.expiry_for(log, log.newest, now);
        if log.future > 0 {
            let change = LogChange { mend: log.future.min(cost + SWEEP), ..LogChange::default() };
            return Write::Put(Change::Log(change), expiry);
        }
        Write::expiry(expiry)
    }
}
