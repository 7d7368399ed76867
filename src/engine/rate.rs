//! Units per period, and the exact exchange between units and time.
//!
//! A rate of `units` per `period` gives back `units / period` of a unit each microsecond. So that nothing is ever
//! rounded on the way, amounts are counted in **shares**: one unit is as many shares as the period has microseconds,
//! and a microsecond gives back exactly `units` shares. Fifteen digits of units times the ten years of the longest
//! period are 3.2e29 shares, which is why they are 128-bit; whatever fits 64 bits is divided in 64 bits.

use super::time::Span;
use std::num::NonZeroU64;

/// An amount as it is stored: whole units and a fraction of one, `whole + numerator / denominator`.
///
/// The fraction is never negative: minus one and two thirds is `-2+1/3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amount {
    /// Whole units, rounded towards negative infinity.
    pub whole: i64,
    /// The fraction's numerator, from 0 to below the denominator.
    pub numerator: i64,
    /// The fraction's denominator, from 1 to the longest period in microseconds.
    pub denominator: i64,
}

impl Amount {
    /// Whole units, a fraction counting as one.
    #[must_use]
    #[inline]
    pub const fn ceil(self) -> i64 {
        self.whole.saturating_add((self.numerator > 0) as i64)
    }

    /// What this leaves of so many units.
    #[must_use]
    #[inline]
    pub fn left_of(self, units: u64) -> Self {
        let units = i64::try_from(units).unwrap_or(i64::MAX);
        let numerator = if self.numerator > 0 { self.denominator - self.numerator } else { 0 };
        Self { whole: units.saturating_sub(self.ceil()), numerator, denominator: self.denominator }
    }
}

/// `units` given back per `period`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    units: NonZeroU64,
    period_us: NonZeroU64,
}

/// An amount in shares of a unit; what a share is depends on the [`Rate`] that made it.
pub type Shares = i128;

impl Rate {
    /// A rate of at least one unit per period of at least a microsecond.
    #[must_use]
    #[inline]
    pub fn new(units: u64, period: Span) -> Option<Self> {
        let units = NonZeroU64::new(units)?;
        let period_us = NonZeroU64::new(period.us().cast_unsigned())?;
        Some(Self { units, period_us })
    }

    /// The period in microseconds.
    #[inline]
    fn period_us(self) -> i64 {
        self.period_us.get().cast_signed()
    }

    /// Shares of whole units, exactly.
    #[must_use]
    #[inline]
    pub fn of_units(self, units: u64) -> Shares {
        product(units, self.period_us)
    }

    /// Shares of a stored amount; what does not fit a share is dropped.
    #[must_use]
    #[inline]
    pub fn of_amount_floor(self, amount: Amount) -> Shares {
        self.of_amount(amount, false)
    }

    /// Shares of a stored amount; what does not fit a share counts as a whole one.
    #[must_use]
    #[inline]
    pub fn of_amount_ceil(self, amount: Amount) -> Shares {
        self.of_amount(amount, true)
    }

    #[inline]
    fn of_amount(self, amount: Amount, up: bool) -> Shares {
        let whole = Shares::from(amount.whole) * Shares::from(self.period_us());
        if amount.denominator == self.period_us() || amount.numerator == 0 {
            return whole + Shares::from(amount.numerator);
        }
        whole + self.fraction(amount, up)
    }

    /// Shares of a fraction under another period.
    #[inline(never)]
    fn fraction(self, amount: Amount, up: bool) -> Shares {
        let scaled = Shares::from(amount.numerator) * Shares::from(self.period_us());
        let denominator = Shares::from(amount.denominator);
        scaled.div_euclid(denominator) + Shares::from(up && scaled.rem_euclid(denominator) != 0)
    }

    /// The stored form of an amount, exactly: its fraction is held in shares.
    #[must_use]
    #[inline]
    pub fn amount(self, shares: Shares) -> Amount {
        let (whole, rest) = divided(shares, self.period_us);
        Amount { whole, numerator: rest.cast_signed(), denominator: self.period_us() }
    }

