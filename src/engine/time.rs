//! Instants and lengths of time, and the only place that rounds between their units.
//!
//! [`Micros`] is an instant of the wall clock in microseconds, [`Millis`] one in milliseconds (what a server's key
//! expiry is made of), [`Span`] a length in microseconds. A wait is rounded up, an instant that opens a window is
//! rounded down; every function that rounds says so in its name.

/// Microseconds in a millisecond.
const US_PER_MS: i64 = 1_000;
/// Nanoseconds in a microsecond.
const NS_PER_US: i128 = 1_000;
/// Nanoseconds in a millisecond.
const NS_PER_MS: i128 = 1_000_000;

/// The longest wait, reset or time to live that is ever stated, in milliseconds (fifteen nines).
pub const LONGEST_MS: i64 = 999_999_999_999_999;

/// An instant: microseconds since the Unix epoch, always sixteen digits (September 2001 to November 2286).
///
/// Sixteen digits tell our instants from seconds and milliseconds that somebody else stored, and stay exact in the
/// double-precision scores of a sorted set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Micros(i64);

impl Micros {
    /// The earliest instant with sixteen digits.
    pub const EARLIEST: Self = Self(1_000_000_000_000_000);
    /// The latest instant with sixteen digits.
    pub const LATEST: Self = Self(9_999_999_999_999_999);

    /// The reading of a clock; one outside the sixteen digits counts as the nearest end.
    #[must_use]
    pub const fn from_clock(us: i64) -> Self {
        if us < Self::EARLIEST.0 {
            Self::EARLIEST
        } else if us > Self::LATEST.0 {
            Self::LATEST
        } else {
            Self(us)
        }
    }

    /// A stored instant, if it has sixteen digits.
    #[must_use]
    pub const fn checked(us: i64) -> Option<Self> {
        if us < Self::EARLIEST.0 || us > Self::LATEST.0 { None } else { Some(Self(us)) }
    }

    /// Microseconds since the epoch.
    #[must_use]
    pub const fn get(self) -> i64 {
        self.0
    }

    /// Nanoseconds since the epoch.
    #[must_use]
    pub fn ns(self) -> i128 {
        i128::from(self.0) * NS_PER_US
    }

    /// The millisecond that this instant lies in.
    #[must_use]
    pub const fn floor_ms(self) -> Millis {
        Millis(self.0.div_euclid(US_PER_MS))
    }

    /// How long after `earlier` this is; nothing if it is not after it.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Span {
        if earlier.0 >= self.0 { Span::ZERO } else { Span(self.0 - earlier.0) }
    }

    /// This instant moved on by `span`, not past [`Micros::LATEST`].
    #[must_use]
    pub const fn plus(self, span: Span) -> Self {
        Self::from_clock(self.0.saturating_add(span.0))
    }

    /// The last instant that lies a whole `span` or more before this one: what happened then is outside a window of
    /// that length which ends now. It may lie before the sixteen digits, so it is a bare number of microseconds.
    #[must_use]
    pub const fn minus_us(self, span: Span) -> i64 {
        self.0.saturating_sub(span.0)
    }

    /// The first whole millisecond at or after `span` from now, at most [`LONGEST_MS`] away.
    #[must_use]
    pub fn ceil_ms_after(self, span: Span) -> Millis {
        let exact = self.0.saturating_add(span.0);
        let ms = exact.div_euclid(US_PER_MS).saturating_add(i64::from(exact.rem_euclid(US_PER_MS) != 0));
        Millis(ms.min(self.floor_ms().0.saturating_add(LONGEST_MS)))
    }
}

/// An instant in whole milliseconds since the Unix epoch, the unit of key expiry and of clock-aligned windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millis(i64);

impl Millis {
    /// Any number of milliseconds since the epoch.
    #[must_use]
    pub const fn new(ms: i64) -> Self {
        Self(ms)
    }

    /// Milliseconds since the epoch.
    #[must_use]
    pub const fn get(self) -> i64 {
        self.0
    }

    /// The first whole millisecond at or after an instant in nanoseconds since the epoch.
    #[must_use]
    pub fn ceil_of_ns(ns: i128) -> Self {
        let ms = ns.div_euclid(NS_PER_MS) + i128::from(ns.rem_euclid(NS_PER_MS) != 0);
        Self(i64::try_from(ms).unwrap_or(i64::MAX))
    }

