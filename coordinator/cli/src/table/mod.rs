//! Views as people see them. One family per file; each fits the page's width.

mod audit;
mod channel;
mod cluster;
mod event;
mod explain;
mod group;
mod node;
mod plan;
mod rollout;
mod snapshot;
mod token;

pub use rollout::{rollout_header, step_note};

use crate::output::{Page, View};
use crate::view::Changed;

/// What a table shows where there is nothing to show.
const NONE: &str = "-";

impl View for Changed {
    fn to_table(&self, _: &Page) -> String {
        format!("done at revision {}", self.revision)
    }
}

fn or_none(text: Option<&str>) -> &str {
    text.unwrap_or(NONE)
}

/// `2026-11-30 14:04:12` of an RFC 3339 time.
fn short_time(time: Option<&str>) -> String {
    time_up_to(time, "2026-11-30T14:04:12".len())
}

/// `2026-11-30 14:04` of an RFC 3339 time, where a table has no room for the seconds.
fn short_minute(time: Option<&str>) -> String {
    time_up_to(time, "2026-11-30T14:04".len())
}

fn time_up_to(time: Option<&str>, end: usize) -> String {
    time.map_or_else(|| NONE.to_owned(), |time| time.get(..end).unwrap_or(time).replace('T', " "))
}
