//! The sliding window in constant memory: counters of sub-windows.
//!
//! **Idea.** The clock is cut into sub-windows of `ceil(period / b)` ms; each counts what was admitted in it and is
//! known by its end. A counter weighs until its end plus the period, so a unit is remembered for at least the period
//! and at most one sub-window longer. **State.** At most [`MOST_FIELDS`] fields of a hash: end and units. **Rounding.**
//! Whole milliseconds. **Guarantee.** While the clock goes forward, never more than the exact log would admit, and a
//! unit is refused at most one sub-window longer. An end more than half a period after now lies in the future (the
//! clock stepped back) and becomes the end of the present sub-window. **To read.** "Sliding window counter" in any text
//! on rate limiting; this one does not interpolate, so it never guesses.

use super::time::{Micros, Millis, Span};
use super::{Ask, Change, Decision, Policy, Verdict, Write, moved_expiry};

/// Fields beyond which the two oldest merge.
pub const MOST_FIELDS: usize = 720;

/// The latest end of a sub-window: thirteen digits.
const LATEST_END_MS: i64 = 9_999_999_999_999;

/// The most units of one field: sixteen digits.
pub const MOST_UNITS: u64 = 9_999_999_999_999_999;

/// A bucketed window's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buckets {
    /// Units in any period.
    pub limit: u64,
    /// The window's length.
    pub period: Span,
    /// Sub-windows per period, from 2.
    pub parts: u32,
}

/// One sub-window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubWindow {
    /// Its end.
    pub end: Millis,
    /// Units admitted in it.
    pub units: u64,
}

/// The stored sub-windows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubWindows {
    /// Every stored sub-window, the one that ends first coming first.
    pub fields: Vec<SubWindow>,
    /// The key's expiry.
    pub expiry: Option<Millis>,
}

/// Fields to write and to delete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldChange {
    /// New values.
    pub set: Vec<SubWindow>,
    /// Fields that go.
    pub delete: Vec<Millis>,
}

impl Buckets {
    /// The end of the sub-window that `now` lies in.
    fn present_end(&self, now: Millis) -> Millis {
        let step = self.period.part_ceil_ms(self.parts).max(1);
        Millis::new((now.get() - now.get().rem_euclid(step) + step).min(LATEST_END_MS))
    }

    /// Until a sub-window no longer weighs.
    fn until_gone(&self, end: Millis, now: Millis) -> Span {
        end.plus_ceil(self.period).since(now)
    }

    /// The sub-windows that weigh now, those of the future moved to the present one.
    fn live(&self, stored: &SubWindows, now: Millis) -> Vec<SubWindow> {
        let latest = now.get().saturating_add(self.period.part_ceil_ms(2));
        let mut live = Vec::with_capacity(stored.fields.len() + 1);
        let mut moved = 0_u64;
        for field in &stored.fields {
            if field.end.get() > latest {
                moved = moved.saturating_add(field.units);
            } else if self.until_gone(field.end, now) > Span::ZERO {
                live.push(*field);
            }
        }
        if moved > 0 {
            book(&mut live, self.present_end(now), moved);
        }
        live
    }

    fn decision(&self, verdict: Verdict, live: &[SubWindow], now: Millis) -> Decision {
        let reset = live.last().map_or(Span::ZERO, |last| self.until_gone(last.end, now));
        Decision { verdict, limit: self.limit, remaining: self.limit.saturating_sub(used(live)), reset }
    }

    /// Until `units` units no longer weigh.
    fn wait_for(&self, units: u64, live: &[SubWindow], now: Millis) -> Span {
        let mut gone = 0_u64;
        for field in live {
            gone = gone.saturating_add(field.units);
            if gone >= units {
                return self.until_gone(field.end, now);
            }
        }
        Span::ZERO
    }

    /// What turns the stored fields into `live`, sweeping out those that no longer weigh.
    fn put(&self, stored: &SubWindows, live: &mut Vec<SubWindow>, now: Micros) -> Write {
        while live.len() > MOST_FIELDS {
            let oldest = live.remove(0);
            if let Some(next) = live.first_mut() {
                next.units = next.units.saturating_add(oldest.units).min(MOST_UNITS);
            }
        }
        let change = FieldChange {
            set: live.iter().filter(|field| !stands(&stored.fields, field)).copied().collect(),
            delete: ends_without(&stored.fields, live),
        };
        Write::Put(Change::SubWindows(change), self.expiry_for(stored, live, now))
    }