    /// Nanoseconds since the epoch.
    #[must_use]
    pub fn ns(self) -> i128 {
        i128::from(self.0) * NS_PER_MS
    }

    /// This instant moved on by a span, rounded up to a whole millisecond, saturating.
    #[must_use]
    pub const fn plus_ceil(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.ceil_ms()))
    }

    /// Whether this instant lies a whole `span` or more after `now`.
    #[must_use]
    pub const fn is_after(self, now: Micros, span: Span) -> bool {
        self.0.saturating_mul(US_PER_MS) >= now.0.saturating_add(span.0)
    }

    /// How long after `earlier` this is; nothing if it is not after it.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Span {
        let ms = self.0.saturating_sub(earlier.0);
        if ms <= 0 { Span::ZERO } else { Span(ms.saturating_mul(US_PER_MS)) }
    }

    /// The same instant, at most [`LONGEST_MS`] after `now`.
    #[must_use]
    pub fn at_most_longest_after(self, now: Self) -> Self {
        Self(self.0.min(now.0.saturating_add(LONGEST_MS)))
    }
}

/// A length of time in microseconds, never negative; sums and products stop at the largest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(i64);

impl Span {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// Longer than anything that is ever stated.
    pub const MAX: Self = Self(i64::MAX);

    /// A span of whole milliseconds; a negative one is none.
    #[must_use]
    pub const fn from_ms(ms: i64) -> Self {
        if ms <= 0 { Self::ZERO } else { Self(ms.saturating_mul(US_PER_MS)) }
    }

    /// A span of microseconds; a negative one is none.
    #[must_use]
    pub const fn from_us(us: i64) -> Self {
        if us <= 0 { Self::ZERO } else { Self(us) }
    }

    /// A span of nanoseconds, rounded up; a negative one is none.
    #[must_use]
    pub fn ceil_of_ns(ns: i128) -> Self {
        let us = ns.div_euclid(NS_PER_US) + i128::from(ns.rem_euclid(NS_PER_US) != 0);
        Self::from_us(i64::try_from(us).unwrap_or(i64::MAX))
    }

    /// Microseconds.
    #[must_use]
    pub const fn us(self) -> i64 {
        self.0
    }

    /// Whole milliseconds, rounded up.
    #[must_use]
    pub const fn ceil_ms(self) -> i64 {
        // Never negative, and without a sign there is one multiplication instead of two.
        ((self.0.cast_unsigned() + (US_PER_MS - 1).cast_unsigned()) / US_PER_MS.cast_unsigned()).cast_signed()
    }

    /// The sum, or the largest span.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// What is left of this span after `other`.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        if other.0 >= self.0 { Self::ZERO } else { Self(self.0 - other.0) }
    }

    /// One of `parts` equal parts of this span in whole milliseconds, rounded up.
    #[must_use]
    pub fn part_ceil_ms(self, parts: u32) -> i64 {
        let ms = self.ceil_ms();
        let parts = i64::from(parts.max(1));
        ms / parts + i64::from(ms % parts != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_and_expiries_round_up_and_window_starts_round_down() {
        assert_eq!(Span(1).ceil_ms(), 1);
        assert_eq!(Span(1_000).ceil_ms(), 1);
        assert_eq!(Span(1_001).ceil_ms(), 2);
        let now = Micros(1_767_225_600_000_999);
        assert_eq!(now.floor_ms(), Millis(1_767_225_600_000));
        assert_eq!(now.ceil_ms_after(Span(1)), Millis(1_767_225_600_001));
        assert_eq!(now.ceil_ms_after(Span(2)), Millis(1_767_225_600_002));
    }

    #[test]
    fn an_expiry_is_never_further_away_than_fifteen_nines() {
        let now = Micros(1_767_225_600_000_000);
        assert_eq!(now.ceil_ms_after(Span::MAX), Millis(1_767_225_600_000 + LONGEST_MS));
        assert_eq!(Millis(i64::MAX).at_most_longest_after(Millis(5)), Millis(5 + LONGEST_MS));
    }

    #[test]
    fn a_clock_outside_sixteen_digits_counts_as_the_nearest_end() {
        assert_eq!(Micros::from_clock(0), Micros::EARLIEST);
        assert_eq!(Micros::from_clock(i64::MAX), Micros::LATEST);
        assert_eq!(Micros::checked(999_999_999_999_999), None);
    }
}
