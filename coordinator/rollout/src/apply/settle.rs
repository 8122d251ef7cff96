//! The end of every entry: rollouts of the groups that it touched are looked at once, and what follows from the new
//! state by itself is done.

use rollcall_ident::{GroupName, NodeId, RolloutId};

use super::Transition;
use crate::explain::waiting_on;
use crate::gate::queue;
use crate::state::{DeadlineKey, PauseCause, Phase, RolloutStatus, Step};
use crate::{Event, Waiting};

impl Transition<'_> {
    pub(super) fn settle(&mut self) {
        while let Some(group) = self.touched.pop_first() {
            let Some(id) = self.state.groups.get(&group).and_then(|group| group.active_rollout) else { continue };
            self.reconcile_steps(id, &group);
            self.pause_for_departed(id);
            self.end_if_complete(id);
            self.rearm_progress_deadline(id);
            self.note_waiting(id);
        }
    }

    /// One step for each member that isn't at the target: joiners and drifters get one, leavers lose theirs.
    fn reconcile_steps(&mut self, id: RolloutId, name: &GroupName) {
        let Some((rollout, group)) = self.state.rollouts.get(&id).zip(self.state.groups.get(name)) else { return };
        let mut missing: Vec<NodeId> = Vec::new();
        let mut needless: Vec<NodeId> = Vec::new();
        for (node, service) in self.state.members(group) {
            let is_there = service.release.as_ref() == Some(&rollout.target);
            let Some(step) = rollout.steps.get(&node.id) else {
                missing.extend((!is_there).then_some(node.id));
                continue;
            };
            // One that failed is tried again even where the target runs: it hasn't proved itself.
            let is_needless = is_there && step.failures == 0 && !self.state.tokens.contains_key(&node.id);
            match step.phase {
                Phase::Succeeded if !is_there => missing.push(node.id),
                Phase::Queued if is_needless => needless.push(node.id),
                _ => {}
            }
        }
        let leavers = rollout.steps.values().filter(|step| {
            !step.phase.is_settled() && !step.phase.holds_token() && !group.members.contains_key(&step.node)
        });
        let leavers: Vec<NodeId> = leavers.map(|step| step.node).collect();
        for node in missing {
            self.queue_step(id, node, name);
        }
        for node in needless {
            let Some(rollout) = self.state.rollouts.get_mut(&id) else { return };
            rollout.steps.remove(&node);
            rollout.unchanged.insert(node, ());
        }
        for node in leavers {
            self.enter(id, node, Phase::Skipped);
            self.touched.remove(name);
        }
    }

    fn queue_step(&mut self, id: RolloutId, node: NodeId, group: &GroupName) {
        let now = self.now;
        let service = self.state.nodes.get(&node).and_then(|node| node.services.get(group));
        let from = service.and_then(|service| service.release.clone());
        let Some(rollout) = self.state.rollouts.get_mut(&id) else { return };
        // Attempts count on: a node never sees the same rollout and attempt twice.
        let attempt = rollout.steps.get(&node).map_or(0, |step| step.attempt);
        rollout.steps.insert(node, Step { attempt, ..Step::queued(node, from, now) });
        rollout.unchanged.remove(&node);
        rollout.progress_at = now;
        let name = self.state.name_of(node);
        self.emit(Event::StepQueued { rollout: id, group: group.clone(), node, name });
    }

    /// The next in the order has departed: somebody must say what to do.
    fn pause_for_departed(&mut self, id: RolloutId) {
        let Some(rollout) = self.state.rollouts.get(&id) else { return };
        let is_departed = queue(self.state, rollout).first().is_some_and(|candidate| candidate.node.is_departed());
        if rollout.status == RolloutStatus::Running && is_departed {
            let group = rollout.group.clone();
            self.pause_rollout(id, PauseCause::NodeAway);
            self.touched.remove(&group);
        }
    }

    fn end_if_complete(&mut self, id: RolloutId) {
        let Some(rollout) = self.state.rollouts.get(&id) else { return };
        let is_complete = rollout.steps.values().all(|step| step.phase.is_settled());
        if rollout.status == RolloutStatus::Running && is_complete {
            let group = rollout.group.clone();
            self.end_rollout(id, RolloutStatus::Succeeded, "every member runs the target".to_owned());
            self.touched.remove(&group);
        }
    }

    /// Armed only where nothing else limits the wait: not while paused, and not while a step is in a phase with a
    /// deadline of its own.
    fn rearm_progress_deadline(&mut self, id: RolloutId) {
        let key = DeadlineKey::ProgressDeadline(id);
        let Some(rollout) = self.state.rollouts.get(&id) else { return };
        let has_own_deadline = rollout.steps_in_flight().any(|step| {
            step.phase.is_before_a()
                || matches!(step.phase, Phase::Draining | Phase::Rebooting | Phase::Verifying)
                || self.state.deadlines.get(&DeadlineKey::RebootTimeout(id, step.node)).is_some()
        });
        match self.policy_of(id) {
            Some(policy) if rollout.status == RolloutStatus::Running && !has_own_deadline => {
                let at = rollout.progress_at.cluster_time + policy.progress_deadline;
                if self.state.deadlines.get(&key) != Some(at) {
                    self.state.deadlines.set(key, at);
                }
            }
            _ => self.state.deadlines.clear(&key),
        }
    }

    fn note_waiting(&mut self, id: RolloutId) {
        let now = self.now;
        let Some(rollout) = self.state.rollouts.get(&id).filter(|rollout| rollout.is_active()) else { return };
        let on = waiting_on(self.state, rollout);
        if rollout.waiting.as_ref().map(|waiting| &waiting.on) != Some(&on) {
            let since = match &rollout.waiting {
                Some(waiting) if waiting.on.name() == on.name() => waiting.since,
                _ => now,
            };
            if let Some(rollout) = self.state.rollouts.get_mut(&id) {
                rollout.waiting = Some(Waiting { on, since });
            }
        }
    }
}
