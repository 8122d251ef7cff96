//! What a step has to prove before it succeeds: the new process reports the target, stays healthy for `min_healthy_time`, and
//! still is when the agent has ended its last hook.

use rollcall_ident::{NodeId, RolloutId};

use super::Transition;
use crate::Event;
use crate::gate::Candidate;
use crate::planted::{Planted, is_planted};
use crate::state::{DeadlineKey, Phase, StepFailure};

impl Transition<'_> {
    /// INVARIANT I-05: the soak counts only while the *new* process reports the target and is healthy; any bad sample
    /// begins it again, until the step has succeeded.
    pub(super) fn observe_health(&mut self, id: RolloutId, node: NodeId) {
        self.note_process_of_finishing(id, node);
        let Some((is_good, healthy_since)) = self.verdict(id, node) else { return };
        let key = DeadlineKey::MinHealthyTime(id, node);
        let (now, soaked_at) = (self.now, self.clock() + self.policy_of(id).min_healthy_time);
        match (is_good, healthy_since) {
            (true, None) => {
                self.step_mut(id, node).healthy_since = Some(now);
                self.state.deadlines.set(key, soaked_at);
            }
            (false, Some(_)) if !is_planted(Planted::SoakGoesOn) => {
                self.step_mut(id, node).healthy_since = None;
                self.state.deadlines.clear(&key);
                let detail =
                    if self.is_connected(node) { self.health_detail(id, node) } else { "it is away".to_owned() };
                self.lose_soak(id, node, detail);
            }
            (true, Some(_)) | (false, _) => {}
        }
    }

    /// Whether the process that is to be proved is well, and since when; none: nothing is to be proved.
    fn verdict(&self, id: RolloutId, node: NodeId) -> Option<(bool, Option<crate::Stamp>)> {
        let rollout = self.state.rollouts.get(&id)?;
        let Candidate { step, service, node, group, .. } = Candidate::new(self.state, rollout, node)?;
        if step.phase != Phase::Verifying {
            return None;
        }
        let is_good = node.health_of(service).is_good(group.policy.on_warning)
            && service.instance.is_some()
            && service.instance == step.instance
            && service.release.as_ref() == Some(rollout.target_of(step))
            && node.session().is_some();
        Some((is_good, step.healthy_since))
    }

    /// The process of a step that finishes died, with its machine most often, and the agent has started the target once
    /// more: it is that one that has to be proved now. No report of the step tells of it, the status does.
    fn note_process_of_finishing(&mut self, id: RolloutId, node: NodeId) {
        let Some(rollout) = self.state.rollouts.get(&id) else { return };
        let Some(Candidate { step, service, .. }) = Candidate::new(self.state, rollout, node) else { return };
        let is_another = service.instance.is_some() && service.instance != step.instance;
        let runs_the_target = service.release.as_ref() == Some(rollout.target_of(step));
        if step.phase != Phase::Verifying || !step.is_finishing || !is_another || !runs_the_target {
            return;
        }
        let instance = service.instance.clone();
        let step = self.step_mut(id, node);
        step.instance = instance;
        if !is_planted(Planted::SoakGoesOn) && step.healthy_since.take().is_some() {
            self.state.deadlines.clear(&DeadlineKey::MinHealthyTime(id, node));
            self.lose_soak(id, node, "another process of the release runs".to_owned());
        }
    }

    /// What was proved isn't so any more: it has `healthy_deadline` to be proved once more.
    fn lose_soak(&mut self, id: RolloutId, node: NodeId, detail: String) {
        let step = self.step_mut(id, node);
        if !std::mem::replace(&mut step.is_soaked, false) {
            return;
        }
        let Some(rollout) = self.state.rollouts.get(&id) else { return };
        let group = rollout.group.clone();
        let name = self.state.name_of(node);
        self.touch(&group);
        self.emit(Event::StepSoakLost { rollout: id, group, node, name, detail });
        // INVARIANT I-07: a machine that is away keeps its token, and has its time once it is back.
        if self.is_connected(node) {
            let at = self.clock() + self.policy_of(id).healthy_deadline;
            self.state.deadlines.set(DeadlineKey::HealthyDeadline(id, node), at);
            if self.is_unwanted(id, node) {
                self.end_unwanted(id, node);
            }
        }
    }

    /// The soak is complete: the agent is told to finish, where it hasn't.
    pub(super) fn note_soaked(&mut self, id: RolloutId, node: NodeId) {
        self.state.deadlines.clear(&DeadlineKey::HealthyDeadline(id, node));
        let step = self.step_mut(id, node);
        step.is_soaked = true;
        step.is_finishing = true;
        let Some(rollout) = self.state.rollouts.get_mut(&id) else { return };
        let group = rollout.group.clone();
        let name = self.state.name_of(node);
        self.touch(&group);
        self.emit(Event::StepSoaked { rollout: id, group, node, name });
        self.succeed_if_proved(id, node);
    }

    /// The end of both: of the soak, and of what the agent does last.
    pub(super) fn succeed_if_proved(&mut self, id: RolloutId, node: NodeId) {
        // What an operator or a policy says of its health may have changed since it was last heard of.
        self.observe_health(id, node);
        let step = self.step(id, node);
        if step.timings.is_none() || !step.is_soaked {
            return;
        }
        let is_good = self.verdict(id, node).is_some_and(|(is_good, _)| is_good);
        assert!(
            is_good || is_planted(Planted::SoakGoesOn),
            "{id} {node}: its proof is of another process, or not so any more"
        );
        self.enter(id, node, Phase::Succeeded);
    }

    /// Ends a verification that nobody waits for any more.
    pub(super) fn end_unproved(&mut self, id: RolloutId, node: NodeId, reason: String, detail: String) {
        self.fail_step(id, node, StepFailure { phase: Phase::Verifying, reason, detail, output: String::new() });
    }
}
