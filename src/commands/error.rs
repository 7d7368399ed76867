//! What can be wrong with a command, in words. The texts are part of the interface.

use std::fmt::Write as _;

/// The most bytes of a client's word that an error repeats.
const SHOWN: usize = 64;

/// A mistake in a command: the text of the error reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault(String);

impl Fault {
    /// A mistake, said in words that follow `ERR`.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(format!("ERR {text}"))
    }

    /// A word that is not what stands in its place.
    #[must_use]
    pub fn word(name: &str, word: &[u8], accepted: &str) -> Self {
        Self(format!("ERR {name} {} is not {accepted}", quoted(word)))
    }

    /// A word that is missing: one that stands in a place of its own, or behind the option that it is called after.
    #[must_use]
    pub fn missing(name: &str, accepted: &str) -> Self {
        let option = name.starts_with(|first: char| first.is_ascii_uppercase());
        let what = if option { "has no value" } else { "is missing" };
        Self(format!("ERR {name} {what}: {accepted}"))
    }

    /// The same mistake, and a hint.
    #[must_use]
    pub fn with_hint(self, hint: &str) -> Self {
        Self(format!("{}; {hint}", self.0))
    }

    /// The text of the error reply.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }
}

/// A client's word in quotes: at most 64 bytes of it, everything but printable ASCII replaced.
#[must_use]
pub fn quoted(word: &[u8]) -> String {
    let mut text = String::with_capacity(SHOWN + 5);
    text.push('\'');
    for byte in word.iter().take(SHOWN) {
        let shown = if byte.is_ascii_graphic() || *byte == b' ' { char::from(*byte) } else { '?' };
        text.push(shown);
    }
    if word.len() > SHOWN {
        let _ = write!(text, "...");
    }
    text.push('\'');
    text
}

/// The error for a value of another type, in Redis' own words.
pub const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";

/// The error for a string that is no counter.
pub const FOREIGN_COUNTER: &str = "ERR the key holds a string that is not a counter (a whole number from 0 to 9223372036854775807), \
     somebody else's value it seems: use another key name for this limiter";
/// The error for a hash that is no token bucket.
pub const FOREIGN_TOKENS: &str = "ERR the key holds a hash that is not a token bucket (fields tokens and ts), \
     somebody else's or another limiter's it seems: use another key name for this limiter";
/// The error for a hash that is no leaky bucket.
pub const FOREIGN_LEVEL: &str = "ERR the key holds a hash that is not a leaky bucket (fields level and ts), \
     somebody else's or another limiter's it seems: use another key name for this limiter";
/// The error for a hash that is no sub-windows.
pub const FOREIGN_SUB_WINDOWS: &str = "ERR the key holds a hash that is not a window of sub-windows (ends in milliseconds and units), \
     somebody else's or another limiter's it seems: use another key name for this limiter";
/// The error for a sorted set that is no log.
pub const FOREIGN_LOG: &str = "ERR the key holds a sorted set that is not a log of admissions, \
     a leaderboard or leases it seems: use another key name for this limiter";
/// The error for a sorted set that is no leases.
pub const FOREIGN_LEASES: &str = "ERR the key holds a sorted set that is not a set of leases, \
     a leaderboard or a log of admissions it seems: use another key name for this limiter";
/// The error for a string that is no state of redis-cell.
pub const FOREIGN_TAT: &str = "ERR the key holds a string that is not a state of CL.THROTTLE (nanoseconds since 1970 in 19 digits), \
     somebody else's value it seems: use another key name for this limiter";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_shown_in_part_and_never_breaks_the_protocol() {
        assert_eq!(quoted(b"a\r\nb\0\xff"), "'a??b??'");
        let shown = quoted(&[b'x'; 100]);
        assert_eq!(shown, format!("'{}...'", "x".repeat(64)));
    }
}
