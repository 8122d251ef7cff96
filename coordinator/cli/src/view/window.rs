//! Maintenance windows.

use rollcall_proto::v1;
use serde::Serialize;

use super::common::time;

/// A group's windows, and whether it may be disturbed now.
#[derive(Debug, Serialize)]
pub struct GroupWindowsView {
    pub group: String,
    /// By windows and freezes together.
    pub open: bool,
    /// When that changes; `None`: never.
    pub changes_at: Option<String>,
    pub windows: Vec<WindowView>,
}

/// A window that comes again every week.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WindowView {
    pub window_id: String,
    /// On which it begins; none: every day.
    pub days: Vec<String>,
    /// `HH:MM` in its zone.
    pub start_time: String,
    pub length_ms: u64,
    /// IANA.
    pub time_zone: String,
}

/// What a new window is called.
#[derive(Debug, Serialize)]
pub struct WindowAddedView {
    pub group: String,
    pub window_id: String,
}

impl From<v1::GroupWindows> for GroupWindowsView {
    fn from(group: v1::GroupWindows) -> Self {
        Self {
            group: group.group,
            open: group.open,
            changes_at: time(group.changes_at.as_ref()),
            windows: group.windows.into_iter().map(WindowView::from).collect(),
        }
    }
}

impl From<v1::Window> for WindowView {
    fn from(window: v1::Window) -> Self {
        Self {
            window_id: window.window_id,
            days: window.days,
            start_time: window.start_time,
            length_ms: window.length_ms,
            time_zone: if window.time_zone.is_empty() { "UTC".to_owned() } else { window.time_zone },
        }
    }
}
