//! The second witness of waits and resets: their definitions.

use super::Model;
use super::books::At;
use super::words::{Algorithm, Key, MAX_UNITS, Rule};

impl Model {
    /// Finds the wait and the reset of an answer by their definitions. Exempt are a wait at the cap, COST 0, a whole
    /// that rested on an ID, and a log with more entries in the future than one call mends.
    pub(super) fn prove(&self, now_us: i64, rules: &[(Key, Rule)], go: bool, wait: i64, reset: Option<i64>) {
        let cap = i64::try_from(MAX_UNITS).unwrap();
        let exempt = |(key, rule): &(Key, Rule)| {
            let at = At { now_us, rule };
            let books = self.held(now_us, key).and_then(|held| held.value.books(&at));
            let blurred = rule.algorithm == Algorithm::Log && books.is_some_and(|books| books.open(&at));
            rule.cost == 0 && rules.len() == 1 || rule.id.is_some() && rules.len() > 1 || blurred
        };
        if !self.paranoid || rules.iter().any(exempt) {
            return;
        }
        let goes = |wait: i64| {
            let now_us = now_us + wait * 1000;
            rules.iter().all(|(key, rule)| self.decide(At { now_us, rule }, key).is_some_and(|(goes, ..)| goes))
        };
        if !go && wait < cap {
            let found = if wait == -1 && !goes(cap) { Some(-1) } else { least(goes) };
            assert_eq!(found, Some(wait), "the wait of {rules:?} at {now_us}");
        }
        let (key, rule) = &rules[0];
        let resets = |wait: i64| {
            let at = At { now_us: now_us + wait * 1000, rule };
            let books = self.held(at.now_us, key).and_then(|held| held.value.books(&at));
            books.is_none_or(|books| books.untouched(&at))
        };
        if let Some(reset) = reset.filter(|reset| *reset < cap) {
            assert_eq!(least(resets), Some(reset), "the reset of {rule:?} at {now_us}");
        }
    }
}

/// The least number of milliseconds that satisfies a condition which, once true, stays true.
fn least(holds: impl Fn(i64) -> bool) -> Option<i64> {
    let (mut no, mut yes) = (-1, 0);
    while !holds(yes) {
        (no, yes) = (yes, yes * 2 + 1);
        if yes > 1 << 50 {
            return None;
        }
    }
    while yes - no > 1 {
        let middle = no + (yes - no) / 2;
        (no, yes) = if holds(middle) { (no, middle) } else { (middle, yes) };
    }
    Some(yes)
}
