//! The grammar: words, numbers, durations, options, and the table of bounds.
//!
//! Numbers are plain decimal digits, as Redis itself reads integers. Durations are a number and a unit. Options follow
//! the positional words in any order and any letter case, each at most once. No word is looked at twice and nothing is
//! allocated unless there is a mistake to describe.

use super::error::{Fault, quoted};
use crate::engine::calendar::{Offset, Period};
use crate::engine::time::Span;

/// The range of a number, and why it ends there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// What the number is called.
    pub name: &'static str,
    /// The smallest.
    pub min: u64,
    /// The largest.
    pub max: u64,
    /// Why.
    pub why: &'static str,
}

const FIFTEEN_DIGITS: u64 = 999_999_999_999_999;

/// Units per window.
pub const LIMIT: Bound =
    Bound { name: "limit", min: 0, max: FIFTEEN_DIGITS, why: "exact in JSON, Lua, JavaScript and structured fields" };
/// Units that fit at once.
pub const CAPACITY: Bound = Bound { name: "capacity", ..LIMIT };
/// Units given back per period.
pub const RATE: Bound = Bound { name: "rate", min: 1, ..LIMIT };
/// Units asked for.
pub const COST: Bound = Bound { name: "COST", ..LIMIT };
/// Sub-windows per period.
pub const BUCKETS: Bound = Bound { name: "BUCKETS", min: 2, max: 360, why: "every call reads all of them" };
/// Lease holders at a time.
pub const HOLDERS: Bound = Bound { name: "limit", min: 0, max: 100_000, why: "every holder is an entry of one key" };

/// Rows of RL.TOP: no more are asked for than can be kept.
pub const ROWS: Bound = Bound { name: "COUNT", min: 1, max: 1_000, why: "every row is memory" };

/// The most units that one call may log or take out of a log.
pub const MOST_LOGGED: u64 = 250;
/// The most sub-windows of all rules of a whole: each is a field that the call reads.
pub const MOST_SUB_WINDOWS: u64 = 3_600;
/// The most rules in a whole.
pub const MOST_RULES: usize = 64;
/// The most ids in one call.
pub const MOST_IDS: usize = 250;
/// The longest period in milliseconds: 3650 days.
pub const LONGEST_PERIOD_MS: i64 = 3_650 * 86_400_000;
/// The longest time to queue in milliseconds.
pub const LONGEST_QUEUE_MS: i64 = 3_600_000;

/// The number that a word begins with, in plain decimal digits, at most fifteen of them and no leading zero, and what
/// stands behind it.
#[inline(always)]
fn number(word: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0_u64;
    let mut rest = word;
    while let [first, behind @ ..] = rest {
        let digit = first.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        // Fifteen digits are far from 64 bits, and more are refused below.
        value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
        rest = behind;
    }
    let digits = word.len() - rest.len();
    let leading_zero = digits > 1 && word.first() == Some(&b'0');
    (matches!(digits, 1..=15) && !leading_zero).then_some((value, rest))
}

/// A word that is such a number and nothing else.
#[inline]
fn digits(word: &[u8]) -> Option<u64> {
    number(word).and_then(|(value, rest)| rest.is_empty().then_some(value))
}

impl Bound {
    /// What is accepted, in words.
    #[must_use]
    pub fn accepted(&self) -> String {
        format!("a whole number from {} to {}", self.min, self.max)
    }

    /// Reads a number within the bound.
    ///
    /// # Errors
    /// A missing word, one that is not plain digits, or a number out of range.
    #[inline]
    pub fn read(&self, word: Option<&[u8]>) -> Result<u64, Fault> {
        match word.and_then(digits) {
            Some(value) if value >= self.min && value <= self.max => Ok(value),
            _ => Err(self.fault(word)),
        }
    }

    #[cold]
    fn fault(&self, word: Option<&[u8]>) -> Fault {
        match word {
            Some(word) => Fault::word(self.name, word, &self.accepted()),
            None => Fault::missing(self.name, &self.accepted()),
        }
    }
}

/// What durations look like, in words.
const DURATION: &str =
    "a duration from 1ms to 3650d: a whole number with its unit ms, s, m, h, d or w, such as 250ms, 10s or 1h";
const CALENDAR: &str = ", or with ALIGN 1mo, 2mo, 3mo, 4mo, 6mo or 1y";

/// Reads a duration or, for a window that may be aligned, a calendar unit.
///
/// # Errors
/// Anything else, with the ways to say it.
#[inline(always)]
pub fn period(name: &str, word: Option<&[u8]>, calendar: bool) -> Result<Period, Fault> {
    word.and_then(|word| known_period(word, calendar)).ok_or_else(|| not_a_period(name, word, calendar))
}

