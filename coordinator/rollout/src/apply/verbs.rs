//! What operators say to a rollout. [`allowed`] is the table of `docs/state-machines.md`, which a test keeps true.

use rollcall_ident::{NodeId, RolloutId, WallTime};

use super::Transition;
use crate::policy::Mode;
use crate::schedule::in_words;
use crate::state::{AlarmKey, PauseCause, PausedBy, Phase, Rollout, RolloutStatus, SkipCause, Turn};
use crate::{Event, Rejection, Reply, RolloutVerb};

/// Whether a verb makes sense in a state; if not, what would.
fn allowed(verb: &RolloutVerb, rollout: &Rollout) -> Result<(), String> {
    use RolloutStatus::{AwaitingApproval, AwaitingPromotion, Paused, RollingBack, Running};
    let id = rollout.id;
    let is_allowed = match verb {
        RolloutVerb::Approve | RolloutVerb::Deny => rollout.status == AwaitingApproval,
        RolloutVerb::Pause { .. } => rollout.status != AwaitingApproval,
        RolloutVerb::Resume { .. } => rollout.status == Paused,
        RolloutVerb::Promote { full } => rollout.status == AwaitingPromotion || (*full && rollout.status == Running),
        RolloutVerb::Next => matches!(rollout.status, Running | AwaitingPromotion | RollingBack),
        RolloutVerb::Retry { .. } | RolloutVerb::Skip { .. } => rollout.status != AwaitingApproval,
        RolloutVerb::Stop => true,
        RolloutVerb::Abort => rollout.going_back.is_none(),
    };
    if is_allowed {
        return Ok(());
    }
    Err(match (verb, rollout.status) {
        (RolloutVerb::Approve | RolloutVerb::Deny, _) => format!("it waits for no approval; `rollcall explain {id}`"),
        (RolloutVerb::Abort, _) => {
            format!("it is going back already; `rollcall rollout stop {id}` leaves nodes as they are")
        }
        (_, AwaitingApproval) => format!("`rollcall rollout approve {id}` or `deny` first"),
        (RolloutVerb::Promote { full: false }, Running) => {
            "no batch waits; `promote --full` lets all later ones begin".to_owned()
        }
        (_, Paused) => format!("`rollcall rollout resume {id}` first"),
        (RolloutVerb::Resume { .. }, _) => {
            format!("nothing pauses it; see `rollcall explain {id}` for what it waits on")
        }
        _ => format!("see `rollcall explain {id}`"),
    })
}

