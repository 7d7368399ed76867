//! SLIDING: every unit with its instant.

use super::books::{At, Books};

/// Entries that one call mends or trims beyond its cost.
const WORK: usize = 250;

/// Ordered as the sorted set orders them: by score, and at one score the decimal members of units without ID before
/// `i000:id`, those by number and then by id. Which of several units without ID it is makes no difference.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Unit {
    at_us: i64,
    tag: Option<(usize, Vec<u8>)>,
}

#[derive(Clone, Debug, Default)]
pub struct Log {
    /// Ascending.
    units: Vec<Unit>,
    /// The highest instant among units that were seen to be over. A longer period or an earlier clock may count them.
    over_us: Option<i64>,
    /// More units were in the future than one call had to mend, so what is stored depends on how many it did.
    blurred: bool,
}

impl Log {
    /// Units younger than the period, the oldest first.
    fn live(&self, at: &At) -> &[Unit] {
        let over = at.now_us - at.period_us();
        &self.units[self.units.iter().take_while(|unit| unit.at_us <= over).count()..]
    }

    fn used(&self, at: &At) -> i128 {
        i128::try_from(self.live(at).len()).unwrap()
    }

    /// The microseconds that a unit has left. One still in the future counts as now.
    fn left_us(at: &At, unit: &Unit) -> i64 {
        unit.at_us.min(at.now_us) + at.period_us() - at.now_us
    }

    fn add(&mut self, at: &At, units: i128, id: Option<&Vec<u8>>) {
        for number in 0..usize::try_from(units).unwrap() {
            let tag = id.map(|id| (number, id.clone()));
            self.units.push(Unit { at_us: at.now_us, tag });
        }
        self.units.sort();
    }

    fn future(&self, at: &At) -> usize {
        self.units.iter().filter(|unit| unit.at_us > at.now_us).count()
    }
}

impl Books for Log {
    /// The highest first, keeping its member, and no more than the call's cost and 250. Drops what is over.
    fn mend(&mut self, at: &At) {
        let live = self.live(at).to_vec();
        let over = self.units.iter().rev().nth(live.len()).map(|unit| unit.at_us);
        self.over_us = self.over_us.max(over);
        self.units = live;
        let work = self.future(at).min(usize::try_from(at.rule.cost).unwrap() + WORK);
        for unit in self.units.iter_mut().rev().take(work) {
            unit.at_us = at.now_us;
        }
        self.units.sort();
        self.blurred = !self.units.is_empty() && (self.blurred || self.future(at) > 0);
    }

    fn spare(&self, at: &At) -> i128 {
        at.rule.limit - self.used(at)
    }

    /// So many of the oldest units have to leave.
    fn wait_for(&self, at: &At, units: i128) -> i128 {
        let leaving = usize::try_from(units - self.spare(at)).unwrap();
        ceil_ms(Log::left_us(at, &self.live(at)[leaving - 1]))
    }

    fn reset(&self, at: &At) -> i128 {
        self.live(at).last().map_or(0, |unit| ceil_ms(Log::left_us(at, unit)))
    }

    fn take(&mut self, at: &At, units: i128) {
        self.add(at, units, at.rule.id.as_ref());
    }

    fn charge(&mut self, at: &At, units: i128) -> bool {
        let booked = units.min(self.spare(at) + at.rule.limit).max(0);
        self.add(at, booked, None);
        booked > 0
    }

    /// From the highest down; with ID exactly that request's units.
    fn refund(&mut self, at: &At, units: i128) -> i128 {
        let books = self.used(at);
        match &at.rule.id {
            Some(id) => self.units.retain(|unit| unit.tag.as_ref().is_none_or(|(_, of)| of != id)),
            None => self.units.truncate(self.units.len() - usize::try_from(units.min(books)).unwrap()),
        }
        books - self.used(at)
    }

    fn forget(&self, at: &At) -> (i64, i64) {
        let left_us = self.live(at).last().map_or(0, |unit| Log::left_us(at, unit));
        (at.now_us + left_us, at.rule.period_ms)
    }

    fn open(&self, at: &At) -> bool {
        let over_counts = self.over_us.is_some_and(|over| over + at.period_us() > at.now_us);
        over_counts || self.blurred || self.future(at) > WORK
    }

    /// While the first unit of an id is in the window.
    fn repeated(&self, at: &At) -> bool {
        let first = at.rule.id.clone().map(|id| (0, id));
        first.is_some() && self.live(at).iter().any(|unit| unit.tag == first)
    }
}

fn ceil_ms(us: i64) -> i128 {
    i128::from((us + 999).div_euclid(1000))
}
