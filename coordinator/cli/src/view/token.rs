//! Tokens: the right to be down.

use rollcall_proto::{ShortName as _, v1};
use serde::Serialize;

use super::common::{cluster_ms, empty_as_none, wall};

/// Who may be down, since when, and what the coordinator does next by itself.
#[derive(Debug, Serialize)]
pub struct TokenView {
    pub node_id: String,
    pub node_name: String,
    pub group: String,
    pub rollout_id: Option<String>,
    pub fence: u64,
    pub phase: String,
    pub granted_at: Option<String>,
    pub granted_at_cluster_ms: Option<u64>,
    pub held_ms: Option<u64>,
    pub next_deadline: Option<String>,
    pub next_deadline_in_ms: Option<u64>,
}

/// What taking a token away brought about.
#[derive(Debug, Serialize)]
pub struct RevokedView {
    pub node: String,
    /// The rollout that is paused by it.
    pub rollout_id: Option<String>,
}

impl TokenView {
    /// `now`: the cluster's clock of the answer.
    pub fn from_wire(token: v1::Token, now: Option<&v1::Moment>) -> Self {
        let granted_ms = cluster_ms(token.granted_at.as_ref());
        let next_deadline = empty_as_none(token.next_deadline.clone());
        Self {
            phase: token.phase().short_name(),
            granted_at: wall(token.granted_at.as_ref()),
            granted_at_cluster_ms: granted_ms,
            held_ms: cluster_ms(now).zip(granted_ms).map(|(now, granted)| now.saturating_sub(granted)),
            next_deadline_in_ms: next_deadline.is_some().then_some(token.next_deadline_in_ms),
            next_deadline,
            node_id: token.node_id,
            node_name: token.node_name,
            group: token.group,
            rollout_id: empty_as_none(token.rollout_id),
            fence: token.fence,
        }
    }
}
