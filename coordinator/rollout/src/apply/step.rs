//! The verbs that move a step. All commands go through them, so that what belongs to a phase (token, deadlines, events)
//! is done in one place.

use std::sync::Arc;

use rollcall_ident::{Fence, GroupName, Millis, NodeId, RolloutId};

use super::Transition;
use crate::gate::{self, Candidate};
use crate::planted::{Planted, is_planted};
use crate::state::{DeadlineKey, Instance, PauseCause, Phase, Step, StepFailure, Token, Turn, Way};
use crate::{Event, Policy, Rejection, Reply, Stamp};

/// Why a step failed whose token was taken away.
pub(super) const REVOKED: &str = "revoked";

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
        if !is_planted(Planted::GrantUnchecked) {
            gate::may_be_granted(&candidate).map_err(Rejection::NotGrantable)?;
        }
        let (group, from) = (rollout.group.clone(), candidate.service.release.clone());
        // The way back has no batches.
        let is_forward = step.way == Way::Forward;
        let (batch, is_new) = (is_forward.then_some(rollout.batch.number), is_forward && step.batch.is_none());
        let (now, fence) = (self.now, Fence(self.revision.0));
        self.state.tokens.insert(node, Token { group: group.clone(), rollout: id, fence, granted_at: now });
        self.touch_other_hosts(node);
        self.take_room(id, is_new);
        let step = self.step_mut(id, node);
        step.attempt += 1;
        step.fence = Some(fence);
        if !step.is_disturbed {
            step.origin.clone_from(&from);
        }
        step.from = from;
        step.batch = step.batch.or(batch);
        step.turn = None;
        step.instance = None;
        step.healthy_since = None;
        step.is_soaked = false;
        step.is_finishing = false;
        step.reboots = 0;
        step.timings = None;
        let name = self.state.name_of(node);
        self.emit(Event::TokenGranted { rollout: id, group: group.clone(), node, name, fence });
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
        let Some(rollout) = self.state.rollouts.get_mut(&id) else { return };
        let (left, is_given_back, was_let_in, granted_at) = rollout.change_step(node, |step| {
            assert!(step.phase.may_become(phase), "{id} {node}: {} can't become {phase}", step.phase);
            let left = std::mem::replace(&mut step.phase, phase);
            let is_given_back = phase == Phase::Queued && left != Phase::Failed;
            let was_let_in = is_given_back && step.batch.take().is_some();
            step.phase_since = now;
            // An agent that was told to turn at its next boundary may say first what it has ended.
            let is_on_its_way = matches!(phase, Phase::Installing | Phase::Rebooting);
            step.turn = step.turn.take().filter(|turn| is_on_its_way && matches!(turn, Turn::Fail { .. }));
            step.rank = None;
            step.is_disturbed |= phase == Phase::Stopping;
            step.history.push((phase, step.attempt, now));
            if step.history.len() > MAX_HISTORY {
                step.history.remove(0);
            }
            let grant = step.history.iter().rev().find(|(phase, ..)| *phase == Phase::Granted);
            (left, is_given_back, was_let_in, grant.map(|(.., at)| *at))
        });
        rollout.unfetched.remove(&node);
        rollout.progress_at = now;
        rollout.modified_revision = revision;
        let group = rollout.group.clone();
        let is_in_batches = rollout.batch.is_limited();
        let name = self.state.name_of(node);
        self.emit(Event::StepEntered { rollout: id, group: group.clone(), node, name, phase });
        self.reset_deadlines(id, node, left, phase);
        if left.holds_token() && !phase.holds_token() {
            self.end_token(id, node);
        }
        if is_given_back {
            self.give_room_back(id, was_let_in);
        }
        if phase == Phase::Succeeded {
            self.note_typical(&group, granted_at);
            if !is_in_batches {
                self.begin_delay(id);
            }
        }
        self.touch_member(&group, node);
    }

    /// How long steps take here: each success moves it an eighth of the way.
    fn note_typical(&mut self, group: &GroupName, granted_at: Option<Stamp>) {
        let Some(took) = granted_at.map(|at| self.clock().since(at.cluster_time)) else { return };
        let Some(group) = self.state.groups.get_mut(group) else { return };
        group.typical_step = Some(group.typical_step.map_or(took, |typical| Millis((typical.0 * 7 + took.0) / 8)));
    }

    pub(super) fn reset_deadlines(&mut self, id: RolloutId, node: NodeId, left: Phase, phase: Phase) {
        let ready = DeadlineKey::ReadyTimeout(id, node);
        let drain = DeadlineKey::DrainTimeout(id, node);
        let healthy = DeadlineKey::HealthyDeadline(id, node);
        let soak = DeadlineKey::MinHealthyTime(id, node);
        let policy = self.policy_of(id);
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

    pub(super) fn end_token(&mut self, id: RolloutId, node: NodeId) {
        let Some(token) = self.state.tokens.remove(&node) else { return };
        assert!(token.rollout == id, "the token of {node} is {}'s, not {id}'s", token.rollout);
        let name = self.state.name_of(node);
        self.touch_member(&token.group, node);
        self.touch_other_hosts(node);
        self.emit(Event::TokenEnded { rollout: id, group: token.group, node, name, fence: token.fence });
    }

    /// Orders a begun step back; its agent undoes what it did and reports it.
    pub(super) fn turn(&mut self, id: RolloutId, node: NodeId, turn: Turn) {
        let step = self.step_mut(id, node);
        // A step on its way to failed doesn't become one that is given back; the other way round it does.
        if step.turn.as_ref().is_some_and(|earlier| *earlier != Turn::GiveBack || turn == Turn::GiveBack) {
            return;
        }
        step.turn = Some(turn.clone());
        let Some(rollout) = self.state.rollouts.get(&id) else { return };
        let group = rollout.group.clone();
        let name = self.state.name_of(node);
        self.touch(&group);
        self.emit(Event::StepTurned { rollout: id, group, node, name, turn });
    }

    /// Ends the attempt as failed. Where attempts are left it queues again; else the policy says what becomes of the
    /// rollout.
    pub(super) fn fail_step(&mut self, id: RolloutId, node: NodeId, failure: StepFailure) {
        let max_attempts = self.policy_of(id).max_attempts;
        let is_unwanted = self.is_unwanted(id, node);
        let is_revoked = failure.reason == REVOKED;
        let why = format!("the step of {} failed: {}", self.state.name_of(node), failure.reason);
        let step = self.step_mut(id, node);
        step.failures += 1;
        let may_try_again = step.failures < max_attempts && !is_unwanted && !is_revoked;
        step.turn = None;
        step.failure = Some(failure.clone());
        let Some(rollout) = self.state.rollouts.get(&id) else { return };
        let (group, name, is_active) = (rollout.group.clone(), self.state.name_of(node), rollout.is_active());
        let StepFailure { phase, reason, detail, output } = failure;
        self.emit(Event::StepFailed { rollout: id, group, node, name, phase, reason, detail, output });
        self.enter(id, node, Phase::Failed);
        if !is_active || is_unwanted {
            return;
        }
        if may_try_again {
            self.enter(id, node, Phase::Queued);
        } else if is_revoked {
            self.pause_rollout(id, PauseCause::StepFailed);
        } else {
            self.answer_failure(id, PauseCause::StepFailed, why);
        }
    }

    /// A commit point: what may have changed since the grant is checked again, in the log.
    pub(super) fn pass_commit_point(&mut self, id: RolloutId, node: NodeId, next: Phase) {
        let Some(rollout) = self.state.rollouts.get(&id) else { return };
        let Some(candidate) = Candidate::new(self.state, rollout, node) else { return };
        match gate::may_commit(&candidate) {
            Ok(()) => self.enter(id, node, next),
            Err(_) if candidate.step.phase.is_before_a() => self.enter(id, node, Phase::Queued),
            Err(_) => self.turn(id, node, Turn::GiveBack),
        }
    }

    /// The new process runs; its health is what is still to be proved.
    pub(super) fn note_started(&mut self, id: RolloutId, node: NodeId, instance: &Instance) {
        let is_unwanted = self.is_unwanted(id, node);
        let step = self.step_mut(id, node);
        if step.phase == Phase::Starting {
            step.instance = Some(instance.clone());
            self.enter(id, node, Phase::Verifying);
        } else if step.instance.as_ref() != Some(instance) {
            step.instance = Some(instance.clone());
            self.observe_health(id, node);
        }
        if is_unwanted {
            self.end_unwanted(id, node);
        } else {
            self.observe_health(id, node);
        }
    }

    /// # Panics
    /// If there is no such step: callers looked it up.
    pub(super) fn step(&self, id: RolloutId, node: NodeId) -> &Step {
        let rollout = self.state.rollouts.get(&id).expect("the caller looked the rollout up");
        rollout.steps.get(&node).expect("the caller looked the step up")
    }

    /// To change what the rollout as a whole doesn't keep of it: for phase, fence and rank there is
    /// [`crate::Rollout::change_step`].
    ///
    /// # Panics
    /// If there is no such step: callers looked it up.
    pub(super) fn step_mut(&mut self, id: RolloutId, node: NodeId) -> &mut Step {
        let rollout = self.state.rollouts.get_mut(&id).expect("the caller looked the rollout up");
        rollout.steps.get_mut(&node).expect("the caller looked the step up")
    }

    /// The policy of the rollout's group; the default one where there is no such group.
    pub(super) fn policy_of(&self, id: RolloutId) -> Arc<Policy> {
        let group = self.state.rollouts.get(&id).and_then(|rollout| self.state.groups.get(&rollout.group));
        group.map(|group| Arc::clone(&group.policy)).unwrap_or_default()
    }

    /// The moment `before` ago.
    pub(super) fn ago(&self, before: Millis) -> Stamp {
        Stamp {
            cluster_time: rollcall_ident::ClusterTime(self.now.cluster_time.0.saturating_sub(before.0)),
            wall_time: rollcall_ident::WallTime(self.now.wall_time.0.saturating_sub(before.0)),
        }
    }
}
