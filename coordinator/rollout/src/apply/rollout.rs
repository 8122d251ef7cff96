//! Rollouts: started, steered, ended.
//!
//! ```text
//! running ⇄ paused(causes)        ends: succeeded · stopped · superseded
//! ```
//!
//! | verb | running | paused | ended |
//! | --- | --- | --- | --- |
//! | pause | yes | adds cause `operator` | no |
//! | resume | no | yes, where no cause holds any more | no |
//! | retry | failed steps | yes | no |
//! | stop | yes | yes | no |
//! | start, another target | supersedes | supersedes | new |
//! | start, the same target | no | no | new |

use rollcall_ident::{Digest, GroupName, NodeId, ReleaseIdent, RolloutId};

use super::Transition;
use crate::state::{DeadlineKey, EndedBy, PauseCause, Phase, Rollout, RolloutKind, RolloutStatus, Source, Step, Turn};
use crate::{Event, Map, Rejection, Reply, RolloutVerb};

impl Transition<'_> {
    pub(super) fn start_rollout_by_request(
        &mut self,
        group: &GroupName,
        target: &ReleaseIdent,
        digest: Option<Digest>,
        kind: RolloutKind,
    ) -> Result<Reply, Rejection> {
        let source = if kind == RolloutKind::CatchUp { Source::CatchUp } else { Source::Operator };
        let current = self.state.groups.get(group).and_then(|group| group.target.as_ref());
        let kind = match kind {
            RolloutKind::Update if current.is_some_and(|current| target < current) => RolloutKind::Rollback,
            kind => kind,
        };
        self.start_rollout(group, target, digest, kind, source).map(Reply::RolloutStarted)
    }

    pub(super) fn start_rollout(
        &mut self,
        name: &GroupName,
        target: &ReleaseIdent,
        digest: Option<Digest>,
        kind: RolloutKind,
        source: Source,
    ) -> Result<RolloutId, Rejection> {
        let group = self.state.groups.get(name).ok_or_else(|| Rejection::UnknownGroup(name.clone()))?;
        if *target.package() != group.package {
            return Err(Rejection::OtherPackage {
                group: name.clone(),
                package: group.package.clone(),
                target: target.clone(),
            });
        }
        let digest = self.agreed_digest(target, digest)?;
        // `plan` prints the revision of the state, so what is expected is that nothing of the group moved since.
        let modified = match self.state.latest_rollout(name) {
            Some(latest) => latest.modified_revision.max(group.modified_revision),
            None => group.modified_revision,
        };
        self.expect_unchanged_since(modified)?;
        if let Some(active) = self.state.active_rollout(name) {
            if active.target == *target {
                return Err(Rejection::AlreadyGoingThere {
                    group: name.clone(),
                    target: target.clone(),
                    rollout: active.id,
                    status: active.status,
                });
            }
            let active = active.id;
            self.end_rollout(active, RolloutStatus::Superseded, format!("superseded by a rollout to {target}"));
        }
        let id = self.free_id();
        let (steps, unchanged) = self.steps_towards(name, target);
        self.state.rollouts.insert(
            id,
            Rollout {
                id,
                group: name.clone(),
                target: target.clone(),
                digest,
                kind,
                source,
                started_by: self.actor.clone(),
                reason: self.reason.map(str::to_owned),
                status: RolloutStatus::Running,
                pause_causes: [].into(),
                steps,
                unchanged,
                begun: false,
                started_at: self.now,
                ended: None,
                progress_at: self.now,
                waiting: None,
                modified_revision: self.revision,
            },
        );
        let group = self.state.groups.get_mut(name).expect("looked up above");
        group.target = Some(target.clone());
        group.settled = false;
        group.active_rollout = Some(id);
        self.emit(Event::RolloutStarted { rollout: id, group: name.clone(), target: target.clone(), kind });
        self.touch(name);
        Ok(id)
    }

    /// The revision; the second and later rollouts that one entry starts (a channel that several groups follow) count on
    /// above 2^40, where no revision ever is.
    fn free_id(&self) -> RolloutId {
        let mut id = RolloutId(self.revision.0);
        while self.state.rollouts.contains_key(&id) {
            id = RolloutId(id.0 + (1 << 40));
        }
        id
    }

    /// A queued step for each member that isn't at the target, or is still in the step of an earlier rollout.
    fn steps_towards(&self, name: &GroupName, target: &ReleaseIdent) -> (Map<NodeId, Step>, Map<NodeId, ()>) {
        let group = self.state.groups.get(name).expect("the caller looked it up");
        let (mut steps, mut unchanged) = (Map::default(), Map::default());
        for (node, service) in self.state.members(group) {
            if service.release.as_ref() == Some(target) && !self.state.tokens.contains_key(&node.id) {
                unchanged.insert(node.id, ());
            } else {
                steps.insert(node.id, Step::queued(node.id, service.release.clone(), self.now));
            }
        }
        (steps, unchanged)
    }

    pub(super) fn steer(&mut self, id: RolloutId, verb: &RolloutVerb) -> Result<Reply, Rejection> {
        let rollout = self.state.rollouts.get(&id).ok_or(Rejection::UnknownRollout(id))?;
        self.expect_unchanged_since(rollout.modified_revision)?;
        if !rollout.is_active() {
            return Err(Rejection::RolloutEnded { rollout: id, status: rollout.status });
        }
        match verb {
            RolloutVerb::Pause => {
                if rollout.pause_causes.contains(&PauseCause::Operator) {
                    return Err(Rejection::AlreadySo(format!("rollout {id} is paused")));
                }
                self.pause_rollout(id, PauseCause::Operator);
            }
            RolloutVerb::Resume => self.resume_rollout(id)?,
            RolloutVerb::Stop => {
                let why = self.reason.map_or_else(|| "stopped".to_owned(), |reason| format!("stopped: {reason}"));
                self.end_rollout(id, RolloutStatus::Stopped, why);
            }
            RolloutVerb::Retry { node } => self.retry_steps(id, *node)?,
        }
        Ok(Reply::Done)
    }

    /// INVARIANT I-08: from here on no step begins and none passes a commit point.
    pub(super) fn pause_rollout(&mut self, id: RolloutId, cause: PauseCause) {
        let revision = self.revision;
        let Some(rollout) = self.state.rollouts.get_mut(&id) else { return };
        if !rollout.is_active() || !rollout.pause_causes.insert(cause) {
            return;
        }
        rollout.status = RolloutStatus::Paused;
        rollout.modified_revision = revision;
        let group = rollout.group.clone();
        self.emit(Event::RolloutPaused { rollout: id, group: group.clone(), cause });
        self.touch(&group);
        self.turn_back_uncommitted(id);
    }

    fn resume_rollout(&mut self, id: RolloutId) -> Result<(), Rejection> {
        let rollout = self.state.rollouts.get(&id).expect("the caller looked it up");
        if rollout.status != RolloutStatus::Paused {
            return Err(Rejection::NotInThisState {
                rollout: id,
                status: rollout.status,
                verb: "resume".to_owned(),
                instead: format!("see `rollcall explain {id}` for what it waits on"),
            });
        }
        let holds = rollout.pause_causes.iter().find_map(|cause| {
            let instead = match cause {
                PauseCause::StepFailed => rollout
                    .steps
                    .values()
                    .any(|step| step.phase == Phase::Failed)
                    .then(|| format!("`rollcall rollout retry {id}`, or start a rollout to another release")),
                PauseCause::NodeAway => rollout.steps.values().find_map(|step| {
                    let node = self.state.nodes.get(&step.node)?;
                    (!step.phase.is_settled() && node.session().is_none() && node.is_departed())
                        .then(|| format!("bring {name} back, or `rollcall node remove {name}`", name = node.name))
                }),
                PauseCause::Operator | PauseCause::ProgressDeadline => None,
            };
            instead.map(|instead| Rejection::CauseHolds { rollout: id, cause: *cause, instead })
        });
        match holds {
            Some(rejection) => Err(rejection),
            None => {
                self.go_on(id, |_| true);
                Ok(())
            }
        }
    }

    /// Takes the causes away for which `gone` is true; where none is left, the rollout runs again.
    fn go_on(&mut self, id: RolloutId, gone: impl Fn(PauseCause) -> bool) {
        let (now, revision) = (self.now, self.revision);
        let Some(rollout) = self.state.rollouts.get_mut(&id) else { return };
        rollout.pause_causes.retain(|cause| !gone(*cause));
        rollout.modified_revision = revision;
        let group = rollout.group.clone();
        self.touch(&group);
        let rollout = self.state.rollouts.get_mut(&id).expect("it was there a line above");
        if rollout.pause_causes.is_empty() && rollout.status == RolloutStatus::Paused {
            rollout.status = RolloutStatus::Running;
            rollout.progress_at = now;
            self.emit(Event::RolloutResumed { rollout: id, group });
        }
    }

    fn retry_steps(&mut self, id: RolloutId, node: Option<NodeId>) -> Result<(), Rejection> {
        let rollout = self.state.rollouts.get(&id).expect("the caller looked it up");
        if let Some(node) = node.filter(|node| !rollout.steps.contains_key(node)) {
            return Err(Rejection::NoSuchStep { node, rollout: id });
        }
        let failed: Vec<NodeId> = rollout
            .steps
            .values()
            .filter(|step| step.phase == Phase::Failed && node.is_none_or(|node| node == step.node))
            .map(|step| step.node)
            .collect();
        if failed.is_empty() {
            return Err(Rejection::NotInThisState {
                rollout: id,
                status: rollout.status,
                verb: "retry".to_owned(),
                instead: "there is no failed step to try again; `resume` goes on".to_owned(),
            });
        }
        for node in &failed {
            self.enter(id, *node, Phase::Queued);
        }
        let all_tried = self
            .state
            .rollouts
            .get(&id)
            .is_some_and(|rollout| rollout.steps.values().all(|step| step.phase != Phase::Failed));
        self.go_on(id, |cause| cause == PauseCause::ProgressDeadline || (all_tried && cause == PauseCause::StepFailed));
        Ok(())
    }

    /// Ends it for good. Steps that haven't passed B go back; one that has, runs to its end under its own token.
    pub(super) fn end_rollout(&mut self, id: RolloutId, status: RolloutStatus, why: String) {
        let (now, revision) = (self.now, self.revision);
        let Some(rollout) = self.state.rollouts.get_mut(&id) else { return };
        assert!(rollout.is_active() && !status.is_active(), "{id} is {} and can't become {status}", rollout.status);
        rollout.status = status;
        rollout.pause_causes.clear();
        rollout.ended = Some(EndedBy { at: now, why });
        rollout.waiting = None;
        rollout.modified_revision = revision;
        let name = rollout.group.clone();
        self.state.deadlines.clear(&DeadlineKey::ProgressDeadline(id));
        let group = self.state.groups.get_mut(&name).expect("a rollout's group can't be deleted while it is active");
        group.active_rollout = None;
        group.settled = status == RolloutStatus::Succeeded;
        let kept = group.policy.revision_history_limit as usize;
        self.emit(Event::RolloutEnded { rollout: id, group: name.clone(), status });
        self.touch(&name);
        self.turn_back_uncommitted(id);
        if status == RolloutStatus::Superseded {
            self.end_superseded_verification(id);
        }
        self.forget_rollouts(&name, kept);
    }

    /// What hasn't passed B goes back: at once before A, by the agent's `undrain` between A and B.
    fn turn_back_uncommitted(&mut self, id: RolloutId) {
        let Some(rollout) = self.state.rollouts.get(&id) else { return };
        let open: Vec<(NodeId, Phase)> = rollout.steps_in_flight().map(|step| (step.node, step.phase)).collect();
        for (node, phase) in open {
            if phase.is_before_a() {
                self.enter(id, node, Phase::Queued);
            } else if phase == Phase::Draining {
                self.turn(id, node, Turn::GiveBack);
            }
        }
    }

    /// BOUND: only the last `kept` ended rollouts of a group stay, and those whose steps are still in flight.
    pub(super) fn forget_rollouts(&mut self, group: &GroupName, kept: usize) {
        let ended: Vec<RolloutId> = self
            .state
            .rollouts
            .values()
            .filter(|rollout| rollout.group == *group && !rollout.is_active())
            .filter(|rollout| rollout.steps_in_flight().next().is_none())
            .map(|rollout| rollout.id)
            .collect();
        for id in ended.iter().rev().skip(kept) {
            self.state.rollouts.remove(id);
        }
    }
}
