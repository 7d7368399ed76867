//! SLIDING BUCKETS: units by the end of the sub-window in which they were admitted.

use super::books::{At, Books};
use std::collections::BTreeMap;

const MAX_FIELDS: usize = 720;

#[derive(Clone, Debug, Default)]
pub struct Buckets {
    /// End in milliseconds since the epoch -> units.
    fields: BTreeMap<i64, i128>,
    /// The latest end that was seen to be over. A longer period or an earlier clock may count it.
    over_ms: Option<i64>,
}

impl Buckets {
    /// The milliseconds that each field still counts, which is until its end + period, and its units.
    fn live(&self, at: &At) -> impl DoubleEndedIterator<Item = (i64, i128)> {
        let left = at.rule.period_ms - at.now_ms();
        self.fields.iter().map(move |(end, units)| (end + left, *units)).filter(|(left, _)| *left > 0)
    }

    fn used(&self, at: &At) -> i128 {
        self.live(at).map(|(_, units)| units).sum()
    }

    /// Adds to the present sub-window; sub-windows are multiples of their length since the epoch. Beyond 720 fields
    /// the two oldest become one, which counts as long as the later.
    fn add(&mut self, at: &At, units: i128) {
        let end_ms = (at.now_ms().div_euclid(at.rule.sub_ms) + 1) * at.rule.sub_ms;
        *self.fields.entry(end_ms).or_default() += units;
        while self.fields.len() > MAX_FIELDS {
            let (_, units) = self.fields.pop_first().unwrap();
            *self.fields.first_entry().unwrap().get_mut() += units;
        }
    }
}

impl Books for Buckets {
    /// An end more than half a period after now is from the future. Drops what is over.
    fn mend(&mut self, at: &At) {
        let half_ms = (at.rule.period_ms + 1) / 2;
        let over = self.fields.keys().rfind(|end| **end + at.rule.period_ms <= at.now_ms());
        self.over_ms = self.over_ms.max(over.copied());
        let mut future = 0;
        self.fields.retain(|end, units| {
            let late = *end > at.now_ms() + half_ms;
            future += if late { *units } else { 0 };
            !late && *end + at.rule.period_ms > at.now_ms()
        });
        if future > 0 {
            self.add(at, future);
        }
    }

    fn spare(&self, at: &At) -> i128 {
        at.rule.limit - self.used(at)
    }

    /// The oldest fields leave until there is room.
    fn wait_for(&self, at: &At, units: i128) -> i128 {
        let mut spare = self.spare(at);
        let enough = self.live(at).find(|(_, leaving)| {
            spare += leaving;
            spare >= units
        });
        enough.map_or(0, |(left, _)| left.into())
    }

    fn reset(&self, at: &At) -> i128 {
        self.live(at).next_back().map_or(0, |(left, _)| left.into())
    }

    fn take(&mut self, at: &At, units: i128) {
        self.add(at, units);
    }

    fn charge(&mut self, at: &At, units: i128) -> bool {
        let booked = units.min(self.spare(at) + at.rule.limit);
        if booked > 0 {
            self.add(at, booked);
        }
        booked > 0
    }

    /// The newest first.
    fn refund(&mut self, at: &At, units: i128) -> i128 {
        let given = units.min(self.used(at));
        let mut left = given;
        for field in self.fields.values_mut().rev() {
            let part = left.min(*field);
            *field -= part;
            left -= part;
        }
        self.fields.retain(|_, units| *units > 0);
        given
    }

    fn forget(&self, at: &At) -> (i64, i64) {
        let left_ms = self.live(at).next_back().map_or(0, |(left, _)| left);
        ((at.now_ms() + left_ms) * 1000, at.rule.period_ms + at.rule.sub_ms)
    }

    fn open(&self, at: &At) -> bool {
        self.over_ms.is_some_and(|end| end + at.rule.period_ms > at.now_ms())
    }
}
