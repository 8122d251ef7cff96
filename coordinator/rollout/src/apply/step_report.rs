//! What agents report of their steps. A report that the log has heard already is accepted without effect, so an agent
//! may say everything again after a reconnect; one that doesn't fit is refused with what the log says.

use std::cmp::Ordering;

use rollcall_ident::{Fence, GroupName, NodeId, ReleaseIdent, RolloutId};

use super::Transition;
use crate::planted::{Planted, is_planted};
use crate::report::{NodeReport, PrefetchReport, Report, StepEvent, StepReport};
use crate::state::{Phase, Prefetch, SkipCause, StepFailure, Turn};
use crate::{Event, Rejection, Reply};

impl Transition<'_> {
    /// Each report has its own answer; a refused one leaves the others alone.
    pub(super) fn take_reports(&mut self, reports: &[NodeReport]) -> Reply {
        Reply::Reported(reports.iter().map(|report| self.take_report(report)).collect())
    }

    fn take_report(&mut self, report: &NodeReport) -> Result<(), Rejection> {
        let node = self.state.nodes.get(&report.node).ok_or_else(|| Rejection::UnknownNode(report.node.to_string()))?;
        let current = node.session().map_or_else(Default::default, |session| session.epoch);
        if current != report.epoch {
            return Err(Rejection::StaleSession { node: report.node, given: report.epoch, current });
        }
        if is_planted(Planted::PauseForgotten) {
            let paused: Vec<_> = self.state.rollouts.keys().copied().collect();
            paused.into_iter().for_each(|id| self.go_on(id, |_| true));
        }
        match &report.report {
            Report::Status(status) => self.update_service(report.node, status),
            Report::Step(step) => self.take_step_report(report.node, step),
            Report::Prefetch(prefetch) => self.take_prefetch_report(report.node, prefetch),
        }
    }

    fn take_prefetch_report(&mut self, id: NodeId, report: &PrefetchReport) -> Result<(), Rejection> {
        let not_a_member = || Rejection::NotAMember { node: id, group: report.group.clone() };
        let node = self.state.nodes.get_mut(&id).ok_or_else(not_a_member)?;
        let name = node.name.clone();
        let service = node.services.get_mut(&report.group).ok_or_else(not_a_member)?;
        let (group, release) = (report.group.clone(), report.release.clone());
        let outcome = match &report.outcome {
            Ok(_) => Ok(()),
            Err((reason, detail)) => Err(format!("{reason}: {detail}")),
        };
        let prefetch = Prefetch { release: release.clone(), outcome, rollback: report.rollback };
        if service.prefetch.as_ref() == Some(&prefetch) {
            return Ok(());
        }
        service.prefetch = Some(prefetch);
        self.touch_member(&group, id);
        if !report.rollback {
            self.note_one_way(&group, &release);
        }
        self.emit(match &report.outcome {
            Ok(_) => Event::ReleasePrefetched { node: id, name, group, release },
            Err((reason, detail)) => {
                let (reason, detail) = (reason.clone(), detail.clone());
                Event::PrefetchFailed { node: id, name, group, release, reason, detail }
            }
        });
        Ok(())
    }

    /// The release says that nodes that run it can't go back.
    fn note_one_way(&mut self, group: &GroupName, release: &ReleaseIdent) {
        let Some(id) = self.state.groups.get(group).and_then(|group| group.active_rollout) else { return };
        if let Some(rollout) = self.state.rollouts.get_mut(&id).filter(|rollout| rollout.target == *release) {
            rollout.is_one_way = true;
        }
    }

    /// INVARIANT I-04: only the holder of the step's current fence moves it.
    fn take_step_report(&mut self, node: NodeId, report: &StepReport) -> Result<(), Rejection> {
        let id = report.rollout;
        let rollout = self.state.rollouts.get(&id).ok_or(Rejection::UnknownRollout(id))?;
        let step = rollout.steps.get(&node).ok_or(Rejection::NoSuchStep { node, rollout: id })?;
        let is_current = step.fence == Some(report.fence) && step.attempt == report.attempt;
        if !is_current && !is_planted(Planted::NoFence) {
            return Err(Rejection::StaleFence { given: report.fence, current: step.fence.unwrap_or_default() });
        }
        if !step.phase.holds_token() {
            // The step has ended. What led there, said again, is nothing new.
            let is_repeated = match report.event {
                StepEvent::Failed { .. } => step.phase == Phase::Failed,
                StepEvent::TurnedBack => step.phase != Phase::Succeeded,
                _ => step.phase == Phase::Succeeded,
            };
            let refusal = Rejection::StaleFence { given: report.fence, current: Fence(0) };
            return if is_repeated { Ok(()) } else { Err(refusal) };
        }
        let is_news = self.state.nodes.get(&node).is_some_and(|known| known.highest_fence < report.fence);
        if is_news && let Some(known) = self.state.nodes.get_mut(&node) {
            known.highest_fence = report.fence;
        }
        self.move_step(id, node, &report.event)
    }

    fn move_step(&mut self, id: RolloutId, node: NodeId, event: &StepEvent) -> Result<(), Rejection> {
        let (phase, turn) = {
            let step = self.step(id, node);
            (step.phase, step.turn.clone())
        };
        let refused = || {
            let name: &'static str = event.into();
            Rejection::NotInThisPhase { event: name.to_owned(), phase }
        };
        match event {
            StepEvent::Accepted => self.advance(id, node, phase, Phase::Granted, Phase::Preparing),
            StepEvent::Prepared => {
                if phase == Phase::Granted {
                    self.enter(id, node, Phase::Preparing);
                }
                if phase.is_before_a() {
                    self.pass_commit_point(id, node, Phase::Draining);
                }
                Ok(())
            }
            StepEvent::Drained if phase == Phase::Draining => {
                if turn.is_none() {
                    self.pass_commit_point(id, node, Phase::Stopping);
                }
                Ok(())
            }
            StepEvent::Drained if phase.is_past_b() => Ok(()),
            StepEvent::Stopped { .. } => self.advance(id, node, phase, Phase::Stopping, Phase::Installing),
            StepEvent::Installed { .. } => {
                if phase == Phase::Rebooting {
                    self.enter(id, node, Phase::Installing);
                }
                let phase = if phase == Phase::Rebooting { Phase::Installing } else { phase };
                // One that turns goes no further; it says so next.
                if turn.is_some() && phase == Phase::Installing {
                    return Ok(());
                }
                self.advance(id, node, phase, Phase::Installing, Phase::Starting)
            }
            StepEvent::RebootBegun { .. } if phase.is_past_b() => {
                if phase.may_become(Phase::Rebooting) {
                    self.enter(id, node, Phase::Rebooting);
                }
                Ok(())
            }
            StepEvent::Started { instance } => {
                let rollout = self.state.rollouts.get(&id);
                let target = rollout.and_then(|it| Some(it.target_of(it.steps.get(&node)?).clone()));
                if let Some(target) = target.filter(|target| *target != instance.release) {
                    return Err(Rejection::NotTheTarget { given: instance.release.clone(), target });
                }
                // The turn came too late: the agent was starting already.
                if turn.is_some() && phase == Phase::Installing {
                    self.enter(id, node, Phase::Starting);
                } else if !matches!(phase, Phase::Starting | Phase::Verifying) {
                    return Err(refused());
                }
                self.note_started(id, node, instance);
                Ok(())
            }
            StepEvent::Finished { timings } => {
                let step = self.step_mut(id, node);
                if phase != Phase::Verifying || !step.is_finishing {
                    return Err(refused());
                }
                step.timings = Some(*timings);
                self.succeed_if_proved(id, node);
                if self.is_unwanted(id, node) {
                    self.end_unwanted(id, node);
                }
                Ok(())
            }
            StepEvent::TurnedBack => self.note_turned_back(id, node, phase, turn).ok_or_else(refused),
            StepEvent::Failed { phase, reason, detail, output } => {
                let (reason, detail, output) = (reason.clone(), detail.clone(), output.clone());
                self.fail_step(id, node, StepFailure { phase: *phase, reason, detail, output });
                Ok(())
            }
            StepEvent::Drained | StepEvent::RebootBegun { .. } => Err(refused()),
        }
    }

    /// From `at` to `next`; nothing new where the step is further already, refused where it isn't there yet.
    fn advance(&mut self, id: RolloutId, node: NodeId, phase: Phase, at: Phase, next: Phase) -> Result<(), Rejection> {
        match phase.cmp(&at) {
            Ordering::Less => Err(Rejection::NotInThisPhase { event: next.to_string(), phase }),
            Ordering::Equal => {
                self.enter(id, node, next);
                Ok(())
            }
            Ordering::Greater => Ok(()),
        }
    }

    fn note_turned_back(&mut self, id: RolloutId, node: NodeId, phase: Phase, turn: Option<Turn>) -> Option<()> {
        match turn? {
            Turn::GiveBack => self.enter(id, node, Phase::Queued),
            Turn::Skip => self.skip_step(id, node, SkipCause::Operator),
            Turn::Fail { reason, detail } => {
                self.fail_step(id, node, StepFailure { phase, reason, detail, output: String::new() });
            }
        }
        Some(())
    }
}
