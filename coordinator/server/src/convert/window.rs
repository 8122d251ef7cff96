//! Maintenance windows and change freezes.

use rollcall_ident::{Millis, WallTime};
use rollcall_proto::v1;
use rollcall_rollout::{Closed, Day, Freeze, Group, State, Window, openness};

use super::moment::timestamp;
use super::{FieldError, policy::one_of};

/// BOUND: a week has seven.
const MAX_DAYS: usize = 7;

/// A window that a request declares; its id is given by the coordinator.
///
/// # Errors
/// Names the first key, as in the group file, that can't be read. Whether the whole makes sense `apply` says.
pub fn window(window: v1::Window) -> Result<Window, FieldError> {
    let v1::Window { window_id: _, days, start_time, length_ms, time_zone } = window;
    if days.len() > MAX_DAYS {
        return Err(FieldError::new("window.days", format!("names {} days; a week has {MAX_DAYS}", days.len())));
    }
    let day = |day: String| one_of::<Day>("window.days", Some(day), "mon, tue, wed, thu, fri, sat, sun");
    Ok(Window {
        days: days.into_iter().map(day).collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect(),
        start_minute: start_minute(&start_time)?,
        length: Millis(length_ms),
        time_zone: if time_zone.is_empty() { "UTC".to_owned() } else { time_zone },
    })
}

/// Minutes after midnight, of `HH:MM`.
fn start_minute(text: &str) -> Result<u32, FieldError> {
    let is_number = |text: &str| text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = |text: &str| text.parse::<u32>().ok().filter(|_| is_number(text));
    let parts = text.split_once(':').and_then(|(hour, minute)| number(hour).zip(number(minute)));
    match parts {
        Some((hour, minute)) if hour < 24 && minute < 60 => Ok(hour * 60 + minute),
        _ => Err(FieldError::new("window.start_time", format!("{text:?} is no time between 00:00 and 23:59"))),
    }
}

/// The windows of a group, oldest first.
pub fn windows(group: &Group) -> Vec<v1::Window> {
    let one = |(id, window): (&rollcall_ident::WindowId, &Window)| v1::Window {
        window_id: id.to_string(),
        days: window.days.iter().map(ToString::to_string).collect(),
        start_time: format!("{:02}:{:02}", window.start_minute / 60, window.start_minute % 60),
        length_ms: window.length.0,
        time_zone: window.time_zone.clone(),
    };
    group.windows.iter().map(one).collect()
}

/// The windows of a group, whether it is open at `now`, and when that changes.
pub fn group_windows(state: &State, group: &Group, now: WallTime) -> v1::GroupWindows {
    let freezes: Vec<&Freeze> = state.freezes().values().filter(|freeze| freeze.covers(&group.name)).collect();
    let (open, changes_at) = outlook(group, &freezes, now);
    v1::GroupWindows {
        group: group.name.to_string(),
        windows: windows(group),
        open,
        changes_at: changes_at.map(timestamp),
    }
}

/// Whether the group is open, and when that changes.
fn outlook(group: &Group, freezes: &[&Freeze], now: WallTime) -> (bool, Option<WallTime>) {
    let at = |now| openness(group.windows.values(), freezes.iter().copied(), now);
    let first = at(now);
    let mut closed = match first.closed {
        None => return (true, first.closes_at),
        Some(closed) => closed,
    };
    // BOUND: each look is at the end of what closed it before: a freeze ends once, and behind it a window must open.
    for _ in 0..=2 * freezes.len() + 1 {
        let ends_at = match closed {
            Closed::OutsideWindow { opens_at } => opens_at,
            Closed::Frozen { until, .. } => until,
        };
        let Some(ends_at) = ends_at else { return (false, None) };
        match at(ends_at).closed {
            None => return (false, Some(ends_at)),
            Some(next) => closed = next,
        }
    }
    (false, None)
}

/// A change freeze.
pub fn freeze(freeze: &Freeze) -> v1::Freeze {
    v1::Freeze {
        freeze_id: freeze.id.to_string(),
        groups: freeze.groups.iter().map(ToString::to_string).collect(),
        from: Some(timestamp(freeze.from)),
        until: freeze.until.map(timestamp),
        by: freeze.by.0.clone(),
        reason: freeze.reason.clone().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_window_is_refused_by_its_key() {
        let good = v1::Window {
            days: vec!["mon".into()],
            start_time: "02:30".into(),
            length_ms: 3_600_000,
            ..v1::Window::default()
        };
        let parsed = window(good.clone()).unwrap();
        assert_eq!((parsed.start_minute, parsed.time_zone.as_str()), (150, "UTC"));
        for start_time in ["", "2:30", "24:00", "02:60", "0230", "+2:30", "02:30:00"] {
            let error = window(v1::Window { start_time: start_time.into(), ..good.clone() }).unwrap_err();
            assert_eq!(error.field, "window.start_time", "{start_time}");
        }
        let error = window(v1::Window { days: vec!["monday".into()], ..good }).unwrap_err();
        assert_eq!(error.field, "window.days");
    }
}
