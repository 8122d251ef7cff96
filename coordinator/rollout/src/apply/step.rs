//! The verbs that move a step. All commands go through them, so that what belongs to a phase (token, deadlines, events)
//! is done in one place.

use rollcall_ident::{Fence, NodeId, RolloutId};

use super::Transition;
use crate::gate::{self, Candidate};
use crate::state::{DeadlineKey, Instance, PauseCause, Phase, Step, StepFailure, Token, Turn};
use crate::{Event, Rejection, Reply, Stamp};

/// BOUND: of a step's phases; a step that was tried five times has some forty.
const MAX_HISTORY: usize = 64;

impl Transition<'_> {
    pub(super) fn grant_token(&mut self, id: RolloutId, node: NodeId) -> Result<Reply, Rejection> {
        let rollout = self.state.rollouts.get(&id).ok_or(Rejection::UnknownRollout(id))?;
        let step = rollout.steps.get(&node).ok_or(Rejection::NoSuchStep { node, rollout: id })?;
        if step.phase != Phase::Queued {
            return Err(Rejection::NotInThisPhase { event: "grant".to_owned(), phase: step.phase });
        }
        let candidate = Candidate::new(self.state, rollout, node)
            .ok_or_else(|| Rejection::NotAMember { node, group: rollout.group.clone() })?;
        gate::may_be_granted(&candidate, &gate::queue(self.state, rollout)).map_err(Rejection::NotGrantable)?;
        let (group, from) = (rollout.group.clone(), candidate.service.release.clone());
        let (now, fence) = (self.now, Fence(self.revision.0));
        self.state.tokens.insert(node, Token { group: group.clone(), rollout: id, fence, granted_at: now });
        let step = self.step_mut(id, node);
        step.attempt += 1;
        step.fence = Some(fence);
        step.from = from;
        step.turn = None;
        step.instance = None;
        step.healthy_since = None;
        step.is_soaked = false;
        step.reboots = 0;
        step.timings = None;
        let name = self.state.name_of(node);
        self.emit(Event::TokenGranted { rollout: id, group, node, name, fence });
        self.enter(id, node, Phase::Granted);
        if let Some(rollout) = self.state.rollouts.get_mut(&id) {
            rollout.begun = true;
        }
        Ok(Reply::Granted(fence))
    }

    /// Moves a step to its next phase with all that goes with it.
    ///
    /// # Panics
    /// If the table of phases doesn't allow it: callers check first.
    pub(super) fn enter(&mut self, id: RolloutId, node: NodeId, phase: Phase) {
        let (now, revision) = (self.now, self.revision);
        let step = self.step_mut(id, node);
        assert!(step.phase.may_become(phase), "{id} {node}: {} can't become {phase}", step.phase);
        let left = step.phase;
        step.phase = phase;
        step.phase_since = now;
        step.turn = None;
        step.history.push((phase, step.attempt, now));
        if step.history.len() > MAX_HISTORY {
            step.history.remove(0);
        }
        let rollout = self.state.rollouts.get_mut(&id).expect("its step was there");
        rollout.progress_at = now;
        rollout.modified_revision = revision;
        let group = rollout.group.clone();
        let name = self.state.name_of(node);
        self.emit(Event::StepEntered { rollout: id, group: group.clone(), node, name, phase });
        self.touch(&group);
        self.reset_deadlines(id, node, left, phase);
        if left.holds_token() && !phase.holds_token() {
            self.end_token(id, node);
        }
    }

    fn reset_deadlines(&mut self, id: RolloutId, node: NodeId, left: Phase, phase: Phase) {
        let ready = DeadlineKey::ReadyTimeout(id, node);
        let drain = DeadlineKey::DrainTimeout(id, node);
        let healthy = DeadlineKey::HealthyDeadline(id, node);
        let soak = DeadlineKey::MinHealthyTime(id, node);
        let Some(policy) = self.policy_of(id) else { return };
        let clock = self.clock();
        let deadlines = &mut self.state.deadlines;
        if phase == Phase::Granted {
            deadlines.set(ready, clock + policy.ready_timeout);
        } else if !phase.is_before_a() {
            deadlines.clear(&ready);
        }
        if phase == Phase::Draining {
            deadlines.set(drain, clock + policy.drain_timeout);
        } else {
            deadlines.clear(&drain);
        }
        if phase == Phase::Verifying {
            deadlines.set(healthy, clock + policy.healthy_deadline);
        } else {
            deadlines.clear(&healthy);
            deadlines.clear(&soak);
        }
        if left.holds_token() && !phase.holds_token() {
            deadlines.clear(&DeadlineKey::RebootTimeout(id, node));
        }
    }

    fn end_token(&mut self, id: RolloutId, node: NodeId) {
        let Some(token) = self.state.tokens.remove(&node) else { return };
        assert!(token.rollout == id, "the token of {node} is {}'s, not {id}'s", token.rollout);
        let name = self.state.name_of(node);
        self.touch(&token.group);
        self.emit(Event::TokenEnded { rollout: id, group: token.group, node, name, fence: token.fence });
    }

    /// Orders a begun step back; its agent undoes what it did and reports it.
    pub(super) fn turn(&mut self, id: RolloutId, node: NodeId, turn: Turn) {
        let step = self.step_mut(id, node);
        // A step on its way to failed doesn't become one that is given back.
        if step.turn.is_some() {
            return;
        }
        step.turn = Some(turn.clone());
        let Some(rollout) = self.state.rollouts.get(&id) else { return };
        let group = rollout.group.clone();
        let name = self.state.name_of(node);
        self.touch(&group);
        self.emit(Event::StepTurned { rollout: id, group, node, name, turn });
    }

    /// Ends the attempt as failed. Where attempts are left it queues again; else the rollout stops and asks.
    pub(super) fn fail_step(&mut self, id: RolloutId, node: NodeId, failure: StepFailure) {
        let max_attempts = self.policy_of(id).map_or(1, |policy| policy.max_attempts);
        let step = self.step_mut(id, node);
        step.failures += 1;
        let may_try_again = step.failures < max_attempts;
        step.turn = None;
        step.failure = Some(failure.clone());
        let Some(rollout) = self.state.rollouts.get(&id) else { return };
        let (group, name, is_active) = (rollout.group.clone(), self.state.name_of(node), rollout.is_active());
        let StepFailure { phase, reason, detail, output } = failure;
        self.emit(Event::StepFailed { rollout: id, group, node, name, phase, reason, detail, output });
        self.enter(id, node, Phase::Failed);
        if may_try_again && is_active {
            self.enter(id, node, Phase::Queued);
        } else {
            self.pause_rollout(id, PauseCause::StepFailed);
        }
    }

    /// A commit point: what may have changed since the grant is checked again, in the log.
    pub(super) fn pass_commit_point(&mut self, id: RolloutId, node: NodeId, next: Phase) {
        let Some(rollout) = self.state.rollouts.get(&id) else { return };
        let Some(candidate) = Candidate::new(self.state, rollout, node) else { return };
        match gate::may_commit(&candidate, &gate::queue(self.state, rollout)) {
            Ok(()) => self.enter(id, node, next),
            Err(_) if candidate.step.phase.is_before_a() => self.enter(id, node, Phase::Queued),
            Err(_) => self.turn(id, node, Turn::GiveBack),
        }
    }

    /// The new process runs; its health is what is still to be proved.
    pub(super) fn note_started(&mut self, id: RolloutId, node: NodeId, instance: &Instance) {
        let is_superseded = self.is_superseded(id);
        let step = self.step_mut(id, node);
        if step.phase == Phase::Starting {
            step.instance = Some(instance.clone());
            self.enter(id, node, Phase::Verifying);
        } else if step.instance.as_ref() != Some(instance) {
            step.instance = Some(instance.clone());
            self.observe_health(id, node);
        }
        if is_superseded {
            self.fail_as_superseded(id, node);
        } else {
            self.observe_health(id, node);
        }
    }

    /// INVARIANT I-05: the soak counts only while the *new* process reports the target and is healthy; any bad sample
    /// begins it again.
    pub(super) fn observe_health(&mut self, id: RolloutId, node: NodeId) {
        let Some(rollout) = self.state.rollouts.get(&id) else { return };
        let Some(candidate) = Candidate::new(self.state, rollout, node) else { return };
        let (step, service, policy) = (candidate.step, candidate.service, &candidate.group.policy);
        if step.phase != Phase::Verifying || step.is_soaked {
            return;
        }
        let is_good = service.health.is_good(policy.on_warning)
            && service.instance.is_some()
            && service.instance == step.instance
            && service.release.as_ref() == Some(&rollout.target)
            && candidate.node.session().is_some();
        let key = DeadlineKey::MinHealthyTime(id, node);
        let soaked_at = self.clock() + policy.min_healthy_time;
        let now = self.now;
        match (is_good, step.healthy_since) {
            (true, None) => {
                self.step_mut(id, node).healthy_since = Some(now);
                self.state.deadlines.set(key, soaked_at);
            }
            (false, Some(_)) => {
                self.step_mut(id, node).healthy_since = None;
                self.state.deadlines.clear(&key);
            }
            (true, Some(_)) | (false, None) => {}
        }
    }

    /// The soak is complete: the agent is told to finish.
    pub(super) fn note_soaked(&mut self, id: RolloutId, node: NodeId) {
        self.state.deadlines.clear(&DeadlineKey::HealthyDeadline(id, node));
        self.step_mut(id, node).is_soaked = true;
        let Some(rollout) = self.state.rollouts.get_mut(&id) else { return };
        let group = rollout.group.clone();
        let name = self.state.name_of(node);
        self.touch(&group);
        self.emit(Event::StepSoaked { rollout: id, group, node, name });
    }

    /// A verification that nobody waits for any more makes room for the rollout that took its place.
    pub(super) fn end_superseded_verification(&mut self, id: RolloutId) {
        let Some(rollout) = self.state.rollouts.get(&id) else { return };
        let verifying: Vec<NodeId> = rollout
            .steps_in_flight()
            .filter(|step| step.phase == Phase::Verifying && !step.is_soaked)
            .map(|step| step.node)
            .collect();
        for node in verifying {
            self.fail_as_superseded(id, node);
        }
    }

    fn fail_as_superseded(&mut self, id: RolloutId, node: NodeId) {
        let failure = StepFailure {
            phase: Phase::Verifying,
            reason: "superseded".to_owned(),
            detail: "another rollout took its place; this node is planned there anew".to_owned(),
            output: String::new(),
        };
        self.fail_step(id, node, failure);
    }

    fn is_superseded(&self, id: RolloutId) -> bool {
        self.state.rollouts.get(&id).is_some_and(|rollout| rollout.status == crate::RolloutStatus::Superseded)
    }

    /// # Panics
    /// If there is no such step: callers looked it up.
    pub(super) fn step_mut(&mut self, id: RolloutId, node: NodeId) -> &mut Step {
        let rollout = self.state.rollouts.get_mut(&id).expect("the caller looked the rollout up");
        rollout.steps.get_mut(&node).expect("the caller looked the step up")
    }

    pub(super) fn policy_of(&self, id: RolloutId) -> Option<crate::Policy> {
        let rollout = self.state.rollouts.get(&id)?;
        self.state.groups.get(&rollout.group).map(|group| group.policy.clone())
    }

    /// The moment `before` ago.
    pub(super) fn ago(&self, before: rollcall_ident::Millis) -> Stamp {
        Stamp {
            cluster_time: rollcall_ident::ClusterTime(self.now.cluster_time.0.saturating_sub(before.0)),
            wall_time: rollcall_ident::WallTime(self.now.wall_time.0.saturating_sub(before.0)),
        }
    }
}
