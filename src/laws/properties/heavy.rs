//! Whom the limiters refuse most: estimates in a few rows, held to an exact count of every name.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::scenes::law;
use crate::engine::heavy::HeavyHitters;
use crate::engine::time::{Micros, Span};

/// A half-life, told once more.
const HALF_LIFE_MS: i64 = 10_000;

fn after_ms(ms: i64) -> Micros {
    Micros::EARLIEST.plus(Span::from_ms(ms))
}

/// Exact counts of every name, halved when those of the rows are.
#[derive(Default)]
struct Exact {
    counts: BTreeMap<u64, u64>,
    all: u64,
    halvings: i64,
}

impl Exact {
    fn count(&mut self, name: u64, ms: i64) {
        while self.halvings < ms / HALF_LIFE_MS {
            self.halvings += 1;
            self.counts.values_mut().for_each(|count| *count /= 2);
            self.all /= 2;
        }
        *self.counts.entry(name).or_insert(0) += 1;
        self.all += 1;
    }

    fn check(&self, heavy: &mut HeavyHitters, size: u64, ms: i64) -> Result<(), TestCaseError> {
        let rows: Vec<_> = heavy.rows(after_ms(ms)).map(|row| (row.name.to_vec(), row.count, row.error)).collect();
        prop_assert!(rows.is_sorted_by(|one, next| one.1 >= next.1), "the largest comes first: {:?}", rows);
        prop_assert!(u64::try_from(rows.len()).unwrap() <= size, "{} rows of {}", rows.len(), size);
        prop_assert!(rows.iter().map(|row| row.1).sum::<u64>() <= self.all, "more than all: {:?}", rows);
        let known: BTreeMap<_, _> = rows.iter().map(|row| (row.0.as_slice(), (row.1, row.2))).collect();
        prop_assert_eq!(known.len(), rows.len(), "a name has one row");
        for (name, exact) in &self.counts {
            match known.get(name.to_string().as_bytes()) {
                Some((count, error)) => {
                    prop_assert!(count - error <= *exact, "{}: {} - {} is above {}", name, count, error, exact);
                    prop_assert!(exact <= count, "{}: {} is below {}", name, count, exact);
                }
                None => prop_assert!(exact * size <= self.all, "{} has {} of {} and is missing", name, exact, self.all),
            }
        }
        Ok(())
    }
}

/// Protects whoever asks on the day of an attack: a stated count is never below the true one and above it by at most
/// its stated error, and no name is missing that has more than its share of the rows.
#[test]
fn estimates_are_within_their_stated_error() {
    // Small numbers come far more often than large ones, and now and then some half-lives pass.
    let name = (0..200_u64, 0..200_u64).prop_map(|(one, other)| one * other / 200);
    let pause_ms = prop_oneof![19 => 0..40_i64, 1 => 0..25_000_i64];
    let names = proptest::collection::vec((name, pause_ms), 0..500);
    law(600, (1..20_u64, names), |(size, names)| {
        let mut heavy = HeavyHitters::new(usize::try_from(size).unwrap());
        let mut exact = Exact::default();
        let mut ms = 0;
        for (name, pause_ms) in names {
            exact.count(name, ms);
            heavy.count(name.to_string().as_bytes(), after_ms(ms));
            exact.check(&mut heavy, size, ms)?;
            ms += pause_ms;
        }
        Ok(())
    });
}
