//! The words and the reply of CL.THROTTLE, which are redis-cell's.

use super::error::Fault;
use super::reply::{Five, NEVER};
use crate::engine::gcra::{Gcra, LONGEST_NS, Throttled};

const NS_PER_SECOND: i64 = 1_000_000_000;
const NS_PER_MS: i64 = 1_000_000;
const MS_PER_SECOND: i64 = 1_000;

/// Reads `max_burst count_per_period period [quantity]`: the rule, and the units that are asked for.
///
/// # Errors
/// The first word that is at fault, or the one that makes the numbers together too large.
pub fn throttle<'a>(words: &mut impl Iterator<Item = &'a [u8]>) -> Result<(Gcra, i64), Fault> {
    let burst = Number { name: "max_burst", min: 0, max: i64::MAX - 1 }.read(words.next())?;
    let count_word = words.next();
    let count = Number { name: "count_per_period", min: 1, max: i64::MAX }.read(count_word)?;
    let period = Number { name: "period", min: 1, max: LONGEST_NS / NS_PER_SECOND }.read(words.next())?;
    let quantity = match words.next() {
        None => 1,
        word => Number { name: "quantity", min: i64::MIN, max: i64::MAX }.read(word)?,
    };
    let period_ns = period * NS_PER_SECOND;
    let interval_ns = period_ns / count;
    if interval_ns == 0 {
        let most = format!("at most {period_ns} in a period of {period} s");
        return Err(Fault::new(&format!("count_per_period '{count}' is more than a unit per nanosecond, {most}")));
    }
    match Gcra::new(burst + 1, interval_ns) {
        Some(rule) => Ok((rule, quantity)),
        None => {
            let most = format!("at most {} at this rate", LONGEST_NS / interval_ns - 1);
            Err(Fault::new(&format!("max_burst '{burst}' takes more than 100 years to come back, {most}")))
        }
    }
}

/// A whole number as redis-cell reads it: with a sign and leading zeros if somebody likes.
struct Number {
    name: &'static str,
    min: i64,
    max: i64,
}

impl Number {
    fn read(&self, word: Option<&[u8]>) -> Result<i64, Fault> {
        let accepted = || format!("a whole number from {} to {}", self.min, self.max);
        let Some(word) = word else { return Err(Fault::missing(self.name, &accepted())) };
        let number = std::str::from_utf8(word).ok().and_then(|word| word.parse().ok());
        number
            .filter(|number| (self.min..=self.max).contains(number))
            .ok_or_else(|| Fault::word(self.name, word, &accepted()))
    }
}

/// `limited`, `limit`, `remaining`, `retry_after`, `reset_after`, with -1 where no wait helps or none is needed.
#[must_use]
pub fn reply(answer: &Throttled) -> Five {
    let limited = i64::from(!answer.verdict.is_allow());
    let retry = answer.retry_ns.map_or(NEVER, seconds);
    [limited, answer.limit, answer.remaining, retry, seconds(answer.reset_ns)]
}

/// Seconds as redis-cell rounds them from 0.4.0 on: up, but for what is less than a millisecond.
fn seconds(ns: i64) -> i64 {
    let ms = ns / NS_PER_MS;
    ms / MS_PER_SECOND + i64::from(ms % MS_PER_SECOND != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<(Gcra, i64), String> {
        throttle(&mut text.split(' ').map(str::as_bytes)).map_err(|fault| fault.text().to_owned())
    }

    #[test]
    fn the_words_are_redis_cells() {
        assert_eq!(read("15 30 60"), Ok((Gcra::new(16, 2_000_000_000).unwrap(), 1)));
        assert_eq!(read("+15 030 60 -2"), Ok((Gcra::new(16, 2_000_000_000).unwrap(), -2)));
        assert_eq!(read("0 3 1 0"), Ok((Gcra::new(1, 333_333_333).unwrap(), 0)));
    }

    #[test]
    fn an_error_names_the_word_and_what_is_accepted() {
        let error = |text, expected: &str| assert_eq!(read(text), Err(expected.to_owned()), "{text}");
        error("x 30 60", "ERR max_burst 'x' is not a whole number from 0 to 9223372036854775806");
        error("-1 30 60", "ERR max_burst '-1' is not a whole number from 0 to 9223372036854775806");
        error("15 0 60", "ERR count_per_period '0' is not a whole number from 1 to 9223372036854775807");
        error("15 30 0", "ERR period '0' is not a whole number from 1 to 3153600000");
        error("15 30 3153600001", "ERR period '3153600001' is not a whole number from 1 to 3153600000");
        error("15 30", "ERR period is missing: a whole number from 1 to 3153600000");
        error(
            "15 30 60 9223372036854775808",
            "ERR quantity '9223372036854775808' is not a whole number from -9223372036854775808 to 9223372036854775807",
        );
    }

    #[test]
    fn numbers_that_are_too_large_together_are_told_apart() {
        assert_eq!(
            read("15 1000000001 1").unwrap_err(),
            "ERR count_per_period '1000000001' is more than a unit per nanosecond, at most 1000000000 in a period of 1 s"
        );
        assert_eq!(
            read("36500 1 86400").unwrap_err(),
            "ERR max_burst '36500' takes more than 100 years to come back, at most 36499 at this rate"
        );
        assert!(read("36499 1 86400").is_ok());
        assert!(read("9223372036854775806 9223372036854775807 3153600000").is_err());
        assert!(read("0 1 3153600000").is_ok());
    }

    #[test]
    fn seconds_are_rounded_up_but_for_less_than_a_millisecond() {
        let cases =
            [(0, 0), (999_999, 0), (1_000_000, 1), (3_000_999_999, 3), (3_001_000_000, 4), (i64::MAX, 9_223_372_037)];
        for (ns, expected) in cases {
            assert_eq!(seconds(ns), expected, "{ns} ns");
        }
    }
}
