//! The end of every entry: rollouts of the groups that it touched are looked at once, and what follows from the new
//! state by itself is done.

use rollcall_ident::{GroupName, NodeId, RolloutId};

use super::Transition;
use crate::explain::waiting_on;
use crate::gate::Candidate;
use crate::policy::OfflinePolicy;
use crate::state::{DeadlineKey, PauseCause, Phase, Rollout, RolloutStatus, SkipCause, Step, Way};
use crate::{Event, Waiting, WaitingOn};

impl Transition<'_> {
    pub(super) fn settle(&mut self) {
        while let Some(group) = self.touched.pop_first() {
            let members = self.take_touched_members(&group);
            let Some(id) = self.state.groups.get(&group).and_then(|group| group.active_rollout) else { continue };
            for node in members {
                self.reconcile_step(id, &group, node);
            }
            self.heed_departed(id);
            self.begin_next_batch(id);
            self.end_if_complete(id);
            self.note_waiting(id);
            self.rearm_progress_deadline(id);
        }
    }

    fn take_touched_members(&mut self, group: &GroupName) -> Vec<NodeId> {
        let from = (group.clone(), NodeId([0; 16]));
        let to = (group.clone(), NodeId([u8::MAX; 16]));
        let members: Vec<_> = self.touched_members.range(from..=to).cloned().collect();
        members.iter().for_each(|member| {
            self.touched_members.remove(member);
        });
        members.into_iter().map(|(_, node)| node).collect()
    }

    /// One step for each member that isn't at the target: joiners and drifters get one, leavers lose theirs. Members
    /// that were updated stay watched.
    fn reconcile_step(&mut self, id: RolloutId, name: &GroupName, node: NodeId) {
        let Some(rollout) = self.state.rollouts.get(&id).filter(|rollout| rollout.is_active()) else { return };
        let step = rollout.steps.get(&node);
        let member = self.state.nodes.get(&node).and_then(|node| Some((node, node.services.get(name)?)));
        let Some((member, service)) = member else {
            if step.is_some_and(|step| !step.phase.is_settled() && !step.phase.holds_token()) {
                self.skip_step(id, node, SkipCause::Left);
            }
            return;
        };
        if rollout.going_back.is_some() {
            return self.reconcile_way_back(id, name, node);
        }
        let is_there = service.release.as_ref() == Some(&rollout.target);
        let on_warning = self.policy_of(id).on_warning;
        match step {
            None if !is_there => self.queue_step(id, node, name),
            Some(step) if step.phase == Phase::Succeeded && !is_there => self.queue_step(id, node, name),
            Some(step) if step.phase == Phase::Succeeded && member.is_broken(name, on_warning) => {
                self.heed_bad_member(id, node);
            }
            // One that failed is tried again even where the target runs: it hasn't proved itself. And one that was
            // stopped must be started.
            Some(step)
                if step.phase == Phase::Queued
                    && is_there
                    && step.failures == 0
                    && !member.is_down(name)
                    && !self.state.tokens.contains_key(&node) =>
            {
                let Some(rollout) = self.state.rollouts.get_mut(&id) else { return };
                rollout.take_step(node);
                rollout.unfetched.remove(&node);
                rollout.unchanged.insert(node, ());
            }
            _ => {}
        }
    }

    fn queue_step(&mut self, id: RolloutId, node: NodeId, group: &GroupName) {
        let service = self.state.nodes.get(&node).and_then(|node| node.services.get(group));
        let from = service.and_then(|service| service.release.clone());
        let earlier = self.state.rollouts.get(&id).and_then(|rollout| rollout.steps.get(&node));
        let fresh = Step::queued(node, from, self.now);
        // Attempts count on: a node never sees the same rollout and attempt twice. And the way back stays the same.
        let step = match earlier {
            Some(earlier) => Step {
                attempt: earlier.attempt,
                origin: earlier.origin.clone(),
                is_disturbed: earlier.is_disturbed,
                ..fresh
            },
            None => fresh,
        };
        self.put_queued(id, step);
    }

    /// Puts a queued step in its place; nobody has begun it.
    pub(super) fn put_queued(&mut self, id: RolloutId, step: Step) {
        let (now, node) = (self.now, step.node);
        let Some(rollout) = self.state.rollouts.get_mut(&id) else { return };
        rollout.put_step(step);
        rollout.unchanged.remove(&node);
        rollout.progress_at = now;
        let group = rollout.group.clone();
        self.rank_step(id, node);
        let name = self.state.name_of(node);
        self.emit(Event::StepQueued { rollout: id, group, node, name });
    }

    /// The next in the order has departed: the policy says what becomes of it.
    fn heed_departed(&mut self, id: RolloutId) {
        loop {
            let Some(rollout) = self.state.rollouts.get(&id).filter(|rollout| rollout.status.is_moving()) else {
                return;
            };
            let first = Candidate::first(self.state, rollout).filter(|first| first.node.is_departed());
            let Some(node) = first.map(|first| first.node.id) else { return };
            match self.policy_of(id).offline_policy {
                OfflinePolicy::Pause => return self.pause_rollout(id, PauseCause::NodeAway),
                OfflinePolicy::Wait => return,
                OfflinePolicy::Skip => self.skip_step(id, node, SkipCause::Offline),
            }
        }
    }

    fn end_if_complete(&mut self, id: RolloutId) {
        let Some(rollout) = self.state.rollouts.get(&id).filter(|rollout| rollout.status.is_moving()) else { return };
        let failed = rollout.tally.of(Phase::Failed);
        if rollout.is_complete() {
            let (status, why) = match &rollout.going_back {
                Some(back) => (RolloutStatus::RolledBack, format!("every updated member is back: {}", back.why)),
                None => (RolloutStatus::Succeeded, succeeded(rollout.tally.of(Phase::Skipped))),
            };
            self.end_rollout(id, status, why);
        } else if failed > 0 && rollout.queue.is_empty() && rollout.in_flight.is_empty() {
            // All that could go on has gone on.
            let is_back = rollout.going_back.is_some();
            self.pause_rollout(id, if is_back { PauseCause::RollbackFailed } else { PauseCause::StepFailed });
        }
    }

    /// Armed only where nothing else limits the wait: not while paused, not while it waits for a person or a window, and
    /// not while a step is in a phase with a deadline of its own. What was suspended begins anew.
    fn rearm_progress_deadline(&mut self, id: RolloutId) {
        let key = DeadlineKey::ProgressDeadline(id);
        let Some(rollout) = self.state.rollouts.get(&id) else { return };
        type Key = fn(RolloutId, NodeId) -> DeadlineKey;
        let tally = &rollout.tally;
        let own: [(bool, Key); 4] = [
            (tally.of_any(&[Phase::Granted, Phase::Preparing]) > 0, DeadlineKey::ReadyTimeout),
            (tally.of(Phase::Draining) > 0, DeadlineKey::DrainTimeout),
            (tally.of(Phase::Verifying) > 0, DeadlineKey::HealthyDeadline),
            (!rollout.in_flight.is_empty(), DeadlineKey::RebootTimeout),
        ];
        let is_set = |(may_be, key): &(bool, Key)| {
            let range = || key(id, NodeId([0; 16]))..=key(id, NodeId([u8::MAX; 16]));
            *may_be && self.state.deadlines.first_in(range()).is_some()
        };
        let is_armed = rollout.status.is_moving() && !own.iter().any(is_set) && !self.waits_for_leave(rollout);
        if !is_armed {
            return self.state.deadlines.clear(&key);
        }
        let now = self.now;
        if self.state.deadlines.get(&key).is_none()
            && let Some(rollout) = self.state.rollouts.get_mut(&id)
        {
            rollout.progress_at = now;
        }
        let Some(rollout) = self.state.rollouts.get(&id) else { return };
        let at = rollout.progress_at.cluster_time + self.policy_of(id).progress_deadline;
        self.state.deadlines.put(key, Some(at));
    }

    /// Whether it waits for what only people or the calendar bring about.
    fn waits_for_leave(&self, rollout: &Rollout) -> bool {
        let Some(on) = rollout.waiting.as_ref().map(|waiting| &waiting.on) else { return false };
        let is_held = |name| self.state.node_named(name).is_some_and(|node| node.hold.is_some());
        match on {
            WaitingOn::Next
            | WaitingOn::Delay
            | WaitingOn::OutsideWindow { .. }
            | WaitingOn::Frozen { .. }
            | WaitingOn::Quarantined { .. }
            | WaitingOn::NodeHeld { .. } => true,
            // A held node uses the budget.
            WaitingOn::BudgetExhausted { nodes, .. } => nodes.named().iter().any(is_held),
            _ => false,
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

    /// Leaves a node out, on record.
    pub(super) fn skip_step(&mut self, id: RolloutId, node: NodeId, cause: SkipCause) {
        self.enter(id, node, Phase::Skipped);
        let step = self.step_mut(id, node);
        step.skipped = Some(cause);
        let way = step.way;
        let Some(rollout) = self.state.rollouts.get(&id) else { return };
        let group = rollout.group.clone();
        let name = self.state.name_of(node);
        self.emit(Event::StepSkipped { rollout: id, group: group.clone(), node, name, cause });
        if cause == SkipCause::Operator && way == Way::Forward {
            if let Some(group) = self.state.groups.get_mut(&group) {
                group.left_out.insert(node, ());
            }
            self.touch_member(&group, node);
        }
    }
}

fn succeeded(skipped: usize) -> String {
    match skipped {
        0 => "every member runs the target".to_owned(),
        1 => "every member runs the target, but one that was left out".to_owned(),
        n => format!("every member runs the target, but {n} that were left out"),
    }
}
