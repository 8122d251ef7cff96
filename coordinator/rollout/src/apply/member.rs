//! Members: how a node's service stands in its group.

use rollcall_ident::{GroupName, NodeId};

use super::Transition;
use crate::report::ServiceStatus;
use crate::state::{Health, Service};
use crate::{Event, Rejection};

impl Transition<'_> {
    /// Makes the node a member of the group, whether or not the group is declared yet.
    pub(super) fn ensure_member(&mut self, id: NodeId, group: &GroupName) {
        let now = self.now;
        let Some(node) = self.state.nodes.get_mut(&id) else { return };
        if node.services.contains_key(group) {
            return;
        }
        node.services.insert(group.clone(), Service::unprovisioned(now));
        let name = node.name.clone();
        if let Some(group) = self.state.groups.get_mut(group) {
            group.members.insert(id, ());
        }
        self.touch_member(group, id);
        self.emit(Event::MemberJoined { node: id, name, group: group.clone() });
    }

    /// Takes the node out of the group, with its queued step.
    pub(super) fn remove_member(&mut self, id: NodeId, group: &GroupName) {
        let Some(node) = self.state.nodes.get_mut(&id) else { return };
        if node.services.remove(group).is_none() {
            return;
        }
        let name = node.name.clone();
        if let Some(found) = self.state.groups.get_mut(group) {
            found.members.remove(&id);
            found.left_out.remove(&id);
        }
        self.touch_member(group, id);
        self.emit(Event::MemberLeft { node: id, name, group: group.clone() });
    }

    /// Takes over what a node says of one of its services.
    pub(super) fn update_service(&mut self, id: NodeId, status: &ServiceStatus) -> Result<(), Rejection> {
        let now = self.now;
        let not_a_member = || Rejection::NotAMember { node: id, group: status.group.clone() };
        let node = self.state.nodes.get_mut(&id).ok_or_else(not_a_member)?;
        let name = node.name.clone();
        let service = node.services.get_mut(&status.group).ok_or_else(not_a_member)?;
        let before = service.clone();
        let health = match (&status.release, status.health) {
            (None, _) => Health::Unprovisioned,
            // It has run, so it isn't unprovisioned whatever the agent says; and unknown is not absent.
            (Some(_), Health::Unprovisioned) => Health::Unknown,
            (Some(_), health) => health,
        };
        if before.health != health {
            service.health_since = now;
        }
        service.release.clone_from(&status.release);
        service.instance.clone_from(&status.instance);
        service.health = health;
        service.health_detail.clone_from(&status.health_detail);
        service.primary = status.primary;
        service.priority = status.priority;
        let group = || status.group.clone();
        if before.release != status.release {
            let (from, to) = (before.release, status.release.clone());
            self.emit(Event::ReleaseChanged { node: id, name: name.clone(), group: group(), from, to });
        }
        if before.health != health {
            let (from, detail) = (before.health, status.health_detail.clone());
            self.emit(Event::HealthChanged { node: id, name: name.clone(), group: group(), from, to: health, detail });
        }
        if before.primary != status.primary {
            self.emit(Event::RoleChanged { node: id, name, group: group(), primary: status.primary });
        }
        self.after_health(id, &status.group);
        Ok(())
    }

    /// Nobody has heard of the node for too long: what it said last isn't known any more.
    pub(super) fn forget_health(&mut self, id: NodeId) {
        let now = self.now;
        let Some(node) = self.state.nodes.get(&id) else { return };
        let groups: Vec<GroupName> = node.services.keys().cloned().collect();
        for group in groups {
            let Some(node) = self.state.nodes.get_mut(&id) else { return };
            let name = node.name.clone();
            let Some(service) = node.services.get_mut(&group) else { continue };
            let from = service.health;
            if matches!(from, Health::Unknown | Health::Unprovisioned) {
                continue;
            }
            let detail = "no heartbeat".to_owned();
            service.health = Health::Unknown;
            service.health_since = now;
            service.health_detail.clone_from(&detail);
            self.emit(Event::HealthChanged { node: id, name, group: group.clone(), from, to: Health::Unknown, detail });
            self.after_health(id, &group);
        }
    }

    /// What follows from a change of what a node's service is, or of what is thought of it.
    pub(super) fn after_health(&mut self, id: NodeId, group: &GroupName) {
        self.note_arrival(id, group);
        self.touch_member(group, id);
        if let Some(token) = self.state.tokens.get(&id).filter(|token| token.group == *group) {
            let rollout = token.rollout;
            self.observe_health(rollout, id);
        }
    }

    /// A member that was left out and runs the target all the same is left out no more.
    fn note_arrival(&mut self, id: NodeId, name: &GroupName) {
        let release =
            self.state.nodes.get(&id).and_then(|node| node.services.get(name)).and_then(|it| it.release.clone());
        let Some(group) = self.state.groups.get(name) else { return };
        if group.left_out.contains_key(&id)
            && release == group.target
            && let Some(group) = self.state.groups.get_mut(name)
        {
            group.left_out.remove(&id);
        }
    }
}