#[inline(always)]
fn known_period(word: &[u8], calendar: bool) -> Option<Period> {
    let (count, unit) = number(word)?;
    let unit_ms = match unit {
        b"ms" => 1,
        b"s" => 1_000,
        b"m" => 60_000,
        b"h" => 3_600_000,
        b"d" => 86_400_000,
        b"w" => 7 * 86_400_000,
        b"mo" if calendar && matches!(count, 1..=4 | 6) => return u8::try_from(count).ok().map(Period::Months),
        b"y" if calendar && count == 1 => return Some(Period::Months(12)),
        _ => return None,
    };
    let ms = i64::try_from(count).ok()?.checked_mul(unit_ms)?;
    let span = Span::from_ms(ms);
    (1..=LONGEST_PERIOD_MS).contains(&ms).then(|| if unit == b"w" { Period::Weeks(span) } else { Period::Plain(span) })
}

#[cold]
fn not_a_period(name: &str, word: Option<&[u8]>, calendar: bool) -> Fault {
    let accepted = if calendar { format!("{DURATION}{CALENDAR}") } else { DURATION.to_owned() };
    let Some(word) = word else {
        return Fault::missing(name, &accepted);
    };
    match digits(word) {
        Some(count) if count > 0 => without_unit(name, count),
        _ => Fault::word(name, word, &accepted),
    }
}

/// A bare number: nobody should have to guess whether it means seconds.
fn without_unit(name: &str, count: u64) -> Fault {
    let minutes = if count.is_multiple_of(60) { count / 60 } else { count };
    Fault::new(&format!("{name} '{count}' has no unit: say {count}ms, {count}s or {minutes}m"))
}

/// Reads a duration.
///
/// # Errors
/// Anything that is not one.
#[inline(always)]
pub fn duration(name: &str, word: Option<&[u8]>) -> Result<Span, Fault> {
    period(name, word, false)?.span().ok_or_else(|| Fault::missing(name, DURATION))
}

/// Reads the longest time to queue: a duration of at most an hour, or `0s` (in any unit).
///
/// # Errors
/// Anything else.
pub fn longest_wait(word: Option<&[u8]>) -> Result<Span, Fault> {
    const NAME: &str = "max-wait";
    const ACCEPTED: &str = "0s or a duration of at most 1h, such as 500ms or 30s";
    let Some(word) = word else {
        return Err(Fault::missing(NAME, ACCEPTED));
    };
    match word {
        b"0ms" | b"0s" | b"0m" | b"0h" => return Ok(Span::ZERO),
        b"0" => return Err(Fault::new("max-wait '0' has no unit: say 0s")),
        _ => {}
    }
    let longest = Span::from_ms(LONGEST_QUEUE_MS);
    match duration(NAME, Some(word)) {
        Ok(span) if span <= longest => Ok(span),
        Err(fault) if digits(word).is_some() => Err(fault),
        _ => Err(Fault::word(NAME, word, ACCEPTED)),
    }
}

/// Reads an offset from UTC: `+hh:mm` or `-hh:mm`.
///
/// # Errors
/// Anything else.
pub fn offset(word: Option<&[u8]>) -> Result<Offset, Fault> {
    const ACCEPTED: &str = "an offset from UTC such as +02:00 or -05:30";
    let Some(word) = word else {
        return Err(Fault::missing("TZ", ACCEPTED));
    };
    let read = || {
        let [sign @ (b'+' | b'-'), h1, h0, b':', m1, m0] = word else {
            return None;
        };
        let digit = |byte: u8| byte.is_ascii_digit().then(|| i16::from(byte - b'0'));
        let hours = digit(*h1)? * 10 + digit(*h0)?;
        let minutes = digit(*m1)? * 10 + digit(*m0)?;
        if hours > 23 || minutes > 59 {
            return None;
        }
        let total = hours * 60 + minutes;
        Offset::from_minutes(if *sign == b'-' { -total } else { total })
    };
    read().ok_or_else(|| Fault::word("TZ", word, ACCEPTED))
}

/// Reads an id of 1 to 128 bytes.
///
/// # Errors
/// A missing, empty or longer one.
pub fn id<'a>(name: &str, word: Option<&'a [u8]>) -> Result<&'a [u8], Fault> {
    match word {
        Some(word) if is_id(word) => Ok(word),
        Some(word) => Err(Fault::word(name, word, "1 to 128 bytes long")),
        None => Err(Fault::missing(name, "1 to 128 bytes")),
    }
}

