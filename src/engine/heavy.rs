//! Heavy hitters: which names come most often right now, in constant memory.
//!
//! **Idea.** Space-Saving. There is a fixed number of rows, each with a name and a count. A name that has a row is
//! counted there. Any other takes over the row with the smallest count: what that count was may or may not have been
//! this name's, so it stays in the count as its error. **Formula.** count := count + 1; at a take-over, error := the
//! smallest count. **Forgetting.** Every [`HALF_LIFE`], counted from the first name, every count and what of it is
//! certain are halved. Nothing is done for that at the time: it is made up for at the next name or look. At a steady
//! rate a count is what the last one to two half-lives brought. **State.** Per row a count, what of it is certain and
//! [`KEPT`] bytes of the name, all of it taken once: about 650 bytes a row, whatever comes. Names are told apart by a
//! hash of 64 bits with a secret key, so nobody can make two that fall together, and a long name costs no more than a
//! short one. **Rounding.** Halves down. **Guarantee.** Against true counts that are halved, rounded down, at the same
//! instants: count - error <= true <= count in every row, and no name is missing whose true count is above N / rows,
//! with N all names that came, halved likewise. A name is found and counted in O(log rows).
//! **To read.** Metwally, Agrawal and El Abbadi, "Efficient computation of frequent and top-k elements in data streams"
//! (2005).

use std::collections::HashMap;
use std::hash::{BuildHasher as _, BuildHasherDefault, Hasher, RandomState};

use super::time::{Micros, Span};

/// After so long a count is worth half.
pub const HALF_LIFE: Span = Span::from_ms(10_000);

/// Bytes of a name that are kept.
pub const KEPT: usize = 512;

/// A name and its count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heavy<'h> {
    /// Its first bytes, at most [`KEPT`] of them.
    pub name: &'h [u8],
    /// How often it came, at most.
    pub count: u64,
    /// By how much less it may have come.
    pub error: u64,
}

/// A row; one with a count of 0 is free.
#[derive(Clone, Copy, Default)]
struct Row {
    hash: u64,
    count: u64,
    certain: u64,
    /// Bytes of the name that are kept.
    length: usize,
    /// Where it stands in the order of counts.
    place: usize,
}

/// Names that are hashes already are not hashed again.
#[derive(Clone, Copy, Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// The rows.
pub struct HeavyHitters {
    rows: Vec<Row>,
    /// The kept bytes of every row's name, one after another.
    names: Vec<u8>,
    /// The rows' numbers, the smallest count first.
    order: Vec<usize>,
    by_hash: HashMap<u64, usize, BuildHasherDefault<AsItIs>>,
    secret: RandomState,
    /// The instant of the last halving.
    halved: Option<Micros>,
}

impl HeavyHitters {
    /// So many rows, all of them free.
    #[must_use]
    pub fn new(rows: usize) -> Self {
        Self {
            rows: (0..rows).map(|place| Row { place, ..Row::default() }).collect(),
            names: vec![0; rows.saturating_mul(KEPT)],
            order: (0..rows).collect(),
            // Half of it stays empty: a map that is never more than half full does not grow, whatever comes and goes.
            by_hash: HashMap::with_capacity_and_hasher(rows.saturating_mul(2), BuildHasherDefault::default()),
            secret: RandomState::new(),
            halved: None,
        }
    }

    /// A name came.
    pub fn count(&mut self, name: &[u8], now: Micros) {
        self.forget(now);
        let hash = self.secret.hash_one(name);
        let row = match self.by_hash.get(&hash) {
            Some(row) => Some(*row),
            None => self.take_over(hash, name),
        };
        if let Some(row) = row {
            self.raise(row);
        }
    }

