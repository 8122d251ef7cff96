//! What several views share.

use jiff::Timestamp;
use rollcall_proto::v1;
use serde::Serialize;

/// The wall clock of a moment in RFC 3339, to the millisecond.
pub fn wall(moment: Option<&v1::Moment>) -> Option<String> {
    time(moment?.wall_time.as_ref())
}

/// A time of the wall clock alone, in the same form.
pub fn time(time: Option<&prost_types::Timestamp>) -> Option<String> {
    let time = time?;
    let timestamp = Timestamp::new(time.seconds, time.nanos).ok()?;
    Some(format!("{timestamp:.3}"))
}

/// The cluster time of a moment.
pub fn cluster_ms(moment: Option<&v1::Moment>) -> Option<u64> {
    moment.map(|moment| moment.cluster_time_ms)
}

/// The wire's empty string is "there is none".
pub fn empty_as_none(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

/// The wire's zero is "there is none".
pub fn zero_as_none(number: u64) -> Option<u64> {
    (number != 0).then_some(number)
}

/// A release without its package, for tables that name the package elsewhere: `7.2.1/20261130101500`.
pub fn short_release(ident: &str) -> &str {
    ident.splitn(3, '/').nth(2).unwrap_or(ident)
}

/// Why something doesn't move.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WaitingOnView {
    pub reason: String,
    pub detail: String,
    /// Names of the nodes it is about.
    pub nodes: Vec<String>,
    pub since_at: Option<String>,
    pub since_at_cluster_ms: Option<u64>,
}

impl WaitingOnView {
    /// `None` for the wire's empty message too.
    pub fn from_wire(waiting: Option<v1::WaitingOn>) -> Option<Self> {
        let waiting = waiting?;
        if waiting.reason.is_empty() {
            return None;
        }
        Some(Self {
            since_at: wall(waiting.since.as_ref()),
            since_at_cluster_ms: cluster_ms(waiting.since.as_ref()),
            reason: waiting.reason,
            detail: waiting.detail,
            nodes: waiting.nodes,
        })
    }

    /// What it waits on, to stand behind those words.
    pub fn text(&self) -> String {
        if !self.detail.is_empty() {
            return self.detail.clone();
        }
        let reason = self.reason.replace('_', " ");
        if self.nodes.is_empty() { reason } else { format!("{reason}: {}", self.nodes.join(", ")) }
    }

    /// The same where there is little room.
    pub fn short_text(&self) -> String {
        let nodes = self.nodes.join(", ");
        match self.reason.as_str() {
            "order_turn" | "steps_in_flight" => format!("after {nodes}"),
            "primary_last" => format!("primary: after {nodes}"),
            "budget_exhausted" => format!("budget is used by {nodes}"),
            "soak" => format!("soak of {nodes}"),
            "prefetch_failed" => "can't get the release".to_owned(),
            "paused" => "paused".to_owned(),
            "promotion" => "batch not promoted".to_owned(),
            "approval" => "not approved".to_owned(),
            "outside_window" => "window closed".to_owned(),
            "frozen" => "frozen".to_owned(),
            "next" => "a person's `next`".to_owned(),
            _ => self.text(),
        }
    }

    /// Whether a rollout's status says it already.
    pub fn is_status(&self) -> bool {
        matches!(self.reason.as_str(), "paused" | "approval" | "promotion" | "nothing" | "ended")
    }

    /// Whether it only says that others come first.
    pub fn is_turn(&self) -> bool {
        matches!(self.reason.as_str(), "order_turn" | "steps_in_flight" | "primary_last")
    }

    /// Whether it says more than the state that it belongs to: a step that runs waits on itself.
    pub fn is_news(&self) -> bool {
        !matches!(self.reason.as_str(), "step_runs" | "soak" | "nothing" | "ended")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_rfc_3339() {
        let time = prost_types::Timestamp { seconds: 1_796_000_000, nanos: 5_000_000 };
        let moment = v1::Moment { cluster_time_ms: 7, wall_time: Some(time) };
        assert_eq!(wall(Some(&moment)).unwrap(), "2026-11-30T00:53:20.005Z");
        assert_eq!(wall(None), None);
    }

    #[test]
    fn short_release_leaves_the_package_out() {
        assert_eq!(short_release("acme/redis/7.2.1/20261130101500"), "7.2.1/20261130101500");
        assert_eq!(short_release(""), "");
    }
}
