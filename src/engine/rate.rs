//! Units per period, and the exact exchange between units and time.
//!
//! A rate of `units` per `period` gives back `units / period` of a unit each microsecond. So that nothing is ever
//! rounded on the way, amounts are counted in **shares**: one unit is as many shares as the period has microseconds,
//! and a microsecond gives back exactly `units` shares. Fifteen digits of units times the ten years of the longest
//! period are 3.2e29 shares, which is why they are 128-bit; whatever fits 64 bits is divided in 64 bits.

use super::time::Span;

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

/// `units` given back per `period`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    units: i64,
    period_us: i64,
}

/// An amount in shares of a unit; what a share is depends on the [`Rate`] that made it.
pub type Shares = i128;

impl Rate {
    /// A rate of at least one unit per period of at least a microsecond.
    #[must_use]
    pub fn new(units: u64, period: Span) -> Option<Self> {
        let units = i64::try_from(units).ok()?;
        (units > 0 && period > Span::ZERO).then_some(Self { units, period_us: period.us() })
    }

    /// Shares of whole units, exactly.
    #[must_use]
    pub fn of_units(self, units: u64) -> Shares {
        Shares::from(units) * Shares::from(self.period_us)
    }

    /// Shares of a stored amount; what does not fit a share is dropped.
    #[must_use]
    pub fn of_amount_floor(self, amount: Amount) -> Shares {
        self.of_amount(amount, false)
    }

    /// Shares of a stored amount; what does not fit a share counts as a whole one.
    #[must_use]
    pub fn of_amount_ceil(self, amount: Amount) -> Shares {
        self.of_amount(amount, true)
    }

    fn of_amount(self, amount: Amount, up: bool) -> Shares {
        let whole = Shares::from(amount.whole) * Shares::from(self.period_us);
        if amount.denominator == self.period_us || amount.numerator == 0 {
            return whole + Shares::from(amount.numerator);
        }
        let scaled = Shares::from(amount.numerator) * Shares::from(self.period_us);
        whole + if up { div_ceil(scaled, amount.denominator) } else { div_floor(scaled, amount.denominator) }
    }

    /// The stored form of an amount, exactly: its fraction is held in shares.
    #[must_use]
    pub fn amount(self, shares: Shares) -> Amount {
        let whole = div_floor(shares, self.period_us);
        let rest = shares - whole * Shares::from(self.period_us);
        Amount {
            whole: i64::try_from(whole).unwrap_or(if whole < 0 { i64::MIN } else { i64::MAX }),
            numerator: i64::try_from(rest).unwrap_or(0),
            denominator: self.period_us,
        }
    }

    /// Shares given back in `span`, exactly.
    #[must_use]
    pub fn given_back(self, span: Span) -> Shares {
        Shares::from(span.us()) * Shares::from(self.units)
    }

    /// Whole units in so many shares, rounded down; none of a negative amount.
    #[must_use]
    pub fn units_floor(self, shares: Shares) -> u64 {
        u64::try_from(div_floor(shares.max(0), self.period_us)).unwrap_or(u64::MAX)
    }

    /// Whole units in so many shares, a fraction counting as one.
    #[must_use]
    pub fn units_ceil(self, shares: Shares) -> u64 {
        u64::try_from(div_ceil(shares.max(0), self.period_us)).unwrap_or(u64::MAX)
    }

    /// The shortest time in whole microseconds that gives back at least so many shares.
    #[must_use]
    pub fn time_ceil(self, shares: Shares) -> Span {
        Span::from_us(div_ceil(shares.max(0), self.units))
    }
}

/// `n / d` rounded down, for a positive `d`.
fn div_floor(n: i128, d: i64) -> i128 {
    match i64::try_from(n) {
        Ok(narrow) => i128::from(narrow.div_euclid(d)),
        Err(_) => n.div_euclid(i128::from(d)),
    }
}

/// `n / d` rounded up, for a positive `d`.
fn div_ceil(n: i128, d: i64) -> i128 {
    match i64::try_from(n) {
        Ok(narrow) => i128::from(narrow.div_euclid(d) + i64::from(narrow.rem_euclid(d) != 0)),
        Err(_) => n.div_euclid(i128::from(d)) + i128::from(n.rem_euclid(i128::from(d)) != 0),
    }
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
        let wide = i128::from(i64::MAX) * 4 + 3;
        assert_eq!(div_floor(wide, 4), i128::from(i64::MAX));
        assert_eq!(div_ceil(wide, 4), i128::from(i64::MAX) + 1);
        assert_eq!((div_floor(-7, 2), div_ceil(-7, 2)), (-4, -3));
        assert_eq!((div_floor(7, 2), div_ceil(7, 2)), (3, 4));
        assert_eq!(div_ceil(-wide, 4), -i128::from(i64::MAX));
    }

    #[test]
    fn time_for_shares_is_the_first_microsecond_that_gives_them_back() {
        let rate = rate(3, 1_000);
        let need = rate.of_units(1);
        let time = rate.time_ceil(need);
        assert!(rate.given_back(time) >= need);
        assert!(rate.given_back(Span::from_us(i128::from(time.us()) - 1)) < need);
    }
}
