//! What happens by itself when cluster time has come. With every entry all that is due fires first, so no command ever
//! sees a state that should have ended before it.

use rollcall_ident::{NodeId, RolloutId};

use super::Transition;
use crate::Event;
use crate::state::{DeadlineKey, PauseCause, Phase, Presence, StepFailure, Turn};

impl Transition<'_> {
    pub(super) fn fire_deadlines(&mut self) {
        while let Some(key) = self.state.deadlines.pop_due(self.clock()) {
            self.fire(key);
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
        }
    }

    fn fail_by_deadline(&mut self, rollout: RolloutId, node: NodeId, key: DeadlineKey, detail: String) {
        let phase = self.step_mut(rollout, node).phase;
        let failure = StepFailure { phase, reason: key.name().to_owned(), detail, output: String::new() };
        self.fail_step(rollout, node, failure);
    }

    fn health_detail(&self, rollout: RolloutId, node: NodeId) -> String {
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
        if let Some(rollout) = holder.filter(|rollout| self.is_before_b(*rollout, id)) {
            self.pause_rollout(rollout, PauseCause::NodeAway);
        }
        for group in groups {
            self.touch(&group);
        }
    }

    fn is_before_b(&self, rollout: RolloutId, node: NodeId) -> bool {
        let step = self.state.rollouts.get(&rollout).and_then(|rollout| rollout.steps.get(&node));
        step.is_some_and(|step| step.phase.is_before_a() || step.phase == Phase::Draining)
    }
}
