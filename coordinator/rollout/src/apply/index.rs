//! What is kept about members so that nobody has to look at all of them: who uses the budget, who is astray, and where
//! each queued step stands. One function brings one member's entries up to date; it is called after every change of
//! what they are made of.

use rollcall_ident::{GroupName, NodeId, RolloutId};

use super::Transition;
use crate::gate::Candidate;
use crate::planted::{Planted, is_planted};
use crate::queue::Rank;
use crate::state::{Group, Health, Phase};
use crate::{Map, State};

/// The sets of a group that a member stands in, or doesn't.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Standing {
    pub is_unavailable: bool,
    pub is_updater: bool,
    pub is_disrupted: bool,
    pub is_astray: bool,
}

impl Standing {
    /// Where `id` stands in `group` by what is known of it.
    pub fn of(state: &State, group: &Group, id: NodeId) -> Self {
        let node = state.nodes.get(&id).filter(|_| group.members.contains_key(&id));
        let Some((node, service)) = node.and_then(|node| Some((node, node.services.get(&group.name)?))) else {
            return Self::default();
        };
        let is_taken_for_healthy =
            is_planted(Planted::UnknownIsHealthy) && (service.health == Health::Unknown || node.session().is_none());
        let is_unavailable = node.is_unavailable(&group.name, group.policy.on_warning) && !is_taken_for_healthy;
        let is_updater = state.tokens.get(&id).is_some_and(|token| token.group == group.name);
        Self {
            is_unavailable,
            is_updater,
            is_disrupted: is_unavailable || (is_updater && service.release.is_some()),
            is_astray: node.session().is_some()
                && group.target.is_some()
                && service.release != group.target
                && !group.left_out.contains_key(&id),
        }
    }

    /// Where it stands by what is kept.
    pub fn kept(group: &Group, id: NodeId) -> Self {
        Self {
            is_unavailable: group.unavailable.contains_key(&id),
            is_updater: group.updaters.contains_key(&id),
            is_disrupted: group.disrupted.contains_key(&id),
            is_astray: group.astray.contains_key(&id),
        }
    }
}

impl Transition<'_> {
    /// INVARIANT I-06: the sets of a group are exactly what its members make of them.
    pub(super) fn touch_member(&mut self, name: &GroupName, id: NodeId) {
        self.touch(name);
        self.touched_members.insert((name.clone(), id));
        let Some(group) = self.state.groups.get(name) else { return };
        let now = Standing::of(self.state, group, id);
        if now != Standing::kept(group, id)
            && let Some(group) = self.state.groups.get_mut(name)
        {
            let mark = |set: &mut Map<NodeId, ()>, is_in: bool| set.put(id, is_in.then_some(()));
            mark(&mut group.unavailable, now.is_unavailable);
            mark(&mut group.updaters, now.is_updater);
            mark(&mut group.disrupted, now.is_disrupted);
            mark(&mut group.astray, now.is_astray);
        }
        if let Some(id_of_rollout) = self.state.groups.get(name).and_then(|group| group.active_rollout) {
            self.rank_step(id_of_rollout, id);
        }
    }

    /// The same for all members: their policy, their target or their windows have changed.
    pub(super) fn touch_all_members(&mut self, name: &GroupName) {
        let members: Vec<NodeId> =
            self.state.groups.get(name).into_iter().flat_map(|group| group.members.keys()).copied().collect();
        for id in members {
            self.touch_member(name, id);
        }
    }

    /// Brings a queued step's place in the queue up to date, and whether its node has the release.
    pub(super) fn rank_step(&mut self, id: RolloutId, node: NodeId) {
        let Some(rollout) = self.state.rollouts.get(&id) else { return };
        let Some(step) = rollout.steps.get(&node) else { return };
        if step.phase != Phase::Queued && step.rank.is_none() && !rollout.unfetched.contains_key(&node) {
            return;
        }
        let is_queued = step.phase == Phase::Queued;
        let candidate = Candidate::with_step(self.state, rollout, step).filter(|_| is_queued);
        let rank = candidate.as_ref().map(Rank::of);
        let is_unfetched = candidate.is_some_and(|candidate| !candidate.is_fetched());
        let is_moved = rank != step.rank;
        if !is_moved && is_unfetched == rollout.unfetched.contains_key(&node) {
            return;
        }
        let Some(rollout) = self.state.rollouts.get_mut(&id) else { return };
        rollout.unfetched.put(node, is_unfetched.then_some(()));
        if is_moved {
            rollout.change_step(node, |step| step.rank = rank);
        }
    }
}
