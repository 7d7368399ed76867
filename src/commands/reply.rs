//! Decisions to the integers of a reply: units, rounding and the cap on waits live here and nowhere else.

use crate::engine::time::{LONGEST_MS, Span};
use crate::engine::{Decision, Verdict};

/// `allowed`, `limit`, `remaining`, `wait_ms`, `reset_after_ms`.
pub type Five = [i64; 5];

/// The names of the five integers, in order.
pub const ELEMENTS: [&str; 5] = ["allowed", "limit", "remaining", "wait_ms", "reset_after_ms"];

/// The wait that means: never with these numbers.
pub const NEVER: i64 = -1;

/// Milliseconds rounded up, capped.
#[must_use]
pub fn ms(span: Span) -> i64 {
    span.ceil_ms().min(LONGEST_MS)
}

fn units(units: u64) -> i64 {
    i64::try_from(units).unwrap_or(i64::MAX)
}

/// The fourth element.
#[must_use]
pub fn wait_ms(verdict: Verdict) -> i64 {
    match verdict {
        Verdict::Allow { delay, .. } => ms(delay),
        Verdict::Deny { wait } => ms(wait).max(1),
        Verdict::Never | Verdict::Booked { wait: None, .. } => NEVER,
        Verdict::Returned { .. } => 0,
        Verdict::Booked { wait: Some(wait), .. } => ms(wait),
    }
}

/// The five integers of a decision.
#[must_use]
#[inline(always)]
pub fn five(decision: &Decision) -> Five {
    let allowed = match decision.verdict {
        Verdict::Allow { answer, .. } => units(answer),
        Verdict::Deny { .. } | Verdict::Never => 0,
        Verdict::Returned { units: given } => units(given),
        Verdict::Booked { within, .. } => i64::from(within),
    };
    [allowed, units(decision.limit), units(decision.remaining), wait_ms(decision.verdict), ms(decision.reset)]
}

/// The two integers in front of a whole's rules: whether all passed, and the longest wait.
#[must_use]
pub fn whole(decisions: impl Iterator<Item = Verdict> + Clone) -> [i64; 2] {
    let allowed = decisions.clone().all(|verdict| verdict.is_allow());
    let waits = decisions.filter(|verdict| verdict.is_allow() == allowed).map(wait_ms);
    let longest =
        waits.fold(0, |longest, wait| if longest == NEVER || wait == NEVER { NEVER } else { longest.max(wait) });
    [i64::from(allowed), longest]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_rounded_up_and_capped_and_resets_too() {
        let decision =
            Decision { verdict: Verdict::Deny { wait: Span::from_us(1) }, limit: 5, remaining: 2, reset: Span::MAX };
        assert_eq!(five(&decision), [0, 5, 2, 1, LONGEST_MS]);
    }

    #[test]
    fn a_whole_says_never_if_one_rule_says_never_and_else_the_longest_wait() {
        let deny = |ms| Verdict::Deny { wait: Span::from_ms(ms) };
        let allow = |ms| Verdict::Allow { answer: 1, delay: Span::from_ms(ms) };
        assert_eq!(whole([deny(5), allow(900), deny(7)].into_iter()), [0, 7]);
        assert_eq!(whole([deny(5), Verdict::Never, deny(7)].into_iter()), [0, -1]);
        assert_eq!(whole([allow(0), allow(12)].into_iter()), [1, 12]);
    }
}