const fn is_id(word: &[u8]) -> bool {
    !word.is_empty() && word.len() <= 128
}

/// An option of a limiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// `COST n`
    Cost,
    /// `ALIGN`
    Align,
    /// `TZ +hh:mm`
    Tz,
    /// `PARTIAL`
    Partial,
    /// `BLOCK duration`
    Block,
    /// `ID id`
    Id,
    /// `BUCKETS b`
    Buckets,
    /// `SHAPE`
    Shape,
    /// `WITHIN duration`
    Within,
}

impl Choice {
    const ALL: [Self; 9] = [
        Self::Cost,
        Self::Align,
        Self::Tz,
        Self::Partial,
        Self::Block,
        Self::Id,
        Self::Buckets,
        Self::Shape,
        Self::Within,
    ];

    /// The option's word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Cost => "COST",
            Self::Align => "ALIGN",
            Self::Tz => "TZ",
            Self::Partial => "PARTIAL",
            Self::Block => "BLOCK",
            Self::Id => "ID",
            Self::Buckets => "BUCKETS",
            Self::Shape => "SHAPE",
            Self::Within => "WITHIN",
        }
    }

    const fn bit(self) -> u16 {
        1 << self as u16
    }

    fn of(word: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|choice| word.eq_ignore_ascii_case(choice.word().as_bytes()))
    }
}

/// A set of options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choices(u16);

impl Choices {
    /// A set of these.
    #[must_use]
    pub const fn of(choices: &[Choice]) -> Self {
        let mut bits = 0;
        let mut rest = choices;
        while let [first, tail @ ..] = rest {
            bits |= first.bit();
            rest = tail;
        }
        Self(bits)
    }

    /// Those that are in both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Whether an option is in the set.
    #[must_use]
    pub const fn has(self, choice: Choice) -> bool {
        self.0 & choice.bit() != 0
    }
}

/// The options of one rule, as they were read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options<'a> {
    given: u16,
    /// `COST n`
    pub cost: Option<u64>,
    /// `TZ +hh:mm`
    pub tz: Option<Offset>,
    /// `BLOCK duration`
    pub block: Option<Span>,
    /// `ID id`
    pub id: Option<&'a [u8]>,
    /// `BUCKETS b`
    pub buckets: Option<u32>,
    /// `WITHIN duration`
    pub within: Option<Span>,
}

impl<'a> Options<'a> {
    /// Reads options until the words end; `of` names, in two parts, what they belong to.
    ///
    /// # Errors
    /// A word that is no option there, an option that stands twice, or a value that is none.
    pub fn read(
        words: &mut impl Iterator<Item = &'a [u8]>,
        accepted: Choices,
        of: (&str, &str),
    ) -> Result<Self, Fault> {
        let mut options = Self::default();
        while let Some(word) = words.next() {
            let Some(choice) = Choice::of(word).filter(|choice| accepted.has(*choice)) else {
                return Err(unknown(word, accepted, of));
            };
            if options.has(choice) {
                return Err(Fault::new(&format!("{} stands twice, once is enough", choice.word())));
            }
            options.given |= choice.bit();
            match choice {
                Choice::Cost => options.cost = Some(COST.read(words.next())?),
                Choice::Tz => options.tz = Some(offset(words.next())?),
                Choice::Block => options.block = Some(duration("BLOCK", words.next())?),
                Choice::Id => options.id = Some(id("ID", words.next())?),
                Choice::Buckets => options.buckets = u32::try_from(BUCKETS.read(words.next())?).ok(),
                Choice::Within => options.within = Some(duration("WITHIN", words.next())?),
                Choice::Align | Choice::Partial | Choice::Shape => {}
            }
        }
        Ok(options)
    }

    /// Whether an option was given.
    #[must_use]
    pub const fn has(&self, choice: Choice) -> bool {
        self.given & choice.bit() != 0
    }

    /// Refuses two options that exclude each other.
    ///
    /// # Errors
    /// Both were given.
    #[inline]
    pub fn exclude(&self, one: Choice, other: Choice) -> Result<(), Fault> {
        if self.has(one) && self.has(other) { Err(together(one, "and", other, " exclude each other")) } else { Ok(()) }
    }

    /// Refuses an option without the one it needs.
    ///
    /// # Errors
    /// The first was given without the second.
    #[inline]
    pub fn require(&self, one: Choice, other: Choice) -> Result<(), Fault> {
        if self.has(one) && !self.has(other) { Err(together(one, "needs", other, "")) } else { Ok(()) }
    }
}

