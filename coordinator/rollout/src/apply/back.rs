//! Going back: the updated members return to where they were, in reverse order, through the same gates.

use rollcall_ident::{GroupName, NodeId, RolloutId};

use super::Transition;
use crate::policy::FailureAction;
use crate::state::{DeadlineKey, GoingBack, PauseCause, Phase, RolloutStatus, SkipCause, Step, Turn, Way};
use crate::{Event, Rejection};

impl Transition<'_> {
    /// Turns a rollout round for good.
    ///
    /// # Errors
    /// If a node that was updated can't go back.
    pub(super) fn go_back(&mut self, id: RolloutId, why: String) -> Result<(), Rejection> {
        let (now, revision) = (self.now, self.revision);
        let Some(rollout) = self.state.rollouts.get_mut(&id) else { return Err(Rejection::UnknownRollout(id)) };
        assert!(rollout.is_active() && rollout.going_back.is_none(), "{id} is {} and can't go back", rollout.status);
        if rollout.is_one_way && rollout.steps.values().any(|step| step.is_disturbed) {
            return Err(Rejection::RollbackForbidden { release: rollout.target.clone(), rollout: id });
        }
        rollout.going_back = Some(GoingBack { at: now, why: why.clone() });
        // An operator's pause holds, whatever else comes.
        rollout.pause_causes.retain(|cause| *cause == PauseCause::Operator);
        if rollout.pause_causes.is_empty() {
            rollout.status = RolloutStatus::RollingBack;
        }
        rollout.modified_revision = revision;
        rollout.progress_at = now;
        let group = rollout.group.clone();
        let nodes: Vec<NodeId> = rollout.steps.keys().copied().collect();
        self.state.deadlines.clear(&DeadlineKey::Delay(id));
        self.emit(Event::RollbackBegun { rollout: id, group: group.clone(), why });
        nodes.iter().for_each(|node| self.turn_round(id, *node));
        nodes.iter().for_each(|node| self.reconcile_way_back(id, &group, *node));
        self.touch(&group);
        Ok(())
    }

    /// What is under way ends where it can; the rest is reconciled once it has ended.
    fn turn_round(&mut self, id: RolloutId, node: NodeId) {
        let step = self.step(id, node);
        match step.phase {
            Phase::Granted | Phase::Preparing => self.enter(id, node, Phase::Queued),
            Phase::Draining => self.turn(id, node, Turn::GiveBack),
            Phase::Stopping | Phase::Installing | Phase::Rebooting | Phase::Starting | Phase::Verifying => {
                self.end_unwanted(id, node);
            }
            Phase::Queued | Phase::Succeeded | Phase::Failed | Phase::Skipped => {}
        }
    }

    /// While a rollout goes back, each member that it has disturbed gets a step to what it ran before.
    pub(super) fn reconcile_way_back(&mut self, id: RolloutId, name: &GroupName, node: NodeId) {
        let Some(rollout) = self.state.rollouts.get(&id) else { return };
        let Some(step) = rollout.steps.get(&node) else { return };
        let service = self.state.nodes.get(&node).and_then(|node| node.services.get(name));
        let release = service.and_then(|service| service.release.clone());
        let on_warning = self.policy_of(id).on_warning;
        let is_broken = self.state.nodes.get(&node).is_some_and(|node| node.is_broken(name, on_warning));
        let is_open = matches!(step.phase, Phase::Queued | Phase::Failed);
        match (step.way, step.phase) {
            // One that was left out after it had been disturbed isn't as it was, either.
            (Way::Forward, Phase::Skipped) if !step.is_disturbed || (release == step.origin && !is_broken) => {}
            (Way::Forward, Phase::Queued | Phase::Failed | Phase::Succeeded | Phase::Skipped) => {
                let has_origin = step.origin.as_ref().is_some_and(|origin| *origin != rollout.target);
                if step.is_disturbed && has_origin {
                    self.lead_back(id, node);
                } else if is_open {
                    let cause = if step.is_disturbed { SkipCause::NothingBefore } else { SkipCause::NotBegun };
                    self.skip_step(id, node, cause);
                }
            }
            (Way::Back, Phase::Succeeded) if release != step.origin => self.lead_back(id, node),
            (Way::Back, Phase::Succeeded) if is_broken => self.heed_bad_member(id, node),
            _ => {}
        }
    }

    fn lead_back(&mut self, id: RolloutId, node: NodeId) {
        let Some(earlier) = self.state.rollouts.get(&id).and_then(|rollout| rollout.steps.get(&node)) else { return };
        let back = Step {
            way: Way::Back,
            attempt: earlier.attempt,
            fence: earlier.fence,
            origin: earlier.origin.clone(),
            is_disturbed: true,
            failure: earlier.failure.clone(),
            history: earlier.history.clone(),
            ..Step::queued(node, Some(self.target_of(id)), self.now)
        };
        self.put_queued(id, back);
    }

    fn target_of(&self, id: RolloutId) -> rollcall_ident::ReleaseIdent {
        self.state.rollouts.get(&id).expect("the caller looked it up").target.clone()
    }

    /// A step past B that nobody wants to end where it leads: the rollout was superseded or goes back. Where the target
    /// isn't installed yet, the agent turns at the next boundary; a process that starts is let start; a verification
    /// ends at once, where its machine is there.
    pub(super) fn end_unwanted(&mut self, id: RolloutId, node: NodeId) {
        let Some(rollout) = self.state.rollouts.get(&id) else { return };
        let (reason, detail) = if rollout.going_back.is_some() {
            ("turned_back", "its rollout goes back; this node first")
        } else {
            ("superseded", "another rollout took its place; this node is planned there anew")
        };
        let (reason, detail) = (reason.to_owned(), detail.to_owned());
        let step = self.step(id, node);
        match step.phase {
            Phase::Stopping | Phase::Installing | Phase::Rebooting => {
                self.turn(id, node, Turn::Fail { reason, detail })
            }
            // INVARIANT I-07: a machine that is away keeps its token, and ends it once it is back.
            Phase::Verifying if !self.is_connected(node) => {}
            // One that was told to finish has its last hook to run: it says when it is through.
            Phase::Verifying if !step.is_soaked && (!step.is_finishing || step.timings.is_some()) => {
                self.end_unproved(id, node, reason, detail);
            }
            _ => {}
        }
    }

    /// Whether a step past B has lost its purpose.
    pub(super) fn is_unwanted(&self, id: RolloutId, node: NodeId) -> bool {
        self.state.rollouts.get(&id).is_some_and(|rollout| {
            let leads_forward = rollout.steps.get(&node).is_some_and(|step| step.way == Way::Forward);
            rollout.status == RolloutStatus::Superseded || (rollout.going_back.is_some() && leads_forward)
        })
    }

    /// What a failure does to its rollout, as the policy says.
    pub(super) fn answer_failure(&mut self, id: RolloutId, cause: PauseCause, why: String) {
        let Some(rollout) = self.state.rollouts.get(&id).filter(|rollout| rollout.is_active()) else { return };
        if rollout.going_back.is_some() {
            return self.pause_rollout(id, PauseCause::RollbackFailed);
        }
        let policy = self.policy_of(id);
        match policy.failure_action {
            FailureAction::Pause => self.pause_rollout(id, cause),
            FailureAction::Rollback => {
                let target = rollout.target.clone();
                // A release that can't go back, or nothing to go back to: a person must say what to do.
                let has_way_back = rollout.steps.values().all(|step| !step.is_disturbed || step.origin.is_some());
                if has_way_back && self.go_back(id, why.clone()).is_ok() {
                    self.quarantine(&target, why);
                } else {
                    self.pause_rollout(id, cause);
                }
            }
            FailureAction::Continue => {
                let (bad, all) = (self.count_bad(id), rollout.steps.len() + rollout.unchanged.len());
                if policy.max_failure_ratio.is_exceeded_by(bad, all) {
                    self.pause_rollout(id, PauseCause::FailureRatio);
                }
            }
        }
    }

    /// Failed steps, and updated members that went bad.
    pub(super) fn count_bad(&self, id: RolloutId) -> usize {
        self.state.rollouts.get(&id).map_or(0, |rollout| rollout.tally.of(Phase::Failed) + self.bad_members(id).len())
    }

    /// Members that were updated, and aren't healthy any more.
    pub(super) fn bad_members(&self, id: RolloutId) -> Vec<NodeId> {
        crate::explain::bad_members(self.state, id)
    }

    /// A member that was updated isn't healthy any more: that is a failure of the rollout, too.
    pub(super) fn heed_bad_member(&mut self, id: RolloutId, node: NodeId) {
        let Some(rollout) = self.state.rollouts.get(&id) else { return };
        let (status, is_noted) = (rollout.status, rollout.pause_causes.contains(&PauseCause::MemberUnhealthy));
        let policy = self.policy_of(id);
        let all = rollout.steps.len() + rollout.unchanged.len();
        let is_borne = policy.failure_action == FailureAction::Continue
            && rollout.going_back.is_none()
            && !policy.max_failure_ratio.is_exceeded_by(self.count_bad(id), all);
        if is_noted || is_borne || status == RolloutStatus::AwaitingApproval {
            return;
        }
        let group = rollout.group.clone();
        let detail = self.health_detail(id, node);
        let name = self.state.name_of(node);
        let why = format!("{name}, which was updated, went bad: {detail}");
        self.emit(Event::MemberWentBad { rollout: id, group, node, name, detail });
        if status == RolloutStatus::Paused {
            self.pause_rollout(id, PauseCause::MemberUnhealthy);
        } else {
            self.answer_failure(id, PauseCause::MemberUnhealthy, why);
        }
    }
}