    /// The rows at an instant, the largest count first.
    pub fn rows(&mut self, now: Micros) -> impl Iterator<Item = Heavy<'_>> {
        self.forget(now);
        self.order.iter().rev().map_while(|number| {
            let row = self.rows.get(*number).filter(|row| row.count > 0)?;
            let name = self.names.get(number * KEPT..).and_then(|names| names.get(..row.length))?;
            Some(Heavy { name, count: row.count, error: row.count.saturating_sub(row.certain) })
        })
    }

    /// Halves the counts once for every half-life that has passed.
    fn forget(&mut self, now: Micros) {
        // After a step of the clock backwards the present half-life begins anew.
        let mut since = self.halved.filter(|since| *since <= now).unwrap_or(now);
        let mut times = 0;
        while times < u64::BITS && now.since(since) >= HALF_LIFE {
            since = since.plus(HALF_LIFE);
            times += 1;
        }
        // Nothing outlives as many halves as it has bits.
        self.halved = Some(if times < u64::BITS { since } else { now });
        if times > 0 {
            self.halve(times);
        }
    }

    /// Halves every count so many times. Their order stays what it is.
    fn halve(&mut self, times: u32) {
        for row in &mut self.rows {
            row.count = row.count.checked_shr(times).unwrap_or(0);
            row.certain = row.certain.checked_shr(times).unwrap_or(0);
        }
        let rows = &self.rows;
        self.by_hash.retain(|_, number| rows.get(*number).is_some_and(|row| row.count > 0));
    }

    /// Gives the row with the smallest count to a name that has none.
    fn take_over(&mut self, hash: u64, name: &[u8]) -> Option<usize> {
        let number = *self.order.first()?;
        let row = self.rows.get_mut(number)?;
        if row.count > 0 {
            self.by_hash.remove(&row.hash);
        }
        (row.hash, row.certain, row.length) = (hash, 0, name.len().min(KEPT));
        let kept = self.names.get_mut(number * KEPT..).and_then(|names| names.get_mut(..row.length));
        for (to, from) in kept.into_iter().flatten().zip(name) {
            *to = *from;
        }
        self.by_hash.insert(hash, number);
        Some(number)
    }

    /// Adds one to a row.
    fn raise(&mut self, number: usize) {
        let Some(Row { count, place, .. }) = self.rows.get(number).copied() else { return };
        // Equal counts stand side by side: at the end of its like a row may become one more, and all are in order.
        let above = self.order.get(place + 1..).unwrap_or_default();
        let alike = above.partition_point(|other| self.rows.get(*other).is_some_and(|other| other.count <= count));
        if alike > 0 {
            self.swap(place, place + alike);
        }
        if let Some(row) = self.rows.get_mut(number) {
            row.count = count.saturating_add(1);
            row.certain = row.certain.saturating_add(1);
        }
    }

    /// Exchanges two places in the order.
    fn swap(&mut self, one: usize, other: usize) {
        self.order.swap(one, other);
        for place in [one, other] {
            if let Some(row) = self.order.get(place).and_then(|number| self.rows.get_mut(*number)) {
                row.place = place;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Micros = Micros::EARLIEST;

    fn after_ms(ms: i64) -> Micros {
        START.plus(Span::from_ms(ms))
    }

    fn shown(heavy: &mut HeavyHitters, now: Micros) -> Vec<(String, u64, u64)> {
        let name = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        heavy.rows(now).map(|row| (name(row.name), row.count, row.error)).collect()
    }

    fn row(name: &str, count: u64, error: u64) -> (String, u64, u64) {
        (name.to_owned(), count, error)
    }

    /// With a row for every name nothing is estimated, and the largest count comes first.
    #[test]
    fn counts_are_exact_while_there_are_rows() {
        let mut heavy = HeavyHitters::new(3);
        assert_eq!(shown(&mut heavy, START), []);
        for name in ["a", "b", "c", "b", "c", "c"] {
            heavy.count(name.as_bytes(), START);
        }
        assert_eq!(shown(&mut heavy, START), [row("c", 3, 0), row("b", 2, 0), row("a", 1, 0)]);
    }

    /// A name without a row takes over the smallest, and its count says by how much it may be wrong.
    #[test]
    fn a_newcomer_takes_over_the_smallest_count_as_its_error() {
        let mut heavy = HeavyHitters::new(2);
        for name in ["a", "a", "a", "b", "b", "c"] {
            heavy.count(name.as_bytes(), START);
        }
        let mut rows = shown(&mut heavy, START);
        rows.sort();
        assert_eq!(rows, [row("a", 3, 0), row("c", 3, 2)]);
    }

    /// Half is forgotten at every half-life from the first name on, not a microsecond earlier; what comes to nothing is
    /// gone.
    #[test]
    fn counts_are_halved_on_time() {
        let mut heavy = HeavyHitters::new(3);
        for name in ["a", "a", "a", "a", "a", "b"] {
            heavy.count(name.as_bytes(), START);
        }
        let before = Micros::from_clock(after_ms(10_000).get() - 1);
        assert_eq!(shown(&mut heavy, before), [row("a", 5, 0), row("b", 1, 0)]);
        assert_eq!(shown(&mut heavy, after_ms(10_000)), [row("a", 2, 0)]);
        assert_eq!(shown(&mut heavy, after_ms(19_999)), [row("a", 2, 0)]);
        heavy.count(b"b", after_ms(25_000));
        assert_eq!(shown(&mut heavy, after_ms(25_000)).len(), 2, "one of each is left");
        assert_eq!(shown(&mut heavy, after_ms(30_000)), []);
        heavy.count(b"a", after_ms(30_000));
        assert_eq!(shown(&mut heavy, Micros::LATEST), [], "centuries are no more work than a moment");
    }

    /// A clock that steps back neither forgets nor keeps for ever.
    #[test]
    fn a_clock_that_steps_back_begins_a_half_life_anew() {
        let mut heavy = HeavyHitters::new(1);
        for _ in 0..4 {
            heavy.count(b"a", after_ms(3_600_000));
        }
        assert_eq!(shown(&mut heavy, START), [row("a", 4, 0)]);
        assert_eq!(shown(&mut heavy, after_ms(9_999)), [row("a", 4, 0)]);
        assert_eq!(shown(&mut heavy, after_ms(10_000)), [row("a", 2, 0)]);
    }

    /// Of a long name only the beginning is kept, and two that differ behind it are still two.
    #[test]
    fn long_names_are_kept_in_part_and_told_apart() {
        let mut heavy = HeavyHitters::new(4);
        let long = |end: &str| [&"x".repeat(KEPT), end].concat();
        for name in [long("1"), long("2"), long("2"), long(""), String::new()] {
            heavy.count(name.as_bytes(), START);
        }
        let rows = shown(&mut heavy, START);
        let lengths: Vec<_> = rows.iter().map(|row| (row.0.len(), row.1)).collect();
        assert_eq!(lengths.first(), Some(&(KEPT, 2)));
        assert_eq!(lengths.iter().filter(|(length, _)| *length == KEPT).count(), 3);
        assert_eq!(lengths.iter().filter(|(length, _)| *length == 0).count(), 1);
    }

    /// Whatever comes, nothing grows any more. What a map calls its capacity may shrink: places that were left are
    /// counted out until it sweeps them.
    #[test]
    fn memory_stays_what_it_is() {
        let mut heavy = HeavyHitters::new(100);
        let taken = |heavy: &HeavyHitters| [heavy.rows.capacity(), heavy.names.capacity(), heavy.order.capacity()];
        let (before, most) = (taken(&heavy), heavy.by_hash.capacity());
        for number in 0..100_000_u32 {
            let name = number.to_le_bytes().repeat(usize::try_from(number % 300).unwrap());
            heavy.count(&name, after_ms(i64::from(number) * 3));
            assert!(heavy.by_hash.capacity() <= most);
        }
        assert_eq!(taken(&heavy), before);
    }

    /// Without a row nothing is counted and nothing fails.
    #[test]
    fn no_rows_are_no_harm() {
        let mut heavy = HeavyHitters::new(0);
        heavy.count(b"a", START);
        assert_eq!(shown(&mut heavy, START), []);
    }
}
