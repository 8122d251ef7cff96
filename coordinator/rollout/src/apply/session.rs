//! Sessions: nodes come, fall silent, come back, are removed.
//!
//! Only transitions are here; heartbeats stay in the memory of the peer that hosts the session.

use rollcall_ident::{GroupName, Millis, NodeId, PeerId, SessionEpoch};

use super::Transition;
use crate::planted::{Planted, is_planted};
use crate::report::Hello;
use crate::state::{AlarmKey, DeadlineKey, Node, Phase, Presence, Session, SkipCause, StepFailure};
use crate::{Event, Policy, Rejection, Reply};

/// BOUND: identities of removed nodes that are remembered.
const MAX_REMOVED_NODES: usize = 10_000;

impl Transition<'_> {
    /// INVARIANT I-22: a session has a number that no session had before: the revision of its entry.
    pub(super) fn open_session(&mut self, host: PeerId, hello: &Hello) -> Result<Reply, Rejection> {
        self.check_identity(hello)?;
        let former = self.state.nodes.get(&hello.node).and_then(|node| node.session());
        let epoch = match former {
            Some(former) if is_planted(Planted::EpochReused) => former.epoch,
            _ => SessionEpoch(self.revision.0),
        };
        let session = Session { host, epoch, opened_at: self.now };
        let id = hello.node;
        let before = self.state.nodes.get(&id).cloned();
        if let Some(before) = &before {
            self.state.node_names.remove(&before.name);
            if let Some(replaced) = before.session() {
                self.state.sessions.remove(&(replaced.host, replaced.epoch));
            }
        }
        let node = Node {
            id,
            name: hello.name.clone(),
            identity_locus: hello.identity_locus.clone(),
            machine_id: hello.machine_id.clone(),
            hosts_peer: hello.hosts_peer.clone(),
            boot_id: hello.boot_id,
            agent_version: hello.agent_version.clone(),
            address: hello.address.clone(),
            labels: hello.labels.clone(),
            presence: Presence::Present(session),
            highest_fence: before
                .as_ref()
                .map_or(hello.highest_fence, |before| before.highest_fence.max(hello.highest_fence)),
            modified_revision: self.revision,
            hold: before.as_ref().and_then(|before| before.hold.clone()),
            health_override: before.as_ref().and_then(|before| before.health_override.clone()),
            services: before.as_ref().map(|before| before.services.clone()).unwrap_or_default(),
        };
        self.state.nodes.insert(id, node);
        self.find_hosted(id);
        self.state.node_names.insert(hello.name.clone(), id);
        self.state.sessions.insert((host, epoch), id);
        self.state.deadlines.clear(&DeadlineKey::StaleAfter(id));
        self.state.deadlines.clear(&DeadlineKey::LostAfter(id));
        let name = hello.name.clone();
        if before.is_none() {
            self.emit(Event::NodeJoined { node: id, name: name.clone() });
        }
        self.emit(Event::SessionOpened { node: id, name: name.clone(), epoch, host });
        if before.as_ref().is_some_and(|before| before.boot_id != hello.boot_id) {
            self.emit(Event::NodeRebooted { node: id, name });
            self.note_reboot_in_step(id);
        }
        self.update_memberships(hello, before.as_ref())?;
        self.note_back_in_step(id);
        Ok(Reply::SessionOpened(epoch))
    }

    /// One identity is one disk, and one name is one node.
    fn check_identity(&self, hello: &Hello) -> Result<(), Rejection> {
        if self.state.removed_nodes.contains_key(&hello.node) {
            return Err(Rejection::NodeRemoved(hello.node));
        }
        if let Some(owner) = self.state.node_names.get(&hello.name).filter(|owner| **owner != hello.node) {
            return Err(Rejection::NameTaken { name: hello.name.clone(), node: *owner, claimant: hello.node });
        }
        // Whose agent is just being started again is there all the same: a copy that asks all the time doesn't get in between.
        let is_there = |node: &Node| {
            node.session().is_some() || self.state.deadlines.get(&DeadlineKey::StaleAfter(node.id)).is_some()
        };
        match self.state.nodes.get(&hello.node) {
            // The same disk: its lock lets only one agent at a time work on it, so the other session is a dead one.
            Some(node) if is_there(node) && node.identity_locus != hello.identity_locus => {
                Err(Rejection::IdentityInUse {
                    node: node.id,
                    name: node.name.clone(),
                    address: node.address.clone(),
                    other_name: hello.name.clone(),
                    other_address: hello.address.clone(),
                })
            }
            _ => Ok(()),
        }
    }

    fn update_memberships(&mut self, hello: &Hello, before: Option<&Node>) -> Result<(), Rejection> {
        let id = hello.node;
        let token_group = self.state.tokens.get(&id).map(|token| token.group.clone());
        let left: Vec<GroupName> = before
            .iter()
            .flat_map(|before| before.services.keys())
            // Whatever its config says now: in the middle of a step it is a member.
            .filter(|group| token_group.as_ref() != Some(group))
            .filter(|group| hello.services.iter().all(|service| service.group != **group))
            .cloned()
            .collect();
        for group in left {
            self.remove_member(id, &group);
        }
        for status in &hello.services {
            self.ensure_member(id, &status.group);
            self.update_service(id, status)?;
        }
        Ok(())
    }

    fn note_reboot_in_step(&mut self, id: NodeId) {
        let Some(token) = self.state.tokens.get(&id) else { return };
        let rollout = token.rollout;
        let max_reboots = self.policy_of(rollout).max_reboots;
        let step = self.step_mut(rollout, id);
        if !step.phase.is_past_b() {
            return;
        }
        step.reboots += 1;
        let (phase, reboots) = (step.phase, step.reboots);
        let Some(group) = self.state.rollouts.get(&rollout).map(|rollout| rollout.group.clone()) else { return };
        let name = self.state.name_of(id);
        self.emit(Event::StepRebooted { rollout, group, node: id, name, reboots });
        if reboots > max_reboots {
            let failure = StepFailure {
                phase,
                reason: "max_reboots".to_owned(),
                detail: format!("the machine rebooted {reboots} times in this step; max_reboots is {max_reboots}"),
                output: String::new(),
            };
            self.fail_step(rollout, id, failure);
        } else if phase == Phase::Rebooting {
            self.enter(rollout, id, Phase::Installing);
        }
    }

    /// The node is heard of again: what was suspended while it was away begins anew.
    fn note_back_in_step(&mut self, id: NodeId) {
        let Some(token) = self.state.tokens.get(&id) else { return };
        let rollout = token.rollout;
        self.state.deadlines.clear(&DeadlineKey::RebootTimeout(rollout, id));
        let now = self.now;
        if let Some(rollout) = self.state.rollouts.get_mut(&rollout) {
            rollout.progress_at = now;
        }
        let step = self.step(rollout, id);
        if step.phase != Phase::Verifying {
            return;
        }
        if !step.is_soaked {
            let at = self.clock() + self.policy_of(rollout).healthy_deadline;
            self.state.deadlines.set(DeadlineKey::HealthyDeadline(rollout, id), at);
        }
        if self.is_unwanted(rollout, id) {
            self.end_unwanted(rollout, id);
        }
    }

    /// Whether the node has a session.
    pub(super) fn is_connected(&self, id: NodeId) -> bool {
        self.state.nodes.get(&id).is_some_and(|node| node.session().is_some())
    }

    pub(super) fn close_session(
        &mut self,
        id: NodeId,
        epoch: SessionEpoch,
        silent_for: Millis,
    ) -> Result<Reply, Rejection> {
        let since = self.ago(silent_for);
        let policy = self.strictest_policy(id);
        let node = self.state.nodes.get_mut(&id).ok_or_else(|| Rejection::UnknownNode(id.to_string()))?;
        let session = match node.session() {
            Some(session) if session.epoch == epoch => *session,
            other => {
                let current = other.map_or_else(Default::default, |session| session.epoch);
                return Err(Rejection::StaleSession { node: id, given: epoch, current });
            }
        };
        node.presence = Presence::Away { since };
        let name = node.name.clone();
        let groups: Vec<GroupName> = node.services.keys().cloned().collect();
        self.state.sessions.remove(&(session.host, epoch));
        self.state.deadlines.set(DeadlineKey::StaleAfter(id), since.cluster_time + policy.stale_after);
        self.state.deadlines.set(DeadlineKey::LostAfter(id), since.cluster_time + policy.lost_after);
        self.emit(Event::SessionClosed { node: id, name, epoch });
        if let Some(rollout) = self.state.tokens.get(&id).map(|token| token.rollout) {
            // INVARIANT I-07: it keeps its token. Its deadline pauses the rollout and hands nothing on.
            let timeout = self.policy_of(rollout).reboot_timeout;
            self.state.deadlines.set(DeadlineKey::RebootTimeout(rollout, id), since.cluster_time + timeout);
            self.state.deadlines.clear(&DeadlineKey::HealthyDeadline(rollout, id));
            self.observe_health(rollout, id);
        }
        for group in groups {
            self.touch_member(&group, id);
        }
        Ok(Reply::Done)
    }

    /// What its groups say of absences: the shortest patience of each kind.
    fn strictest_policy(&self, id: NodeId) -> Policy {
        let groups = self.state.nodes.get(&id).into_iter().flat_map(|node| node.services.keys());
        let policies: Vec<&Policy> =
            groups.filter_map(|group| self.state.groups.get(group)).map(|group| &*group.policy).collect();
        let mut strictest = policies.first().map_or_else(Policy::default, |policy| (*policy).clone());
        for policy in policies {
            strictest.stale_after = strictest.stale_after.min(policy.stale_after);
            strictest.lost_after = strictest.lost_after.min(policy.lost_after);
        }
        strictest
    }

    pub(super) fn orphan_sessions(
        &mut self,
        host: PeerId,
        silent_for: Millis,
        up_to: SessionEpoch,
    ) -> Result<Reply, Rejection> {
        let orphans: Vec<(SessionEpoch, NodeId)> =
            self.state.sessions_of(host).take_while(|(epoch, _)| *epoch <= up_to).collect();
        for (epoch, node) in orphans {
            self.close_session(node, epoch, silent_for)?;
        }
        Ok(Reply::Done)
    }

    pub(super) fn remove_node(&mut self, id: NodeId, force: bool) -> Result<Reply, Rejection> {
        let node = self.state.nodes.get(&id).ok_or_else(|| Rejection::UnknownNode(id.to_string()))?;
        self.expect_unchanged_since(node.modified_revision)?;
        let name = node.name.clone();
        if node.session().is_some() {
            return Err(Rejection::NodePresent(name));
        }
        let groups: Vec<GroupName> = node.services.keys().cloned().collect();
        if let Some(token) = self.state.tokens.get(&id) {
            let (rollout, fence) = (token.rollout, token.fence);
            let step = self.step(rollout, id);
            if step.phase.is_past_b() && !force {
                return Err(Rejection::TokenPastCommitPoint { node: name, fence });
            }
            self.skip_step(rollout, id, SkipCause::Left);
        }
        for group in groups {
            self.remove_member(id, &group);
        }
        self.state.nodes.remove(&id);
        self.find_hosted(id);
        self.state.node_names.remove(&name);
        self.state.deadlines.clear(&DeadlineKey::StaleAfter(id));
        self.state.deadlines.clear(&DeadlineKey::LostAfter(id));
        self.state.alarms.clear(&AlarmKey::ReleaseNode(id));
        self.state.removed_nodes.insert(id, self.now);
        if self.state.removed_nodes.len() > MAX_REMOVED_NODES {
            let oldest = self.state.removed_nodes.iter().min_by_key(|(_, at)| **at).map(|(id, _)| *id);
            if let Some(oldest) = oldest {
                self.state.removed_nodes.remove(&oldest);
            }
        }
        self.emit(Event::NodeRemoved { node: id, name });
        Ok(Reply::Done)
    }
}
