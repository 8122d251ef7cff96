//! Nodes and their services.

use rollcall_proto::v1;
use rollcall_rollout::{Health, HealthOverride, Hold, Instance, Node, Phase, Presence, Service, State};

use super::{moment, timestamp};

/// A node.
pub fn node(state: &State, node: &Node) -> v1::Node {
    let session = node.session();
    let services = node
        .services
        .iter()
        .map(|(group, service)| v1::NodeServiceState { group: group.to_string(), member: Some(member(node, service)) });
    v1::Node {
        node_id: node.id.to_string(),
        name: node.name.to_string(),
        presence: presence(node).to_owned(),
        presence_since: Some(moment(match &node.presence {
            Presence::Present(session) => session.opened_at,
            Presence::Away { since } | Presence::Departed { since } => *since,
        })),
        host_peer_id: session.map_or(0, |session| session.host.0),
        session_epoch: session.map_or(0, |session| session.epoch.0),
        address: node.address.clone(),
        boot_id: node.boot_id.to_string(),
        machine_id: node.machine_id.clone(),
        agent_version: node.agent_version.clone(),
        labels: node.labels.clone().into_iter().collect(),
        services: services.collect(),
        highest_fence: node.highest_fence.0,
        hold: node.hold.as_ref().map(hold),
        health_override: node.health_override.as_ref().map(health_override),
        hosted_peer_ids: state.peers_on(node).into_iter().map(|peer| peer.0).collect(),
    }
}

fn hold(hold: &Hold) -> v1::Hold {
    let Hold { by, at, reason, until } = hold;
    v1::Hold {
        by: by.0.clone(),
        reason: reason.clone().unwrap_or_default(),
        since: Some(moment(*at)),
        until: until.map(timestamp),
    }
}

fn health_override(word: &HealthOverride) -> v1::HealthOverride {
    let HealthOverride { is_healthy, by, at, reason } = word;
    v1::HealthOverride {
        health: if *is_healthy { "healthy" } else { "unhealthy" }.to_owned(),
        by: by.0.clone(),
        reason: reason.clone().unwrap_or_default(),
        since: Some(moment(*at)),
    }
}

/// A node's part in one group. Its health is what counts: where an operator knows better than the checks, that stands in
/// front of their words.
pub fn member(node: &Node, service: &Service) -> v1::Member {
    v1::Member {
        node_id: node.id.to_string(),
        node_name: node.name.to_string(),
        presence: presence(node).to_owned(),
        release: service.release.as_ref().map(ToString::to_string).unwrap_or_default(),
        health: health(node.health_of(service)).into(),
        health_detail: health_detail(node, service),
        health_since: Some(moment(service.health_since)),
        primary: service.primary,
        priority: service.priority,
        instance: service.instance.as_ref().map(instance),
    }
}

fn health_detail(node: &Node, service: &Service) -> String {
    let detail = &service.health_detail;
    match &node.health_override {
        Some(word) if node.health_of(service) != service.health => {
            let colon = if detail.is_empty() { "" } else { ": " };
            format!("{} said so; its checks say {}{colon}{detail}", word.by.0, service.health)
        }
        _ => detail.clone(),
    }
}

fn presence(node: &Node) -> &'static str {
    match node.presence {
        Presence::Present(_) => "present",
        Presence::Away { .. } => "away",
        Presence::Departed { .. } => "departed",
    }
}

fn instance(instance: &Instance) -> v1::Instance {
    v1::Instance {
        pid: instance.pid,
        start_time: instance.start_time,
        boot_id: instance.boot_id.to_string(),
        release: instance.release.to_string(),
    }
}

fn health(health: Health) -> v1::Health {
    match health {
        Health::Healthy => v1::Health::Healthy,
        Health::Warning => v1::Health::Warning,
        Health::Critical => v1::Health::Critical,
        Health::Unknown => v1::Health::Unknown,
        Health::Unprovisioned => v1::Health::Unprovisioned,
    }
}

/// A phase.
pub(super) fn phase(phase: Phase) -> v1::Phase {
    match phase {
        Phase::Queued => v1::Phase::Queued,
        Phase::Granted => v1::Phase::Granted,
        Phase::Preparing => v1::Phase::Preparing,
        Phase::Draining => v1::Phase::Draining,
        Phase::Stopping => v1::Phase::Stopping,
        Phase::Installing => v1::Phase::Installing,
        Phase::Rebooting => v1::Phase::Rebooting,
        Phase::Starting => v1::Phase::Starting,
        Phase::Verifying => v1::Phase::Verifying,
        Phase::Succeeded => v1::Phase::Succeeded,
        Phase::Failed => v1::Phase::Failed,
        Phase::Skipped => v1::Phase::Skipped,
    }
}
