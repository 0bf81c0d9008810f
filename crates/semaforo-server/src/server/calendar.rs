//! Dates and times of day in UTC, as the log and HTTP write them.

use std::time::{SystemTime, UNIX_EPOCH};

const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// A moment of the proleptic Gregorian calendar, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    year: u64,
    /// From 1.
    month: u64,
    day: u64,
    /// Of the week that began with 1970-01-01, a Thursday.
    weekday: u64,
    second: u64,
    millisecond: u32,
}

impl From<SystemTime> for Moment {
    /// A clock that is set before 1970 counts as 1970.
    fn from(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        let days = since.as_secs() / 86_400;
        // Years are counted from March, so that a leap day is the last of its year; 0000-03-01 was
        // 719 468 days before 1970-01-01. An era is 400 years, which always have 146 097 days.
        let shifted = days + 719_468;
        let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
        let leap_days = day_of_era / 1_460 - day_of_era / 36_524 + day_of_era / 146_096;
        let year_of_era = (day_of_era - leap_days) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        // From March on, five months have 153 days over and over.
        let month_from_march = (5 * day_of_year + 2) / 153;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        Self {
            year: era * 400 + year_of_era + u64::from(month <= 2),
            month,
            day: day_of_year - (153 * month_from_march + 2) / 5 + 1,
            weekday: days % 7,
            second: since.as_secs() % 86_400,
            millisecond: since.subsec_millis(),
        }
    }
}

impl Moment {
    /// As in `2026-02-28T23:59:59.123Z`.
    pub(super) fn iso(self) -> String {
        let Self { year, month, day, millisecond, .. } = self;
        let (hour, minute, second) = self.time_of_day();
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millisecond:03}Z")
    }

    /// As in `Sat, 28 Feb 2026 23:59:59 GMT`, the one that HTTP wants.
    pub(super) fn http(self) -> String {
        let Self { year, month, day, weekday, .. } = self;
        let (hour, minute, second) = self.time_of_day();
        let weekday = DAYS.get(weekday as usize).unwrap_or(&"");
        let month = MONTHS.get(month as usize - 1).unwrap_or(&"");
        format!("{weekday}, {day:02} {month} {year:04} {hour:02}:{minute:02}:{second:02} GMT")
    }

    fn time_of_day(self) -> (u64, u64, u64) {
        (self.second / 3600, self.second / 60 % 60, self.second % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn at(seconds: u64) -> Moment {
        Moment::from(UNIX_EPOCH + Duration::from_millis(seconds * 1000 + 7))
    }

    #[test]
    fn known_moments() {
        assert_eq!(at(0).iso(), "1970-01-01T00:00:00.007Z");
        assert_eq!(at(951_827_696).iso(), "2000-02-29T12:34:56.007Z");
        assert_eq!(at(784_111_777).http(), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(at(4_107_542_399).http(), "Sun, 28 Feb 2100 23:59:59 GMT");
        assert_eq!(at(4_107_542_400).iso(), "2100-03-01T00:00:00.007Z");
    }

    #[test]
    fn every_day_follows_the_one_before() {
        let mut before = at(0);
        for day in 1..=80_000 {
            let today = at(day * 86_400);
            assert_eq!(today.weekday, (before.weekday + 1) % 7);
            let next_day = (today.year, today.month) == (before.year, before.month)
                && today.day == before.day + 1;
            let next_month = today.day == 1 && before.day >= 28;
            assert!(next_day || next_month, "{} after {}", today.iso(), before.iso());
            before = today;
        }
    }
}
