//! What a preview supposes on its copy of the state: that all goes well, and that people say yes. It moves steps by the
//! same verbs and keeps the same books as an entry of the log.

use std::collections::BTreeSet;

use rollcall_ident::{GroupName, NodeId, RolloutId};

use super::Transition;
use crate::quorum;
use crate::state::{DeadlineKey, Health, PeerStanding, Phase, Prefetch, Presence, RolloutStatus, Session};
use crate::{Actor, State, WaitingOn};

impl State {
    /// Changes this copy as an entry would, by what is supposed.
    pub(crate) fn suppose(&mut self, what: impl FnOnce(&mut Transition<'_>)) {
        let actor = Actor::coordinator();
        let (revision, now) = (self.revision, self.now);
        let mut transition = Transition {
            state: self,
            revision,
            now,
            actor: &actor,
            reason: None,
            expected_revision: None,
            events: Vec::new(),
            touched: BTreeSet::new(),
            touched_members: BTreeSet::new(),
        };
        what(&mut transition);
        transition.settle();
    }
}

impl Transition<'_> {
    /// Every node has the release that its step leads to.
    pub(crate) fn suppose_fetched(&mut self, id: RolloutId) {
        let Some(rollout) = self.state.rollouts.get(&id).cloned() else { return };
        for step in rollout.steps.values() {
            let release = rollout.target_of(step).clone();
            let Some(node) = self.state.nodes.get_mut(&step.node) else { continue };
            let Some(service) = node.services.get_mut(&rollout.group) else { continue };
            service.prefetch = Some(Prefetch { release, outcome: Ok(()), rollback: true });
            self.touch_member(&rollout.group, step.node);
        }
    }

    /// A step under way has ended well.
    pub(crate) fn suppose_succeeded(&mut self, id: RolloutId, node: NodeId) {
        let Some(rollout) = self.state.rollouts.get_mut(&id) else { return };
        let Some(mut step) = rollout.take_step(node) else { return };
        let release = rollout.target_of(&step).clone();
        let group = rollout.group.clone();
        step.phase = Phase::Succeeded;
        step.is_soaked = true;
        rollout.put_step(step);
        self.reset_deadlines(id, node, Phase::Verifying, Phase::Succeeded);
        self.end_token(id, node);
        if let Some(service) = self.state.nodes.get_mut(&node).and_then(|node| node.services.get_mut(&group)) {
            service.release = Some(release);
            service.health = Health::Healthy;
        }
        self.touch_member(&group, node);
    }

    /// What holds the rollout now is lifted: people say yes, a window opens, nodes are there and well.
    pub(crate) fn suppose_lifted(&mut self, id: RolloutId, on: &WaitingOn) {
        let Some(rollout) = self.state.rollouts.get_mut(&id) else { return };
        let (group, target) = (rollout.group.clone(), rollout.target.clone());
        let mut nodes: BTreeSet<NodeId> = BTreeSet::new();
        match on {
            WaitingOn::Next => rollout.permits = 1,
            WaitingOn::Delay => self.state.deadlines.clear(&DeadlineKey::Delay(id)),
            WaitingOn::Quarantined { .. } => drop(self.state.quarantine.remove(&target)),
            WaitingOn::OutsideWindow { .. } | WaitingOn::Frozen { .. } => {
                if let Some(group) = self.state.groups.get_mut(&group) {
                    group.closed = None;
                }
            }
            WaitingOn::Approval | WaitingOn::Promotion { .. } | WaitingOn::Paused { .. } => {
                rollout.pause_causes.clear();
                rollout.batch.awaits_promotion = false;
                rollout.status = RolloutStatus::Running;
                nodes.extend(crate::explain::bad_members(self.state, id));
            }
            WaitingOn::LeaderMoves { leader, .. } => {
                let leaves = quorum::nodes_of(self.state, *leader).next();
                let successor = leaves.and_then(|node| quorum::successors(self.state, node).first().copied());
                self.state.leader = successor;
                self.find_hosts();
            }
            WaitingOn::QuorumGuard { missing, .. } => {
                for peer in missing {
                    nodes.extend(quorum::nodes_of(self.state, *peer));
                    if let Some(peer) = self.state.peers.get_mut(peer) {
                        peer.standing = PeerStanding::CaughtUp;
                    }
                }
            }
            _ => {
                let disrupted = self.state.groups.get(&group).into_iter().flat_map(|group| group.disrupted.keys());
                nodes.extend(disrupted.copied().chain(first_in_queue(self.state, id)));
            }
        }
        self.touch(&group);
        for node in nodes {
            self.suppose_well(&group, node);
        }
    }

    /// A node is there, well, and free.
    fn suppose_well(&mut self, group: &GroupName, id: NodeId) {
        let opened_at = self.now;
        self.state.tokens.remove(&id);
        let Some(node) = self.state.nodes.get_mut(&id) else { return };
        node.hold = None;
        node.health_override = None;
        if node.session().is_none() {
            let (host, epoch) = Default::default();
            node.presence = Presence::Present(Session { host, epoch, opened_at });
        }
        if let Some(service) = node.services.get_mut(group).filter(|service| service.release.is_some()) {
            service.health = Health::Healthy;
        }
        self.touch_member(group, id);
    }
}

/// The first in the queue.
fn first_in_queue(state: &State, id: RolloutId) -> Option<NodeId> {
    state.rollouts.get(&id).and_then(|rollout| rollout.queue.values().next().copied())
}