    fn expiry_for(&self, stored: &SubWindows, live: &[SubWindow], now: Micros) -> Option<Millis> {
        let needed = live.last().map_or(Span::ZERO, |last| self.until_gone(last.end, now.floor_ms()));
        // The end of a sub-window is a whole millisecond: counted from the millisecond, the expiry is exact.
        moved_expiry(stored.expiry, Micros::from_clock(now.floor_ms().get() * 1_000), needed, || self.period)
    }
}

impl Policy for Buckets {
    type State = SubWindows;

    /// Takes the units asked for, or refuses.
    fn decide(&self, stored: &SubWindows, ask: Ask, now: Micros) -> (Decision, Write) {
        let now_ms = now.floor_ms();
        let mut live = self.live(stored, now_ms);
        let allow = |granted| Verdict::Allow { answer: ask.answer(granted), delay: Span::ZERO };
        if ask.cost == 0 {
            return (self.decision(allow(0), &live, now_ms), Write::Keep);
        }
        let total = used(&live);
        if let Some(granted) = ask.granted(self.limit.saturating_sub(total)) {
            book(&mut live, self.present_end(now_ms), granted);
            let write = self.put(stored, &mut live, now);
            return (self.decision(allow(granted), &live, now_ms), write);
        }
        let verdict = if ask.wanted() > self.limit {
            Verdict::Never
        } else {
            let too_many = total.saturating_add(ask.wanted()).saturating_sub(self.limit);
            Verdict::Deny { wait: self.wait_for(too_many, &live, now_ms) }
        };
        (self.decision(verdict, &live, now_ms), self.mend(stored, ask.cost, now))
    }

    /// Takes units out of the newest sub-windows.
    fn refund(&self, stored: &SubWindows, cost: u64, now: Micros) -> (Decision, Write) {
        let now_ms = now.floor_ms();
        let mut live = self.live(stored, now_ms);
        let units = cost.min(used(&live));
        let mut left = units;
        for field in live.iter_mut().rev() {
            let taken = left.min(field.units);
            field.units -= taken;
            left -= taken;
        }
        live.retain(|field| field.units > 0);
        let write = match (cost, units) {
            (0, _) => Write::Keep,
            (_, 0) => self.mend(stored, cost, now),
            _ if live.is_empty() => Write::Drop,
            _ => self.put(stored, &mut live, now),
        };
        (self.decision(Verdict::Returned { units }, &live, now_ms), write)
    }

    /// Books units up to twice the limit.
    fn charge(&self, stored: &SubWindows, cost: u64, now: Micros) -> (Decision, Write) {
        let now_ms = now.floor_ms();
        let mut live = self.live(stored, now_ms);
        if cost == 0 {
            let verdict = Verdict::Booked { within: true, wait: Some(Span::ZERO) };
            return (self.decision(verdict, &live, now_ms), Write::Keep);
        }
        let units = cost.min(self.limit.saturating_mul(2).saturating_sub(used(&live)));
        let write = if units == 0 {
            self.mend(stored, cost, now)
        } else {
            book(&mut live, self.present_end(now_ms), units);
            self.put(stored, &mut live, now)
        };
        let total = used(&live);
        let wait = match total.saturating_add(1).saturating_sub(self.limit) {
            _ if self.limit == 0 => None,
            0 => Some(Span::ZERO),
            too_many => Some(self.wait_for(too_many, &live, now_ms)),
        };
        let within = self.limit > 0 && total <= self.limit;
        (self.decision(Verdict::Booked { within, wait }, &live, now_ms), write)
    }