impl Transition<'_> {
    pub(super) fn steer(&mut self, id: RolloutId, verb: &RolloutVerb) -> Result<Reply, Rejection> {
        let rollout = self.state.rollouts.get(&id).ok_or(Rejection::UnknownRollout(id))?;
        self.expect_unchanged_since(rollout.modified_revision)?;
        let status = rollout.status;
        if !rollout.is_active() {
            return Err(Rejection::RolloutEnded { rollout: id, status });
        }
        allowed(verb, rollout).map_err(|instead| self.makes_no_sense(id, verb, instead))?;
        match verb {
            RolloutVerb::Approve => self.approve(id)?,
            RolloutVerb::Deny => self.end_rollout(id, RolloutStatus::Denied, self.said("denied")),
            RolloutVerb::Pause { until } => self.pause_by_request(id, *until)?,
            RolloutVerb::Resume { until } => self.resume(id, *until)?,
            RolloutVerb::Promote { full } => self.promote_batch(id, *full),
            RolloutVerb::Next => self.allow_next(id)?,
            RolloutVerb::Retry { node } => self.retry_steps(id, *node)?,
            RolloutVerb::Skip { node } => self.skip_by_request(id, *node)?,
            RolloutVerb::Stop => self.end_rollout(id, RolloutStatus::Stopped, self.said("stopped")),
            RolloutVerb::Abort if status == RolloutStatus::AwaitingApproval => {
                self.end_rollout(id, RolloutStatus::Denied, self.said("aborted"));
            }
            RolloutVerb::Abort => self.abort(id)?,
        }
        if let Some(rollout) = self.state.rollouts.get_mut(&id) {
            rollout.modified_revision = self.revision;
            let group = rollout.group.clone();
            self.touch(&group);
        }
        Ok(Reply::Done)
    }

    /// What was done, and why.
    fn said(&self, what: &str) -> String {
        self.reason.map_or_else(|| what.to_owned(), |reason| format!("{what}: {reason}"))
    }

    fn makes_no_sense(&self, id: RolloutId, verb: &RolloutVerb, instead: String) -> Rejection {
        let status = self.state.rollouts.get(&id).map_or(RolloutStatus::Stopped, |rollout| rollout.status);
        Rejection::NotInThisState { rollout: id, status, verb: verb.name().to_owned(), instead }
    }

    fn approve(&mut self, id: RolloutId) -> Result<(), Rejection> {
        let (now, actor) = (self.now, self.actor.clone());
        let Some(rollout) = self.state.rollouts.get_mut(&id) else { return Err(Rejection::UnknownRollout(id)) };
        if rollout.started_by == actor {
            return Err(Rejection::ApprovalBySamePerson { rollout: id, actor: actor.0 });
        }
        rollout.approved_by = Some(actor);
        rollout.status = rollout.unpaused();
        rollout.progress_at = now;
        let group = rollout.group.clone();
        self.emit(Event::RolloutApproved { rollout: id, group });
        Ok(())
    }

    fn pause_by_request(&mut self, id: RolloutId, until: Option<WallTime>) -> Result<(), Rejection> {
        self.expect_future("until", until)?;
        let key = AlarmKey::ResumeRollout(id);
        let is_paused = self.state.rollouts.get(&id).is_some_and(|it| it.pause_causes.contains(&PauseCause::Operator));
        if is_paused && self.state.alarms.get(&key) == until {
            return Err(Rejection::AlreadySo(format!("rollout {id} is paused")));
        }
        self.state.alarms.put(key, until);
        self.state.alarms.clear(&AlarmKey::PauseRollout(id));
        let said = PausedBy { by: self.actor.clone(), at: self.now, reason: self.reason.map(str::to_owned) };
        if let Some(rollout) = self.state.rollouts.get_mut(&id) {
            rollout.paused_by = Some(said);
        }
        self.pause_rollout(id, PauseCause::Operator);
        Ok(())
    }

    pub(super) fn expect_future(&self, field: &str, at: Option<WallTime>) -> Result<(), Rejection> {
        match at.filter(|at| *at <= self.now.wall_time) {
            Some(at) => {
                let (at, now) = (in_words(at), in_words(self.now.wall_time));
                let problem = format!("{at} is over; by the leader's clock it is {now}");
                Err(Rejection::InvalidTime { field: field.to_owned(), problem })
            }
            None => Ok(()),
        }
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

    fn resume(&mut self, id: RolloutId, until: Option<WallTime>) -> Result<(), Rejection> {
        self.expect_future("until", until)?;
        let Some(rollout) = self.state.rollouts.get(&id) else { return Err(Rejection::UnknownRollout(id)) };
        let holds = rollout
            .pause_causes
            .iter()
            .find_map(|cause| self.still_holds(rollout, *cause).map(|instead| (*cause, instead)));
        if let Some((cause, instead)) = holds {
            return Err(Rejection::CauseHolds { rollout: id, cause, instead });
        }
        self.state.alarms.put(AlarmKey::PauseRollout(id), until);
        self.go_on(id, |_| true);
        Ok(())
    }

    /// Whether what paused a rollout is still so, and what would help.
    fn still_holds(&self, rollout: &Rollout, cause: PauseCause) -> Option<String> {
        let id = rollout.id;
        match cause {
            PauseCause::Operator | PauseCause::ProgressDeadline => None,
            PauseCause::StepFailed | PauseCause::RollbackFailed => (rollout.tally.of(Phase::Failed) > 0)
                .then(|| format!("`rollcall rollout retry {id}` or `skip`, or start a rollout to another release")),
            PauseCause::MemberUnhealthy => {
                let bad = self.bad_members(id);
                let name = bad.first().map(|node| self.state.name_of(*node))?;
                Some(format!(
                    "mend {name}, or start a rollout to another release, or `rollcall node set-health {name} healthy`"
                ))
            }
            PauseCause::FailureRatio => {
                let all = rollout.steps.len() + rollout.unchanged.len();
                let ratio = self.policy_of(id).max_failure_ratio;
                ratio
                    .is_exceeded_by(self.count_bad(id), all)
                    .then(|| format!("`rollcall rollout retry {id}` or `skip`, or start a rollout to another release"))
            }
            PauseCause::NodeAway => {
                let first = crate::gate::Candidate::first(self.state, rollout).map(|first| first.node);
                let in_flight = rollout.in_flight.values().filter_map(|node| self.state.nodes.get(node));
                let name = &first.into_iter().chain(in_flight).find(|node| node.is_departed())?.name;
                Some(format!(
                    "bring {name} back, or `rollcall rollout skip {id} --node {name}`, or `rollcall node remove {name} --force`"
                ))
            }
        }
    }

    /// Takes the causes away for which `gone` is true; where none is left, the rollout goes on.
    pub(super) fn go_on(&mut self, id: RolloutId, gone: impl Fn(PauseCause) -> bool) {
        let (now, revision) = (self.now, self.revision);
        let Some(rollout) = self.state.rollouts.get_mut(&id) else { return };
        rollout.pause_causes.retain(|cause| !gone(*cause));
        if !rollout.pause_causes.contains(&PauseCause::Operator) {
            rollout.paused_by = None;
        }
        rollout.modified_revision = revision;
        let group = rollout.group.clone();
        self.touch(&group);
        let Some(rollout) = self.state.rollouts.get_mut(&id) else { return };
        if rollout.pause_causes.is_empty() && rollout.status == RolloutStatus::Paused {
            rollout.status = rollout.unpaused();
            rollout.progress_at = now;
            self.state.alarms.clear(&AlarmKey::ResumeRollout(id));
            self.emit(Event::RolloutResumed { rollout: id, group });
        }
    }

    /// Where an operator has dealt with what paused it, it goes on.
    pub(super) fn go_on_where_mended(&mut self, id: RolloutId) {
        let Some(rollout) = self.state.rollouts.get(&id) else { return };
        let mended: Vec<PauseCause> = rollout
            .pause_causes
            .iter()
            .copied()
            .filter(|cause| *cause != PauseCause::Operator && self.still_holds(rollout, *cause).is_none())
            .collect();
        self.go_on(id, |cause| mended.contains(&cause));
    }

    fn promote_batch(&mut self, id: RolloutId, full: bool) {
        let now = self.now;
        let Some(rollout) = self.state.rollouts.get_mut(&id) else { return };
        rollout.batch.awaits_promotion = false;
        rollout.batch.is_promoted_in_full |= full;
        rollout.status = rollout.unpaused();
        rollout.progress_at = now;
        let (group, batch) = (rollout.group.clone(), rollout.batch.number);
        self.emit(Event::BatchPromoted { rollout: id, group, batch });
    }

    /// A person's word for one step is also one for the batch that it begins.
    fn allow_next(&mut self, id: RolloutId) -> Result<(), Rejection> {
        let is_manual = self.policy_of(id).mode == Mode::Manual;
        let Some(rollout) = self.state.rollouts.get_mut(&id) else { return Err(Rejection::UnknownRollout(id)) };
        if !is_manual {
            return Err(Rejection::NotManual { group: rollout.group.clone() });
        }
        if rollout.permits > 0 {
            return Err(Rejection::AlreadySo(format!("rollout {id} may take its next step")));
        }
        rollout.permits = 1;
        let awaits_promotion = rollout.batch.awaits_promotion;
        let group = rollout.group.clone();
        self.emit(Event::NextAllowed { rollout: id, group });
        if awaits_promotion {
            self.promote_batch(id, false);
        }
        Ok(())
    }

    fn retry_steps(&mut self, id: RolloutId, node: Option<NodeId>) -> Result<(), Rejection> {
        let Some(rollout) = self.state.rollouts.get(&id) else { return Err(Rejection::UnknownRollout(id)) };
        if let Some(node) = node.filter(|node| !rollout.steps.contains_key(node)) {
            return Err(Rejection::NoSuchStep { node, rollout: id });
        }
        let failed: Vec<NodeId> =
            rollout.failed.keys().copied().filter(|failed| node.is_none_or(|node| node == *failed)).collect();
        if failed.is_empty() {
            let instead = "there is no failed step to try again; `resume` goes on".to_owned();
            return Err(self.makes_no_sense(id, &RolloutVerb::Retry { node }, instead));
        }
        for node in &failed {
            self.enter(id, *node, Phase::Queued);
        }
        self.go_on_where_mended(id);
        Ok(())
    }

    fn skip_by_request(&mut self, id: RolloutId, node: NodeId) -> Result<(), Rejection> {
        let rollout = self.state.rollouts.get(&id).ok_or(Rejection::UnknownRollout(id))?;
        let step = rollout.steps.get(&node).ok_or(Rejection::NoSuchStep { node, rollout: id })?;
        let (phase, name) = (step.phase, self.state.name_of(node));
        let is_away = self.state.nodes.get(&node).is_none_or(|node| node.session().is_none());
        match phase {
            Phase::Succeeded | Phase::Skipped => {
                return Err(Rejection::AlreadySo(format!("the step of {name} has {phase}")));
            }
            Phase::Draining if !is_away => {
                if step.turn == Some(Turn::Skip) {
                    return Err(Rejection::AlreadySo(format!("{name} is being left out")));
                }
                self.turn(id, node, Turn::Skip);
            }
            phase if phase.is_past_b() && !is_away => return Err(Rejection::StepNotSkippable { node: name, phase }),
            _ => self.skip_step(id, node, SkipCause::Operator),
        }
        self.go_on_where_mended(id);
        Ok(())
    }

    fn abort(&mut self, id: RolloutId) -> Result<(), Rejection> {
        let Some(rollout) = self.state.rollouts.get(&id) else { return Err(Rejection::UnknownRollout(id)) };
        let (target, has_failed) = (rollout.target.clone(), rollout.steps.values().any(|step| step.failure.is_some()));
        self.go_back(id, self.said("aborted"))?;
        self.go_on(id, |_| true);
        if has_failed {
            self.quarantine(&target, format!("a step of {id} failed, and it was aborted"));
        }
        Ok(())
    }
}
