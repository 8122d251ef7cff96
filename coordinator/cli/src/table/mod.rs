//! Views as people see them. One family per file; each fits the page's width.

mod audit;
mod channel;
mod cluster;
mod doctor;
mod event;
mod explain;
mod freeze;
mod group;
mod node;
mod plan;
mod quarantine;
mod rollout;
mod snapshot;
mod step;
mod token;
mod window;

pub use rollout::rollout_header;
pub use step::{phase_text, step_note};

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

/// `2026-11-30 14:04 UTC` of an RFC 3339 time, in text.
fn minute_utc(time: &str) -> String {
    format!("{} UTC", short_minute(Some(time)))
}

/// `by ops@bastion since 2026-11-30 14:04 UTC: why`, of what an operator said.
fn said(by: &str, since: Option<&str>, reason: Option<&str>) -> String {
    let since = since.map(|since| format!(" since {}", minute_utc(since))).unwrap_or_default();
    let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
    format!("by {by}{since}{reason}")
}

fn time_up_to(time: Option<&str>, end: usize) -> String {
    time.map_or_else(|| NONE.to_owned(), |time| time.get(..end).unwrap_or(time).replace('T', " "))
}