    /// Mends ends from the future and an expiry that is missing or too short.
    fn mend(&self, stored: &SubWindows, _cost: u64, now: Micros) -> Write {
        if stored.fields.is_empty() {
            return Write::Keep;
        }
        let now_ms = now.floor_ms();
        let live = self.live(stored, now_ms);
        let expiry = self.expiry_for(stored, &live, now);
        let latest = now_ms.get().saturating_add(self.period.part_ceil_ms(2));
        let delete: Vec<_> = stored.fields.iter().map(|field| field.end).filter(|end| end.get() > latest).collect();
        if delete.is_empty() {
            return Write::expiry(expiry);
        }
        let present = self.present_end(now_ms);
        let set = live.iter().filter(|field| field.end == present).copied().collect();
        Write::Put(Change::SubWindows(FieldChange { set, delete }), expiry)
    }
}

fn used(live: &[SubWindow]) -> u64 {
    live.iter().fold(0, |sum, field| sum.saturating_add(field.units))
}

/// Adds units to the sub-window that ends at `end`, keeping the order.
fn book(live: &mut Vec<SubWindow>, end: Millis, units: u64) {
    match live.binary_search_by_key(&end, |field| field.end) {
        Ok(found) => {
            if let Some(field) = live.get_mut(found) {
                field.units = field.units.saturating_add(units).min(MOST_UNITS);
            }
        }
        Err(place) => live.insert(place, SubWindow { end, units: units.min(MOST_UNITS) }),
    }
}

/// Whether a field stands among `stored`, which is in order, with the same units.
fn stands(stored: &[SubWindow], field: &SubWindow) -> bool {
    let found = stored.binary_search_by_key(&field.end, |other| other.end);
    found.ok().and_then(|place| stored.get(place)) == Some(field)
}

/// The ends among `stored` that `live` does not have; both are in order.
fn ends_without(stored: &[SubWindow], live: &[SubWindow]) -> Vec<Millis> {
    stored
        .iter()
        .map(|field| field.end)
        .filter(|end| live.binary_search_by_key(end, |field| field.end).is_err())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const T0: i64 = 1_767_225_600_000;

    fn rule() -> Buckets {
        Buckets { limit: u64::MAX / 4, period: Span::from_ms(1_000_000), parts: 2 }
    }

    #[test]
    fn above_the_most_fields_the_two_oldest_merge_under_the_later_end() {
        let count = i64::try_from(MOST_FIELDS).unwrap();
        let fields: Vec<_> = (0..count).map(|n| SubWindow { end: Millis::new(T0 + n), units: 2 }).collect();
        let stored = SubWindows { fields, expiry: None };
        let now = Micros::from_clock((T0 + count + 5) * 1_000);
        let (_, write) = rule().decide(&stored, Ask { cost: 1, partial: false }, now);
        let Write::Put(Change::SubWindows(change), _) = write else { panic!("{write:?}") };
        assert_eq!(change.delete, [Millis::new(T0)]);
        assert!(change.set.contains(&SubWindow { end: Millis::new(T0 + 1), units: 4 }));
        assert_eq!(change.set.len(), 2);
    }

    #[test]
    fn a_sum_never_has_more_digits_than_can_be_read_again() {
        let future = |after| SubWindow { end: Millis::new(T0 + after), units: MOST_UNITS };
        let stored = SubWindows { fields: vec![future(5_000_000), future(5_000_001)], expiry: None };
        let write = rule().mend(&stored, 1, Micros::from_clock(T0 * 1_000));
        let Write::Put(Change::SubWindows(change), _) = write else { panic!("{write:?}") };
        assert_eq!(change.set.iter().map(|field| field.units).collect::<Vec<_>>(), [MOST_UNITS]);
    }

    #[test]
    fn a_refund_takes_the_newest_sub_windows_first() {
        let field = |after, units| SubWindow { end: Millis::new(T0 + after), units };
        let stored = SubWindows { fields: vec![field(1, 5), field(2, 3), field(3, 1)], expiry: None };
        let (decision, write) = rule().refund(&stored, 3, Micros::from_clock((T0 + 4) * 1_000));
        assert_eq!(decision.verdict, Verdict::Returned { units: 3 });
        let Write::Put(Change::SubWindows(change), _) = write else { panic!("{write:?}") };
        assert_eq!((change.set, change.delete), (vec![field(2, 1)], vec![Millis::new(T0 + 3)]));
    }
}
