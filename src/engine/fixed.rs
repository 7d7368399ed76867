//! The fixed window: at most `limit` units per window.
//!
//! **Idea.** A counter and the instant at which it is forgotten. The window opens with the first admission, or with
//! ALIGN at the multiples of the period on the clock or the calendar. **State.** The used units and the key's expiry,
//! which is the window's end: two integers, a plain counter as INCR and EXPIRE would leave it. A counter of 0 is an
//! unopened window. **Rounding.** Whole milliseconds, the resolution of a key's expiry: an instant counts as the
//! millisecond it lies in. **Guarantee.** Never more than `limit` in one window, hence at most twice the limit in any
//! period, around a boundary. **Shut.** A counter of 10^18 or more is a door that BLOCK shut: it refuses until the key
//! expires, whatever the numbers. **To read.** "Fixed window counter" in any text on rate limiting; the pattern
//! "rate limiter" in the documentation of INCR.

use super::calendar::{Offset, Period};
use super::time::{Micros, Millis, Span};
use super::{Ask, Change, Decision, Policy, Verdict, Write};

/// Used units that mean: shut until the key expires.
pub const SHUT: u64 = 1_000_000_000_000_000_000;

/// A fixed window's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fixed {
    /// Units per window.
    pub limit: u64,
    /// The window's length.
    pub period: Period,
    /// The offset of clock-aligned windows, or `None` for windows that open with the first admission.
    pub align: Option<Offset>,
    /// For how long the first refusal shuts the key.
    pub block: Option<Span>,
}

/// The stored counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    /// Units used.
    pub used: u64,
    /// The key's expiry: the window's end.
    pub end: Option<Millis>,
}

/// The counter as it counts now.
struct Books {
    used: u64,
    /// The end of the window, if one is open.
    end: Option<Millis>,
    /// What the key's expiry has to become.
    mended: Option<Millis>,
}

impl Fixed {
    /// What a stored counter means now.
    #[inline(always)]
    fn books(&self, counter: Option<Counter>, now: Millis) -> Books {
        let Some(Counter { used, end }) = counter else {
            return Books { used: 0, end: None, mended: None };
        };
        if end.is_some_and(|end| end <= now) {
            return Books { used: 0, end: None, mended: None };
        }
        let mended = match end {
            None => Some(self.mended_end(now)),
            Some(_) if used >= SHUT => None,
            Some(end) if self.is_too_late(end, now) => Some(self.mended_end(now)),
            Some(_) => None,
        };
        if used == 0 {
            return Books { used: 0, end: None, mended };
        }
        Books { used, end: mended.or(end), mended }
    }

    /// The end of a window that opens now.
    #[inline(always)]
    fn opened_end(&self, now: Millis) -> Millis {
        match (self.align, self.period.span()) {
            (None, Some(span)) => now.plus_ceil(span),
            (offset, _) => aligned_end(self.period, offset, now),
        }
    }

    /// Whether an end is later than a window's can be by these numbers.
    #[inline(always)]
    fn is_too_late(&self, end: Millis, now: Millis) -> bool {
        match self.period.span() {
            // Whole milliseconds: what is more than the period is at least a millisecond more.
            Some(span) => end.since(now) >= span.plus(Span::from_ms(1)),
            None => end > aligned_end(self.period, self.align, aligned_end(self.period, self.align, now)),
        }
    }

    /// What becomes of an end that is later than the latest.
    #[inline(always)]
    fn mended_end(&self, now: Millis) -> Millis {
        match self.period.span() {
            Some(span) => now.plus_ceil(span),
            None => aligned_end(self.period, self.align, now),
        }
    }

    #[inline(always)]
    fn decision(&self, verdict: Verdict, used: u64, end: Option<Millis>, now: Millis) -> Decision {
        let reset = end.map_or(Span::ZERO, |end| end.since(now));
        Decision { verdict, limit: self.limit, remaining: self.limit.saturating_sub(used), reset }
    }

    /// Books `added` more units into the open window, or opens one.
    #[inline(always)]
    fn take(&self, books: &Books, added: u64, now: Millis) -> (u64, Millis, Write) {
        let used = books.used.saturating_add(added);
        let change = Change::Count { used };
        match books.end {
            Some(end) => (used, end, Write::Put(change, books.mended)),
            None => {
                let end = self.opened_end(now);
                (used, end, Write::Put(change, Some(end)))
            }
        }
    }
}

impl Policy for Fixed {
    type State = Option<Counter>;

