//! Windows that follow the clock and the calendar.
//!
//! A window of a plain period starts at the multiples of that period since the Unix epoch, in UTC or at a fixed
//! offset from it. Weeks start on Monday, months on their first day, years on the first of January. The arithmetic
//! is that of the proleptic Gregorian calendar, on days since the epoch; see "days from civil" in the literature on
//! calendrical calculations for the formula. Everything is in whole milliseconds.

use super::time::{Millis, Span};

const DAY_MS: i64 = 86_400_000;
/// Thursday, 1 January 1970 lies three days after a Monday.
const MONDAY_MS: i64 = -3 * DAY_MS;

/// The length of a fixed window, with the units that mean something only on a calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Period {
    /// A fixed length: `250ms`, `10s`, `1d`.
    Plain(Span),
    /// Whole weeks: a fixed length that, aligned to the clock, starts on Mondays.
    Weeks(Span),
    /// 1, 2, 3, 4 or 6 calendar months, counted from January, or 12: the calendar year.
    Months(u8),
}

/// A fixed offset from UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offset {
    minutes: i16,
}

impl Offset {
    /// UTC itself.
    pub const UTC: Self = Self { minutes: 0 };

    /// An offset of less than a day, in minutes; negative is west of Greenwich.
    #[must_use]
    pub const fn from_minutes(minutes: i16) -> Option<Self> {
        if minutes.abs() < 24 * 60 { Some(Self { minutes }) } else { None }
    }

    const fn ms(self) -> i64 {
        self.minutes as i64 * 60_000
    }
}

impl Period {
    /// The length, if it has one: a month has not.
    #[must_use]
    pub const fn span(self) -> Option<Span> {
        match self {
            Self::Plain(span) | Self::Weeks(span) => Some(span),
            Self::Months(_) => None,
        }
    }

    /// The end of the clock-aligned window that `now` lies in; a window is half open.
    #[must_use]
    pub fn end_of_window_at(self, now: Millis, offset: Offset) -> Millis {
        let local = now.get().saturating_add(offset.ms());
        let end = match self {
            Self::Plain(span) => next_multiple(local, 0, span.ceil_ms()),
            Self::Weeks(span) => next_multiple(local, MONDAY_MS, span.ceil_ms()),
            Self::Months(months) => next_month(local, i64::from(months)),
        };
        Millis::new(end.saturating_sub(offset.ms()))
    }
}

/// The first instant after `local` that lies a multiple of `step` from `origin`.
fn next_multiple(local: i64, origin: i64, step: i64) -> i64 {
    let step = step.max(1);
    let since = local.saturating_sub(origin);
    local.saturating_sub(since.rem_euclid(step)).saturating_add(step)
}

/// The first instant after `local` at which a group of `months` months, counted from January, begins.
fn next_month(local: i64, months: i64) -> i64 {
    let months = months.clamp(1, 12);
    let (year, month) = civil_month(local.div_euclid(DAY_MS));
    let next = (month / months + 1) * months;
    days_from_civil(year + next / 12, next % 12).saturating_mul(DAY_MS)
}

/// Year and month (January is 0) of a day counted from the epoch.
fn civil_month(days: i64) -> (i64, i64) {
    // Years start in March here, so that the leap day is the last of its year; 719468 days lead from 0000-03-01 to
    // 1970-01-01.
    let shifted = days.saturating_add(719_468);
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let month = (march_month + 2) % 12;
    (era * 400 + year_of_era + i64::from(month < 2), month)
}

/// The day, counted from the epoch, of the first of a month (January is 0).
fn days_from_civil(year: i64, month: i64) -> i64 {
    let march_year = year - i64::from(month < 2);
    let march_month = (month + 10) % 12;
    let era = march_year.div_euclid(400);
    let year_of_era = march_year.rem_euclid(400);
    let day_of_year = (153 * march_month + 2) / 5;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn is_leap(year: i64) -> bool {
        year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
    }

    /// Walks the calendar day by day, knowing only the lengths of months.
    #[test]
    fn every_month_from_1970_to_2400_begins_on_the_day_that_a_walk_over_the_days_finds() {
        let lengths = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        let mut day = 0;
        for year in 1970..2400 {
            for (month, length) in (0..12).zip(lengths) {
                assert_eq!(days_from_civil(year, month), day, "{year}-{month}");
                let length = length + i64::from(month == 1 && is_leap(year));
                for within in [0, 1, length - 1] {
                    assert_eq!(civil_month(day + within), (year, month));
                }
                day += length;
            }
        }
    }

    #[test]
    fn months_are_grouped_from_january() {
        let may_2026 = days_from_civil(2026, 4) * DAY_MS + 5;
        let ends = [(1, (2026, 5)), (2, (2026, 6)), (3, (2026, 6)), (4, (2026, 8)), (6, (2026, 6)), (12, (2027, 0))];
        for (months, (year, month)) in ends {
            assert_eq!(next_month(may_2026, months), days_from_civil(year, month) * DAY_MS, "{months} months");
        }
    }

    #[test]
    fn weeks_begin_on_monday_and_two_weeks_count_from_29_december_1969() {
        let week = Span::from_ms(7 * DAY_MS);
        let thursday = Millis::new(0);
        assert_eq!(Period::Weeks(week).end_of_window_at(thursday, Offset::UTC).get(), 4 * DAY_MS);
        let two = Span::from_ms(14 * DAY_MS);
        assert_eq!(Period::Weeks(two).end_of_window_at(thursday, Offset::UTC).get(), 11 * DAY_MS);
        assert_eq!(Period::Plain(week).end_of_window_at(thursday, Offset::UTC).get(), 7 * DAY_MS);
    }

    #[test]
    fn a_window_is_half_open_and_its_end_is_in_the_future() {
        let day = Period::Plain(Span::from_ms(DAY_MS));
        assert_eq!(day.end_of_window_at(Millis::new(DAY_MS - 1), Offset::UTC).get(), DAY_MS);
        assert_eq!(day.end_of_window_at(Millis::new(DAY_MS), Offset::UTC).get(), 2 * DAY_MS);
    }
}
