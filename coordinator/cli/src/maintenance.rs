//! A maintenance window as people declare it, in a group file and by `window add`.
//!
//! Time zones are the coordinator's business: it knows them, and which rules of theirs count.

use std::fmt;
use std::str::FromStr;

use rollcall_ident::Millis;
use rollcall_proto::v1;

const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// A window that comes again every week.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// On which it begins; none: every day.
    pub days: Vec<Day>,
    pub start_time: StartTime,
    pub length: Millis,
    /// IANA; none: UTC.
    pub time_zone: Option<String>,
}

/// A day of the week, from Monday on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Day(usize);

/// When a window begins, in minutes after local midnight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StartTime(u32);

impl Window {
    /// What is wrong with it: the key in the group file, and the problem with what would be right.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        let mut days = self.days.clone();
        days.sort_unstable();
        if let Some(pair) = days.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(("days", format!("names {} twice", pair[0])));
        }
        if self.time_zone.as_ref().is_some_and(String::is_empty) {
            return Err(("time_zone", "expected the name of a zone, like Europe/Berlin or UTC".to_owned()));
        }
        let gap = shortest_gap(&days);
        if self.length.0 == 0 {
            Err(("length", "0s is no window: expected a duration like 2h".to_owned()))
        } else if self.length > gap {
            Err(("length", format!("{} is too long: the window comes again after {gap}", self.length)))
        } else {
            Ok(())
        }
    }

    /// As requests carry it; the coordinator gives it its id.
    pub fn into_wire(self) -> v1::Window {
        v1::Window {
            window_id: String::new(),
            days: self.days.iter().map(ToString::to_string).collect(),
            start_time: self.start_time.to_string(),
            length_ms: self.length.0,
            time_zone: self.time_zone.unwrap_or_default(),
        }
    }
}

/// From one beginning to the next, on `days` in their order.
fn shortest_gap(days: &[Day]) -> Millis {
    let next_week = days.first().map(|first| Day(first.0 + DAYS.len()));
    let beginnings: Vec<_> = days.iter().copied().chain(next_week).collect();
    let gaps = beginnings.windows(2).map(|pair| pair[1].0 - pair[0].0);
    Millis(gaps.min().map_or(1, |gap| gap as u64) * DAY_MS)
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(DAYS[self.0])
    }
}

impl FromStr for Day {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let day = DAYS.iter().position(|day| *day == text);
        day.map(Self).ok_or_else(|| format!("{text:?} is not a day: expected {}", DAYS.join(", ")))
    }
}

impl fmt::Display for StartTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}:{:02}", self.0 / 60, self.0 % 60)
    }
}

impl FromStr for StartTime {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let two_digits = |part: &str| {
            let is_number = part.len() == 2 && part.bytes().all(|b| b.is_ascii_digit());
            if is_number { part.parse::<u32>().ok() } else { None }
        };
        let parts = text.split_once(':').and_then(|(hour, minute)| two_digits(hour).zip(two_digits(minute)));
        match parts {
            Some((hour, minute)) if hour < 24 && minute < 60 => Ok(Self(hour * 60 + minute)),
            _ => Err(format!("{text:?} is not a time of day: expected HH:MM from 00:00 to 23:59")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(days: &str, length: &str) -> Window {
        Window {
            days: days.split_terminator(',').map(|day| day.parse().unwrap()).collect(),
            start_time: "02:30".parse().unwrap(),
            length: length.parse().unwrap(),
            time_zone: None,
        }
    }

    #[test]
    fn windows_print_as_they_are_declared() {
        let wire = window("mon,thu", "2h").into_wire();
        assert_eq!((wire.days, wire.start_time.as_str()), (vec!["mon".to_owned(), "thu".to_owned()], "02:30"));
        for bad in ["2:30", "24:00", "12:60", "1230", "+1:30", ""] {
            assert!(bad.parse::<StartTime>().is_err(), "{bad}");
        }
        assert!("monday".parse::<Day>().unwrap_err().contains("expected mon, tue"));
    }

    #[test]
    fn a_window_ends_before_it_begins_again() {
        for (days, longest, too_long) in
            [("", "1d", "1d1s"), ("mon", "7d", "7d1s"), ("sun,mon", "1d", "1d1s"), ("mon,thu", "3d", "3d1s")]
        {
            assert_eq!(window(days, longest).check(), Ok(()), "{days} {longest}");
            assert_eq!(window(days, too_long).check().unwrap_err().0, "length", "{days} {too_long}");
        }
        assert_eq!(window("mon", "0s").check().unwrap_err().0, "length");
        assert_eq!(window("mon,mon", "1h").check().unwrap_err().0, "days");
    }
}
