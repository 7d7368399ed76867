//! Where the windows of FIXED begin and end, in whole milliseconds since the epoch.

#[derive(Clone, Debug)]
pub enum Window {
    /// So many milliseconds from its first admission.
    Rolling(i64),
    /// Multiples of so many milliseconds, on a clock that is so many ahead of UTC.
    Aligned(i64, i64),
    /// So many months from January, on such a clock. A year is twelve.
    Calendar { months: i64, offset_ms: i64 },
}

impl Window {
    /// The end of a window that opens now.
    pub fn end_ms(&self, now_ms: i64) -> i64 {
        match *self {
            Window::Rolling(period_ms) => now_ms + period_ms,
            Window::Aligned(period_ms, offset_ms) => now_ms + period_ms - (now_ms + offset_ms).rem_euclid(period_ms),
            Window::Calendar { months, offset_ms } => month_after(now_ms + offset_ms, months) - offset_ms,
        }
    }

    /// A window that ends later than the first of these is from the future and shall end at the second.
    pub fn mending_ms(&self, now_ms: i64) -> (i64, i64) {
        match *self {
            Window::Rolling(period_ms) | Window::Aligned(period_ms, _) => (now_ms + period_ms, now_ms + period_ms),
            Window::Calendar { .. } => {
                let end_ms = self.end_ms(now_ms);
                (self.end_ms(end_ms), end_ms)
            }
        }
    }
}

/// The first instant after `local_ms` at which a block of `months` months begins. Found by walking from 1970.
fn month_after(local_ms: i64, months: i64) -> i64 {
    let day = local_ms.div_euclid(86_400_000);
    let (mut year, mut month, mut first_day) = (1970, 0, 0);
    while first_day + year_days(year) <= day {
        first_day += year_days(year);
        year += 1;
    }
    loop {
        first_day += month_days(year, month);
        month += 1;
        if month % months == 0 && first_day > day {
            return first_day * 86_400_000;
        }
    }
}

fn year_days(year: i64) -> i64 {
    (0..12).map(|month| month_days(year, month)).sum()
}

/// Days of a month, January being 0.
fn month_days(year: i64, month: i64) -> i64 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        1 => 28 + i64::from(leap),
        3 | 5 | 8 | 10 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_MS: i64 = 86_400_000;

    /// One day of the calendar, and how to reach the next: all that the independent walk knows.
    #[derive(Clone, Copy, PartialEq, Debug)]
    struct Day {
        year: i64,
        month: i64,
        day: i64,
        weekday: i64,
    }

    const EPOCH: Day = Day { year: 1970, month: 1, day: 1, weekday: 4 };

    impl Day {
        fn next(self) -> Day {
            let weekday = self.weekday % 7 + 1;
            let century = self.year % 100 == 0;
            let february = if self.year % if century { 400 } else { 4 } == 0 { 29 } else { 28 };
            let length =
                [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][usize::try_from(self.month - 1).unwrap()];
            match (self.day < length, self.month < 12) {
                (true, _) => Day { day: self.day + 1, weekday, ..self },
                (false, true) => Day { day: 1, month: self.month + 1, weekday, ..self },
                (false, false) => Day { day: 1, month: 1, year: self.year + 1, weekday },
            }
        }
    }

    /// Protects the calendar: every window of months, years and weeks ends where counting day by day from 1970 says.
    #[test]
    fn calendar_windows_agree_with_a_walk_day_by_day() {
        let mut days = vec![EPOCH];
        for _ in 0..50_000 {
            days.push(days.last().unwrap().next());
        }
        assert_eq!(days[20_454], Day { year: 2026, month: 1, day: 1, weekday: 4 });
        let starts = |at: usize, months: i64| days[at].day == 1 && (days[at].month - 1) % months == 0;
        for (months, offset_ms) in [(1, 0), (2, 0), (3, 0), (4, 0), (6, 0), (12, 0), (1, -19_800_000), (3, 50_400_000)]
        {
            let window = Window::Calendar { months, offset_ms };
            let mut end = 0;
            for at in (10_950..49_000).step_by(3) {
                while end <= at || !starts(end, months) {
                    end += 1;
                }
                let end_ms = i64::try_from(end).unwrap() * DAY_MS - offset_ms;
                let open_ms = i64::try_from(at).unwrap() * DAY_MS - offset_ms;
                assert_eq!(window.end_ms(open_ms), end_ms, "{:?}", days[at]);
                assert_eq!(window.end_ms(open_ms + DAY_MS - 1), end_ms, "{:?}", days[at]);
                assert_eq!(window.end_ms(end_ms - 1), end_ms, "{:?}", days[at]);
            }
        }
        let week = Window::Aligned(7 * DAY_MS, 3 * DAY_MS);
        for (at, day) in days.iter().enumerate() {
            let begin_ms = i64::try_from(at).unwrap() * DAY_MS;
            assert_eq!((week.end_ms(begin_ms) - begin_ms) / DAY_MS, 8 - day.weekday, "{day:?}");
        }
    }

    /// Protects the walk itself from a shared mistake: instants that any `date -u` confirms.
    #[test]
    fn well_known_instants() {
        let month = Window::Calendar { months: 1, offset_ms: 0 };
        for (inside_s, end_s) in
            [(951_782_400, 951_868_800), (1_709_164_800, 1_709_251_200), (4_107_456_000, 4_107_542_400)]
        {
            assert_eq!(month.end_ms(inside_s * 1000), end_s * 1000);
        }
        let fortnight = Window::Aligned(14 * DAY_MS, 3 * DAY_MS);
        assert_eq!(fortnight.end_ms(0), 11 * DAY_MS, "two weeks are counted from Monday 29 December 1969");
    }
}
