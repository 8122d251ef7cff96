//! Machines that run the agent.

use std::collections::BTreeMap;

use rollcall_proto::v1;
use serde::Serialize;

use super::common::{cluster_ms, empty_as_none, time, wall, zero_as_none};
use super::group::MemberView;

/// A node as the log knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NodeView {
    pub node_id: String,
    pub name: String,
    pub presence: String,
    pub presence_since_at: Option<String>,
    pub presence_since_at_cluster_ms: Option<u64>,
    /// The peer that hosts its session.
    pub host_peer_id: Option<String>,
    pub session_epoch: Option<u64>,
    pub address: Option<String>,
    pub boot_id: Option<String>,
    pub machine_id: Option<String>,
    pub agent_version: Option<String>,
    pub labels: BTreeMap<String, String>,
    pub highest_fence: Option<u64>,
    pub services: Vec<NodeServiceView>,
    /// The peers that run on its machine and go down with it.
    pub hosted_peer_ids: Vec<String>,
    /// Set where an operator keeps it from being updated.
    pub hold: Option<HoldView>,
    /// Set where an operator knows better than its health checks.
    pub health_override: Option<HealthOverrideView>,
}

/// An operator's word that a node isn't updated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HoldView {
    pub by: String,
    pub reason: Option<String>,
    pub since_at: Option<String>,
    pub since_at_cluster_ms: Option<u64>,
    /// `None`: until it is released.
    pub until_at: Option<String>,
}

/// An operator's word on a node's health.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HealthOverrideView {
    /// `healthy` or `unhealthy`.
    pub health: String,
    pub by: String,
    pub reason: Option<String>,
    pub since_at: Option<String>,
    pub since_at_cluster_ms: Option<u64>,
}

/// One service on a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NodeServiceView {
    pub group: String,
    pub member: Option<MemberView>,
}

impl From<v1::Node> for NodeView {
    fn from(node: v1::Node) -> Self {
        Self {
            presence_since_at: wall(node.presence_since.as_ref()),
            presence_since_at_cluster_ms: cluster_ms(node.presence_since.as_ref()),
            node_id: node.node_id,
            name: node.name,
            presence: node.presence,
            host_peer_id: zero_as_none(node.host_peer_id).map(|id| id.to_string()),
            session_epoch: zero_as_none(node.session_epoch),
            address: empty_as_none(node.address),
            boot_id: empty_as_none(node.boot_id),
            machine_id: empty_as_none(node.machine_id),
            agent_version: empty_as_none(node.agent_version),
            labels: node.labels.into_iter().collect(),
            highest_fence: zero_as_none(node.highest_fence),
            services: node
                .services
                .into_iter()
                .map(|service| NodeServiceView { group: service.group, member: service.member.map(MemberView::from) })
                .collect(),
            hosted_peer_ids: node.hosted_peer_ids.iter().map(ToString::to_string).collect(),
            hold: node.hold.map(HoldView::from),
            health_override: node.health_override.map(HealthOverrideView::from),
        }
    }
}

impl From<v1::Hold> for HoldView {
    fn from(hold: v1::Hold) -> Self {
        Self {
            since_at: wall(hold.since.as_ref()),
            since_at_cluster_ms: cluster_ms(hold.since.as_ref()),
            until_at: time(hold.until.as_ref()),
            by: hold.by,
            reason: empty_as_none(hold.reason),
        }
    }
}

impl From<v1::HealthOverride> for HealthOverrideView {
    fn from(health: v1::HealthOverride) -> Self {
        Self {
            since_at: wall(health.since.as_ref()),
            since_at_cluster_ms: cluster_ms(health.since.as_ref()),
            health: health.health,
            by: health.by,
            reason: empty_as_none(health.reason),
        }
    }
}
