//! What happens by itself when cluster time has come. With every entry all that is due fires first, so no command ever
//! sees a state that should have ended before it.

use rollcall_ident::{NodeId, RolloutId};

use super::Transition;
use crate::Event;
use crate::planted::{Planted, is_planted};
use crate::policy::{Policy, TimeoutAction};
use crate::state::{AlarmKey, DeadlineKey, PauseCause, Phase, Presence, SkipCause, StepFailure, Turn};

impl Transition<'_> {
    pub(super) fn fire_deadlines(&mut self) {
        while let Some(key) = self.state.deadlines.pop_due(self.clock()) {
            self.fire(key);
        }
        while let Some(key) = self.state.alarms.pop_due(self.now.wall_time) {
            self.ring(key);
        }
    }

    /// What people have set for a day and an hour.
    fn ring(&mut self, key: AlarmKey) {
        match key {
            AlarmKey::Openness(group) => self.look_at_openness(&group),
            AlarmKey::ResumeRollout(rollout) => self.go_on(rollout, |cause| cause == PauseCause::Operator),
            AlarmKey::PauseRollout(rollout) => self.pause_rollout(rollout, PauseCause::Operator),
            AlarmKey::ReleaseNode(node) => self.end_hold(node),
        }
    }

    fn fire(&mut self, key: DeadlineKey) {
        match key {
            DeadlineKey::StaleAfter(node) => self.forget_health(node),
            DeadlineKey::LostAfter(node) => self.note_departed(node),
            DeadlineKey::MinHealthyTime(rollout, node) => self.note_soaked(rollout, node),
            DeadlineKey::HealthyDeadline(rollout, node) => {
                let detail = self.health_detail(rollout, node);
                self.fail_by_deadline(rollout, node, key, detail);
            }
            DeadlineKey::ReadyTimeout(rollout, node)
                if self.is_forced(rollout, |policy| policy.ready_timeout_action) =>
            {
                self.force(rollout, node, key, Phase::Draining);
            }
            DeadlineKey::DrainTimeout(rollout, node)
                if self.is_forced(rollout, |policy| policy.drain_timeout_action) =>
            {
                self.force(rollout, node, key, Phase::Stopping);
            }
            DeadlineKey::ReadyTimeout(rollout, node) => {
                let detail = "the service said for too long that it isn't ready; it was not disturbed".to_owned();
                self.fail_by_deadline(rollout, node, key, detail);
            }
            DeadlineKey::DrainTimeout(rollout, node) => {
                let detail = "the drain took too long; it was not stopped".to_owned();
                self.turn(rollout, node, Turn::Fail { reason: key.name().to_owned(), detail });
            }
            DeadlineKey::RebootTimeout(rollout, _) => self.pause_rollout(rollout, PauseCause::NodeAway),
            DeadlineKey::ProgressDeadline(rollout) => self.pause_rollout(rollout, PauseCause::ProgressDeadline),
            DeadlineKey::Delay(rollout) => {
                let now = self.now;
                let Some(rollout) = self.state.rollouts.get_mut(&rollout) else { return };
                rollout.progress_at = now;
                let group = rollout.group.clone();
                self.touch(&group);
            }
        }
    }

    fn is_forced(&self, rollout: RolloutId, action: impl Fn(&Policy) -> TimeoutAction) -> bool {
        action(&self.policy_of(rollout)) == TimeoutAction::Force
    }

    /// The step goes on without the hook's word; what the commit point asks for is still asked.
    fn force(&mut self, id: RolloutId, node: NodeId, key: DeadlineKey, next: Phase) {
        let step = self.step(id, node);
        if step.turn.is_some() {
            return;
        }
        if step.phase == Phase::Granted {
            self.enter(id, node, Phase::Preparing);
        }
        let Some(group) = self.state.rollouts.get(&id).map(|rollout| rollout.group.clone()) else { return };
        let name = self.state.name_of(node);
        self.emit(Event::StepForced { rollout: id, group, node, name, timeout: key.name().to_owned() });
        self.pass_commit_point(id, node, next);
    }

    fn fail_by_deadline(&mut self, rollout: RolloutId, node: NodeId, key: DeadlineKey, detail: String) {
        let phase = self.step(rollout, node).phase;
        let failure = StepFailure { phase, reason: key.name().to_owned(), detail, output: String::new() };
        self.fail_step(rollout, node, failure);
    }

    pub(super) fn health_detail(&self, rollout: RolloutId, node: NodeId) -> String {
        let group = self.state.rollouts.get(&rollout).map(|rollout| &rollout.group);
        let service = group.and_then(|group| self.state.nodes.get(&node).and_then(|node| node.services.get(group)));
        match service {
            Some(service) if service.health_detail.is_empty() => format!("its health is {}", service.health),
            Some(service) => format!("its health is {}: {}", service.health, service.health_detail),
            None => "it is no member any more".to_owned(),
        }
    }

    /// Departed is a state, not an absence: it keeps its place, its token and its budget.
    fn note_departed(&mut self, id: NodeId) {
        let Some(node) = self.state.nodes.get_mut(&id) else { return };
        let Presence::Away { since } = node.presence else { return };
        node.presence = Presence::Departed { since };
        let (name, groups) = (node.name.clone(), node.services.keys().cloned().collect::<Vec<_>>());
        self.emit(Event::NodeDeparted { node: id, name });
        let holder = self.state.tokens.get(&id).map(|token| token.rollout);
        if let Some(rollout) = holder.filter(|_| is_planted(Planted::DepartedLosesToken)) {
            self.skip_step(rollout, id, SkipCause::Offline);
            return;
        }
        if let Some(rollout) = holder.filter(|rollout| self.is_before_b(*rollout, id)) {
            self.pause_rollout(rollout, PauseCause::NodeAway);
        }
        for group in groups {
            self.touch_member(&group, id);
        }
    }

    fn is_before_b(&self, rollout: RolloutId, node: NodeId) -> bool {
        let step = self.state.rollouts.get(&rollout).and_then(|rollout| rollout.steps.get(&node));
        step.is_some_and(|step| step.phase.is_before_a() || step.phase == Phase::Draining)
    }
}