/// What is wrong with two options that stand together, or do not.
#[cold]
fn together(one: Choice, how: &str, other: Choice, end: &str) -> Fault {
    Fault::new(&format!("{} {how} {}{end}", one.word(), other.word()))
}

fn unknown(word: &[u8], accepted: Choices, (place, name): (&str, &str)) -> Fault {
    let words: Vec<_> = Choice::ALL.into_iter().filter(|choice| accepted.has(*choice)).map(Choice::word).collect();
    let accepted = if words.is_empty() { "none".to_owned() } else { words.join(", ") };
    Fault::new(&format!("{} is not an option of {place}{name}, accepted: {accepted}", quoted(word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(fault: &Fault) -> &str {
        fault.text()
    }

    #[test]
    fn numbers_are_read_as_redis_reads_integers() {
        for word in ["", "-1", "+1", "1.5", "1e3", "0x10", " 5", "5 ", "05", "1000000000000000", "\u{661}"] {
            let fault = LIMIT.read(Some(word.as_bytes())).unwrap_err();
            assert!(text(&fault).starts_with("ERR limit '"), "{}", text(&fault));
        }
        assert_eq!(LIMIT.read(Some(b"999999999999999")), Ok(999_999_999_999_999));
        assert_eq!(LIMIT.read(Some(b"0")), Ok(0));
        let fault = RATE.read(Some(b"0")).unwrap_err();
        assert_eq!(text(&fault), "ERR rate '0' is not a whole number from 1 to 999999999999999");
        assert_eq!(
            text(&COST.read(None).unwrap_err()),
            "ERR COST has no value: a whole number from 0 to 999999999999999"
        );
    }

    #[test]
    fn durations_need_a_unit_and_say_which() {
        let ms = |word: &str| duration("period", Some(word.as_bytes())).map(Span::ceil_ms);
        assert_eq!(ms("250ms"), Ok(250));
        assert_eq!(ms("10s"), Ok(10_000));
        assert_eq!(ms("3650d"), Ok(LONGEST_PERIOD_MS));
        assert_eq!(ms("521w"), Ok(521 * 7 * 86_400_000));
        assert_eq!(text(&ms("60").unwrap_err()), "ERR period '60' has no unit: say 60ms, 60s or 1m");
        assert_eq!(text(&ms("90").unwrap_err()), "ERR period '90' has no unit: say 90ms, 90s or 90m");
        for word in ["", "s", "0", "0s", "-5", "1.5s", "007s", "60S", "10y", "1mo", "3651d", "99999999999999999999d"] {
            let fault = ms(word).unwrap_err();
            assert!(text(&fault).starts_with("ERR period"), "{word}: {}", text(&fault));
        }
    }

    #[test]
    fn calendar_units_are_read_where_they_may_stand() {
        assert_eq!(period("period", Some(b"6mo"), true), Ok(Period::Months(6)));
        assert_eq!(period("period", Some(b"1y"), true), Ok(Period::Months(12)));
        for word in ["5mo", "12mo", "0mo", "2y"] {
            assert!(period("period", Some(word.as_bytes()), true).is_err(), "{word}");
        }
    }

    #[test]
    fn offsets_have_a_sign_and_four_digits() {
        assert_eq!(offset(Some(b"-05:30")), Ok(Offset::from_minutes(-330).unwrap()));
        for word in ["+2", "02:00", "+24:00", "+01:60", "+1:00", "+0a:00", "+02:000"] {
            assert!(text(&offset(Some(word.as_bytes())).unwrap_err()).contains("TZ"), "{word}");
        }
    }

    #[test]
    fn zero_is_a_time_to_queue_and_two_hours_are_not() {
        assert_eq!(longest_wait(Some(b"0s")), Ok(Span::ZERO));
        assert_eq!(text(&longest_wait(Some(b"0")).unwrap_err()), "ERR max-wait '0' has no unit: say 0s");
        assert_eq!(text(&longest_wait(Some(b"60")).unwrap_err()), "ERR max-wait '60' has no unit: say 60ms, 60s or 1m");
        for word in ["61m", "2h", "1y", "x"] {
            let expected = format!("ERR max-wait '{word}' is not 0s or a duration of at most 1h, such as 500ms or 30s");
            assert_eq!(text(&longest_wait(Some(word.as_bytes())).unwrap_err()), expected);
        }
        assert_eq!(longest_wait(Some(b"1h")), Ok(Span::from_ms(3_600_000)));
    }
}