    /// Shares given back in `span`, exactly.
    #[must_use]
    #[inline]
    pub fn given_back(self, span: Span) -> Shares {
        product(span.us().cast_unsigned(), self.units)
    }

    /// The shortest time in whole microseconds that gives back at least so many shares.
    #[must_use]
    #[inline]
    pub fn time_ceil(self, shares: Shares) -> Span {
        let (whole, rest) = divided(shares.max(0), self.units);
        Span::from_us(whole.saturating_add(i64::from(rest > 0)))
    }
}

/// A product that does not fit 64 bits: what is multiplied here stays far below 127.
#[inline]
fn product(a: u64, b: NonZeroU64) -> Shares {
    (u128::from(a) * u128::from(b.get())).cast_signed()
}

/// `n / d` rounded down, as far as it fits 64 bits, and the rest.
#[inline]
fn divided(n: Shares, d: NonZeroU64) -> (i64, u64) {
    match u64::try_from(n) {
        Ok(narrow) if narrow.cast_signed() >= 0 => ((narrow / d).cast_signed(), narrow % d),
        _ => divided_wide(n, d),
    }
}

#[inline(never)]
fn divided_wide(n: Shares, d: NonZeroU64) -> (i64, u64) {
    let d = Shares::from(d.get());
    let whole = n.div_euclid(d);
    let whole = i64::try_from(whole).unwrap_or(if whole < 0 { i64::MIN } else { i64::MAX });
    (whole, u64::try_from(n.rem_euclid(d)).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(units: u64, ms: i64) -> Rate {
        Rate::new(units, Span::from_ms(ms)).unwrap()
    }

    #[test]
    fn an_amount_survives_the_way_into_shares_and_back() {
        let third = rate(3, 1);
        for shares in [-2_001_i128, -1, 0, 1, 999, 1_000, 123_456_789] {
            let amount = third.amount(shares);
            assert!(amount.numerator >= 0 && amount.numerator < amount.denominator);
            assert_eq!(third.of_amount_floor(amount), shares);
            assert_eq!(third.of_amount_ceil(amount), shares);
        }
    }

    #[test]
    fn a_fraction_of_another_period_is_rounded_in_the_direction_the_name_says() {
        let ms = rate(1, 1);
        let third = Amount { whole: 7, numerator: 1, denominator: 3 };
        assert_eq!(ms.of_amount_floor(third), 7_333);
        assert_eq!(ms.of_amount_ceil(third), 7_334);
    }

    #[test]
    fn narrow_and_wide_division_agree() {
        let by = |d| NonZeroU64::new(d).unwrap();
        let largest = i128::from(i64::MAX);
        for (n, d) in
            [(0, 7), (6, 7), (7, 7), (8, 7), (largest, 1), (largest, 4), (largest - 1, 3), (largest, u64::MAX)]
        {
            assert_eq!(divided(n, by(d)), divided_wide(n, by(d)), "{n} / {d}");
        }
        assert_eq!(divided(largest + 1, by(2)), (1 << 62, 0));
        assert_eq!(divided(largest * 4 + 3, by(4)), (i64::MAX, 3));
        assert_eq!(divided(largest * 9, by(4)), (i64::MAX, 3), "what does not fit is the largest that does");
        assert_eq!((divided(-7, by(2)), divided(-8, by(2))), ((-4, 1), (-4, 0)));
        assert_eq!(divided(-largest * 9, by(4)).0, i64::MIN);
    }

    #[test]
    fn what_a_debt_leaves_of_a_capacity_is_exact_below_nothing_too() {
        let third = rate(1, 3);
        for capacity in [0, 1, 5] {
            for owed in 0..40_000 {
                let left = third.amount(owed).left_of(capacity);
                assert_eq!(left, third.amount(third.of_units(capacity) - owed), "{owed} of {capacity}");
            }
        }
    }

    #[test]
    fn time_for_shares_is_the_first_microsecond_that_gives_them_back() {
        let rate = rate(3, 1_000);
        let need = rate.of_units(1);
        let time = rate.time_ceil(need);
        assert!(rate.given_back(time) >= need);
        assert!(rate.given_back(Span::from_us(time.us() - 1)) < need);
    }
}
