//! Nodes.

use crate::output::{Page, Tone, View, column, key_values, table};
use crate::table::{NONE, minute_utc, or_none, said, short_time};
use crate::view::{At, HealthOverrideView, HoldView, List, NodeView, short_release};

impl View for List<NodeView> {
    fn to_table(&self, page: &Page) -> String {
        if self.items.is_empty() {
            return "no nodes: no agent (rollcall-node) has said hello yet".to_owned();
        }
        let rows = self.items.iter().flat_map(|node| {
            let services = node.services.iter().map(|service| {
                let member = service.member.as_ref();
                let health = member.map_or(NONE, |member| member.health.as_str());
                let release = or_none(member.and_then(|member| member.release.as_deref()));
                (service.group.as_str(), health, short_release(release))
            });
            let services: Vec<_> = services.collect();
            let rows = if services.is_empty() { vec![(NONE, NONE, NONE)] } else { services };
            let note = short_note(node);
            rows.into_iter().map(move |(group, health, release)| {
                [
                    column(&node.name, Tone::Plain),
                    column(&node.presence, Tone::of(&node.presence)),
                    column(group, Tone::Plain),
                    column(health, Tone::of(health)),
                    column(release, Tone::Plain),
                    column(or_none(node.host_peer_id.as_deref()), Tone::Plain),
                    column(&note, Tone::Warning),
                ]
            })
        });
        table(page, ["NODE", "PRESENCE", "GROUP", "HEALTH", "RELEASE", "PEER", "NOTE"], rows)
    }
}

impl View for At<NodeView> {
    fn to_table(&self, page: &Page) -> String {
        let node = &self.item;
        let labels: Vec<_> = node.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let since = short_time(node.presence_since_at.as_deref());
        let session = node.host_peer_id.as_ref().map(|peer| {
            format!("at peer {peer}, epoch {}", node.session_epoch.map_or(NONE.to_owned(), |epoch| epoch.to_string()))
        });
        let head = key_values(
            page,
            [
                ("node", node.name.clone()),
                ("id", node.node_id.clone()),
                ("presence", format!("{} since {since} UTC", Tone::of(&node.presence).paint(&node.presence))),
                ("held", node.hold.as_ref().map(hold_text).unwrap_or_default()),
                ("health set", node.health_override.as_ref().map(override_text).unwrap_or_default()),
                ("session", session.unwrap_or_else(|| NONE.to_owned())),
                ("address", node.address.clone().unwrap_or_default()),
                ("agent", node.agent_version.clone().unwrap_or_default()),
                ("boot", node.boot_id.clone().unwrap_or_default()),
                ("machine", node.machine_id.clone().unwrap_or_default()),
                ("peers on it", node.hosted_peer_ids.join(", ")),
                ("labels", labels.join(" ")),
                ("fence", node.highest_fence.map(|fence| fence.to_string()).unwrap_or_default()),
                ("revision", self.revision.to_string()),
            ],
        );
        if node.services.is_empty() {
            return head;
        }
        let rows = node.services.iter().map(|service| {
            let member = service.member.as_ref();
            let health = member.map_or(NONE, |member| member.health.as_str());
            let pid = member.and_then(|member| member.instance.as_ref()).map(|instance| instance.pid.to_string());
            let detail = member.and_then(|member| member.health_detail.as_deref()).unwrap_or_default();
            [
                column(&service.group, Tone::Plain),
                column(health, Tone::of(health)),
                column(if member.is_some_and(|member| member.primary) { "primary" } else { "" }, Tone::Plain),
                column(short_release(or_none(member.and_then(|member| member.release.as_deref()))), Tone::Plain),
                column(or_none(pid.as_deref()), Tone::Plain),
                column(detail, Tone::Plain),
            ]
        });
        format!("{head}\n\n{}", table(page, ["GROUP", "HEALTH", "ROLE", "RELEASE", "PID", "DETAIL"], rows))
    }
}

/// What operators said of a node, where there is little room.
fn short_note(node: &NodeView) -> String {
    let held = node.hold.as_ref().map(|_| "held".to_owned());
    let health = node.health_override.as_ref().map(|health| format!("set {}", health.health));
    held.into_iter().chain(health).collect::<Vec<_>>().join(", ")
}

fn hold_text(hold: &HoldView) -> String {
    let until =
        hold.until_at.as_deref().map_or("until it is released".to_owned(), |at| format!("until {}", minute_utc(at)));
    format!("{until}, {}", said(&hold.by, hold.since_at.as_deref(), hold.reason.as_deref()))
}

fn override_text(health: &HealthOverrideView) -> String {
    let said = said(&health.by, health.since_at.as_deref(), health.reason.as_deref());
    format!("{} {said}", Tone::of(&health.health).paint(&health.health))
}
