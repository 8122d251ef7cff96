//! Events: the log for people and programs.

use rollcall_proto::v1;
use serde::Serialize;

use super::common::{cluster_ms, empty_as_none, wall};

/// One change.
#[derive(Debug, Clone, Serialize)]
pub struct EventView {
    pub revision: u64,
    pub at: Option<String>,
    pub at_cluster_ms: Option<u64>,
    /// What happened, as a past participle.
    pub kind: String,
    pub group: Option<String>,
    pub rollout_id: Option<String>,
    pub node_id: Option<String>,
    pub node_name: Option<String>,
    pub actor: Option<String>,
    pub reason: Option<String>,
    /// One line for people.
    pub message: String,
}

impl From<v1::Event> for EventView {
    fn from(event: v1::Event) -> Self {
        Self {
            revision: event.revision,
            at: wall(event.at.as_ref()),
            at_cluster_ms: cluster_ms(event.at.as_ref()),
            kind: event.kind,
            group: empty_as_none(event.group),
            rollout_id: empty_as_none(event.rollout_id),
            node_id: empty_as_none(event.node_id),
            node_name: empty_as_none(event.node_name),
            actor: empty_as_none(event.actor),
            reason: empty_as_none(event.reason),
            message: event.message,
        }
    }
}