    /// Takes the units asked for, or refuses.
    #[inline(always)]
    fn decide(&self, counter: &Option<Counter>, ask: Ask, now: Micros) -> (Decision, Write) {
        let now = now.floor_ms();
        let books = self.books(*counter, now);
        if ask.cost == 0 {
            let verdict = Verdict::Allow { answer: ask.answer(0), delay: Span::ZERO };
            return (self.decision(verdict, books.used, books.end, now), Write::Keep);
        }
        if let Some(granted) = ask.granted(self.limit.saturating_sub(books.used)) {
            let (used, end, write) = self.take(&books, granted, now);
            let verdict = Verdict::Allow { answer: ask.answer(granted), delay: Span::ZERO };
            return (self.decision(verdict, used, Some(end), now), write);
        }
        if ask.wanted() > self.limit {
            return (self.decision(Verdict::Never, books.used, books.end, now), Write::expiry(books.mended));
        }
        let mut end = books.end.unwrap_or(now);
        let mut used = books.used;
        let mut write = Write::expiry(books.mended);
        if let Some(block) = self.block.filter(|_| used < SHUT) {
            end = end.max(now.plus_ceil(block));
            write = Write::Put(Change::Count { used: SHUT }, Some(end));
            used = SHUT;
        }
        (self.decision(Verdict::Deny { wait: end.since(now) }, used, Some(end), now), write)
    }

    /// Gives units back to the window that is open.
    fn refund(&self, counter: &Option<Counter>, cost: u64, now: Micros) -> (Decision, Write) {
        let now = now.floor_ms();
        let books = self.books(*counter, now);
        let units = if books.used >= SHUT { 0 } else { cost.min(books.used) };
        let used = books.used - units;
        let (end, write) = match (cost, units, used) {
            (0, ..) => (books.end, Write::Keep),
            (_, 0, _) => (books.end, Write::expiry(books.mended)),
            (_, _, 0) => (None, Write::Drop),
            _ => (books.end, Write::Put(Change::Count { used }, books.mended)),
        };
        (self.decision(Verdict::Returned { units }, used, end, now), write)
    }

    /// Books units up to twice the limit.
    fn charge(&self, counter: &Option<Counter>, cost: u64, now: Micros) -> (Decision, Write) {
        let now = now.floor_ms();
        let books = self.books(*counter, now);
        if cost == 0 {
            let verdict = Verdict::Booked { within: true, wait: Some(Span::ZERO) };
            return (self.decision(verdict, books.used, books.end, now), Write::Keep);
        }
        let added = cost.min(self.limit.saturating_mul(2).saturating_sub(books.used));
        let (used, end, write) = if added == 0 {
            (books.used, books.end, Write::expiry(books.mended))
        } else {
            let (used, end, write) = self.take(&books, added, now);
            (used, Some(end), write)
        };
        let wait = match (self.limit, end) {
            (0, _) => None,
            (limit, Some(end)) if used >= limit => Some(end.since(now)),
            _ => Some(Span::ZERO),
        };
        let within = self.limit > 0 && used <= self.limit;
        (self.decision(Verdict::Booked { within, wait }, used, end, now), write)
    }

    /// Mends the expiry without taking anything.
    fn mend(&self, counter: &Option<Counter>, _cost: u64, now: Micros) -> Write {
        Write::expiry(self.books(*counter, now.floor_ms()).mended)
    }
}

/// The end of the window on the clock or the calendar that an instant lies in.
#[inline(never)]
fn aligned_end(period: Period, offset: Option<Offset>, now: Millis) -> Millis {
    period.end_of_window_at(now, offset.unwrap_or(Offset::UTC))
}

#[cfg(test)]
mod tests {
    use super::*;

    const T0: i64 = 1_767_225_600_000;

    fn at(ms: i64) -> Micros {
        Micros::from_clock((T0 + ms) * 1_000)
    }

    fn five_a_minute() -> Fixed {
        Fixed { limit: 5, period: Period::Plain(Span::from_ms(60_000)), align: None, block: None }
    }

    #[test]
    fn a_window_opens_with_the_first_admission_and_keeps_its_end() {
        let rule = five_a_minute();
        let (decision, write) = rule.decide(&None, Ask { cost: 2, partial: false }, at(0));
        assert_eq!((decision.remaining, decision.reset.ceil_ms()), (3, 60_000));
        assert_eq!(write, Write::Put(Change::Count { used: 2 }, Some(Millis::new(T0 + 60_000))));
        let open = Some(Counter { used: 2, end: Some(Millis::new(T0 + 60_000)) });
        let (_, write) = rule.decide(&open, Ask { cost: 1, partial: false }, at(10));
        assert_eq!(write, Write::Put(Change::Count { used: 3 }, None), "the end does not move");
    }

    #[test]
    fn a_fraction_of_a_millisecond_neither_opens_the_next_window_early_nor_breaks_the_promise() {
        let rule = Fixed { limit: 1, ..five_a_minute() };
        let open = Some(Counter { used: 1, end: Some(Millis::new(T0 + 60_000)) });
        let ask = Ask { cost: 1, partial: false };
        let late = Micros::from_clock((T0 + 59_999) * 1_000 + 999);
        let (decision, _) = rule.decide(&open, ask, late);
        assert_eq!(decision.verdict, Verdict::Deny { wait: Span::from_ms(1) });
        let (decision, _) = rule.decide(&open, ask, Micros::from_clock(late.get() + 1_000));
        assert!(decision.verdict.is_allow());
    }
}
