//! The state of one step, folded from its events.

use std::collections::BTreeSet;

use rollcall_ident::BootId;

use crate::{Ending, Event, Failure, Hook, Impossible, Milestone, Outcome, Phase, RunToken, Status, StepOpened};

/// A hook that was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HookMark {
    /// Which one.
    pub hook: Hook,
    /// Finds its process.
    pub token: RunToken,
    /// Its end was seen.
    pub ended: bool,
}

/// One step, folded from its events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepState {
    /// As it was ordered.
    pub opened: StepOpened,
    /// Where it stands.
    pub status: Status,
    /// Draining has begun: `undrain` is owed.
    pub drain_begun: bool,
    /// Stopping has begun: commit point B is passed.
    pub stop_begun: bool,
    /// The target's install has succeeded in this step.
    pub installed: bool,
    /// Starting has begun: the target is the current release.
    pub switched: bool,
    /// A new instance was seen.
    pub started: bool,
    /// The old instance's end was observed; true: it had to be killed.
    pub old_gone: Option<bool>,
    /// `undrain` has ended, or nobody will know how: it isn't run again.
    pub undrain_ended: bool,
    /// After commit point B the orders have asked for this end.
    pub end_ordered: Option<Ending>,
    /// The last hook that was started in the phase that stands.
    pub hook: Option<HookMark>,
    /// Every hook started in the phase that stands.
    pub hooks_started: BTreeSet<Hook>,
    /// Reboots of this step.
    pub reboots: u32,
    /// What there is to report, in order.
    pub milestones: Vec<Milestone>,
    /// How many of them were answered.
    pub reported: u32,
}

impl StepState {
    /// A step that was just opened.
    #[must_use]
    pub fn open(opened: StepOpened) -> Self {
        let reboots = opened.reboots;
        Self {
            opened,
            status: Status::Opened,
            drain_begun: false,
            stop_begun: false,
            installed: false,
            switched: false,
            started: false,
            old_gone: None,
            undrain_ended: false,
            end_ordered: None,
            hook: None,
            hooks_started: BTreeSet::new(),
            reboots,
            milestones: vec![Milestone::Accepted],
            reported: 0,
        }
    }

    /// Whether the step is over.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        matches!(self.status, Status::Closed { .. })
    }

    /// The phase that the step is in, as hooks and people see it.
    #[must_use]
    pub fn phase(&self) -> Phase {
        match &self.status {
            Status::Opened => Phase::Preparing,
            Status::Begun { phase, .. } | Status::Ended { phase } | Status::Failed { phase } => *phase,
            Status::Rebooting { .. } => Phase::Rebooting,
            Status::Verifying => Phase::Verifying,
            Status::Ending { .. } | Status::Closed { .. } if self.started => Phase::Verifying,
            Status::Ending { .. } | Status::Closed { .. } => Phase::Draining,
        }
    }

    /// Whether `hook` may have been started in the phase that stands, and nobody saw its end. Within the boot that wrote
    /// the intent, the absence of a mark proves that it was not; the mark itself isn't synced (but for those of `pre-stop` and
    /// `post-stop`, which aren't asked about here), so in another boot its absence proves nothing.
    #[must_use]
    pub fn is_unclean(&self, hook: Hook, boot_id: BootId) -> bool {
        let (Status::Begun { boot_id: begun_in, .. } | Status::Ending { boot_id: begun_in, .. }) = &self.status else {
            return false;
        };
        *begun_in != boot_id || self.hook.is_some_and(|mark| mark.hook == hook && !mark.ended)
    }

    /// Whether a process of `hook` that an earlier life of the agent has started may still run.
    #[must_use]
    pub fn may_still_run(&self, hook: Hook, boot_id: BootId) -> bool {
        matches!(self.status, Status::Begun { boot_id: begun_in, .. } if begun_in == boot_id)
            && self.hook.is_some_and(|mark| mark.hook == hook && !mark.ended)
    }

    /// Whether the step, ended by order between the old instance's stop and the first sight of a new one, leaves the
    /// service as it is: what runs is kept running, nothing is started.
    #[must_use]
    pub fn leaves_service_as_is(&self) -> bool {
        self.end_ordered.is_some() && !self.started
    }

    /// Whether `undrain` has to run before the step is closed. A step that lost its grant after commit point B starts
    /// nothing any more, not even that.
    #[must_use]
    pub fn owes_undrain(&self) -> bool {
        let has_lost_its_grant = self.end_ordered == Some(Ending::Withdrawn) && !self.started;
        self.drain_begun && !self.undrain_ended && !has_lost_its_grant
    }

    /// Whether the log, which has the step in this phase, was told of more than this journal knows: it has lost what was
    /// synced, or is an older copy. Up to commit point B the log may be ahead by force.
    #[must_use]
    pub fn is_behind(&self, logged: Phase) -> bool {
        let has = |is_it: fn(&Milestone) -> bool| self.milestones.iter().any(is_it);
        match logged {
            Phase::Preparing | Phase::Draining | Phase::Stopping => false,
            Phase::Installing | Phase::Rebooting => !has(|it| matches!(it, Milestone::Stopped { .. })),
            Phase::Starting => !has(|it| matches!(it, Milestone::Installed { .. })),
            Phase::Verifying => !has(|it| matches!(it, Milestone::Started(_))),
        }
    }

    /// What records that the step fails where it stands; nothing where it is about to end anyway. `failure` is of the agent,
    /// not of what ran.
    #[must_use]
    pub fn failed_where_it_stands(&self, failure: Failure, boot_id: BootId) -> Vec<Event> {
        let failed = |phase| Event::PhaseEnded { phase, outcome: Outcome::Failed(failure.clone()) };
        let begun = |phase| vec![Event::PhaseBegun { phase, boot_id }, failed(phase)];
        match &self.status {
            _ if self.end_ordered.is_some() => Vec::new(),
            Status::Opened => begun(Phase::Preparing),
            Status::Begun { phase, .. } => vec![failed(*phase)],
            Status::Ended { phase } => phase.next().map(begun).unwrap_or_default(),
            Status::Rebooting { .. } => vec![failed(Phase::Rebooting)],
            Status::Verifying => vec![failed(Phase::Verifying)],
            Status::Failed { .. } | Status::Ending { .. } | Status::Closed { .. } => Vec::new(),
        }
    }

    /// The milestones that weren't answered yet, with their numbers.
    pub fn unreported(&self) -> impl Iterator<Item = (u32, &Milestone)> {
        (0u32..).zip(&self.milestones).skip(self.reported as usize)
    }

    /// Folds one event into the state.
    ///
    /// # Errors
    /// [`Impossible`]: nothing is changed then.
    pub fn apply(&mut self, event: &Event) -> Result<(), Impossible> {
        let next = next_status(self, event)
            .ok_or_else(|| Impossible { status: Some(self.status.clone()), event: format!("{event:?}") })?;
        self.note(event);
        self.status = next;
        Ok(())
    }

    /// What an allowed event changes beside the status. Called while the old status still stands.
    fn note(&mut self, event: &Event) {
        match event {
            Event::PhaseBegun { phase, .. } => self.note_phase(*phase),
            Event::HookStarted { hook, token } => {
                self.hook = Some(HookMark { hook: *hook, token: *token, ended: false });
                self.hooks_started.insert(*hook);
            }
            Event::HookEnded { hook } => {
                self.undrain_ended |= *hook == Hook::Undrain;
                if let Some(mark) = &mut self.hook {
                    mark.ended = true;
                }
            }
            Event::PhaseEnded { phase, outcome } => {
                self.undrain_ended |= matches!(self.status, Status::Ending { .. });
                self.note_outcome(*phase, outcome);
            }
            Event::OldInstanceGone { killed } => self.old_gone = Some(*killed),
            Event::RebootAsked { boot_id } => {
                self.milestones.push(Milestone::RebootBegun { boot_id: *boot_id, asked_for: true });
            }
            Event::Rebooted { from, asked_for, .. } => {
                self.reboots = self.reboots.saturating_add(1);
                if *asked_for {
                    self.note_outcome(Phase::Installing, &Outcome::Done { hook_ran: true });
                } else {
                    // CRASH: the mark of a hook isn't synced, so after a power cut its absence proves nothing.
                    self.hook.get_or_insert(HookMark { hook: Hook::Install, token: RunToken::default(), ended: false });
                    self.milestones.push(Milestone::RebootBegun { boot_id: *from, asked_for: false });
                }
            }
            Event::NewInstance(instance) => {
                self.started = true;
                self.milestones.push(Milestone::Started(instance.clone()));
            }
            Event::EndOrdered { ending } => self.end_ordered = Some(*ending),
            Event::EndBegun { ending, .. } => {
                self.note_new_phase();
                if self.stop_begun && !self.started && is_by_order(*ending) {
                    self.end_ordered = Some(*ending);
                }
            }
            Event::StepClosed { ending, timings } => match ending {
                Ending::Finished => self.milestones.push(Milestone::Finished(*timings)),
                Ending::TurnedBack => self.milestones.push(Milestone::TurnedBack),
                Ending::Withdrawn | Ending::Failed => {}
            },
            Event::Reported { count } => self.reported = self.reported.max(*count),
            Event::Baseline(_) | Event::StepOpened(_) | Event::ReleaseRemoved { .. } | Event::LeftDown => {}
        }
    }

    fn note_phase(&mut self, phase: Phase) {
        let is_again = matches!(&self.status, Status::Begun { phase: begun, .. } if *begun == phase);
        if !is_again {
            self.note_new_phase();
        }
        self.drain_begun |= phase == Phase::Draining;
        self.stop_begun |= phase == Phase::Stopping;
        self.switched |= phase == Phase::Starting;
    }

    fn note_new_phase(&mut self) {
        if !matches!(self.status, Status::Ending { .. }) {
            self.hook = None;
            self.hooks_started.clear();
        }
    }

    fn note_outcome(&mut self, phase: Phase, outcome: &Outcome) {
        match (phase, outcome) {
            (phase, Outcome::Failed(failure)) => {
                self.milestones.push(Milestone::Failed { phase, failure: failure.clone() });
            }
            (Phase::Preparing, Outcome::Done { .. } | Outcome::Forced) => self.milestones.push(Milestone::Prepared),
            (Phase::Draining, Outcome::Done { .. } | Outcome::Forced) => self.milestones.push(Milestone::Drained),
            (Phase::Stopping, Outcome::Done { .. }) => {
                self.milestones.push(Milestone::Stopped { killed: self.old_gone.unwrap_or(false) });
            }
            (Phase::Installing, Outcome::Done { hook_ran }) => {
                self.installed = true;
                self.milestones.push(Milestone::Installed { hook_ran: *hook_ran });
            }
            (Phase::Rebooting | Phase::Starting | Phase::Verifying, Outcome::Done { .. }) => {}
            // `next_status` allows it nowhere else.
            (_, Outcome::Forced) => {}
        }
    }
}

/// Where `event` leads from where `step` stands; none: it can't have happened.
fn next_status(step: &StepState, event: &Event) -> Option<Status> {
    let status = &step.status;
    match (status, event) {
        (_, Event::Reported { count }) if *count as usize <= step.milestones.len() => Some(status.clone()),
        (_, Event::ReleaseRemoved { release }) if *release != step.opened.to || step.is_closed() => {
            Some(status.clone())
        }
        (_, Event::PhaseBegun { phase, boot_id }) => {
            phase_may_begin(step, *phase).then_some(Status::Begun { phase: *phase, boot_id: *boot_id })
        }
        (_, Event::EndOrdered { ending }) => end_may_be_ordered(step, *ending).then_some(status.clone()),
        (_, Event::EndBegun { ending, boot_id }) => {
            end_may_begin(step, *ending).then_some(Status::Ending { ending: *ending, boot_id: *boot_id })
        }
        (Status::Begun { .. }, event) => next_from_begun(step, event),
        (Status::Rebooting { from }, Event::Rebooted { from: ended, to, asked_for: true }) => {
            (from == ended && from != to).then_some(Status::Ended { phase: Phase::Installing })
        }
        (Status::Rebooting { .. }, Event::PhaseEnded { phase: Phase::Rebooting, outcome: Outcome::Failed(_) }) => {
            Some(Status::Failed { phase: Phase::Rebooting })
        }
        (Status::Verifying, Event::NewInstance(instance)) if instance.release == step.opened.to => {
            Some(Status::Verifying)
        }
        (
            Status::Verifying | Status::Ending { ending: Ending::Finished, .. },
            Event::PhaseEnded { phase: Phase::Verifying, outcome: Outcome::Failed(_) },
        ) => Some(Status::Failed { phase: Phase::Verifying }),
        // Its end may be recorded without its start: that mark is lost in a power cut.
        (
            Status::Ending { .. },
            Event::HookStarted { hook: Hook::Undrain, .. } | Event::HookEnded { hook: Hook::Undrain },
        ) => Some(status.clone()),
        (Status::Ending { ending, .. }, Event::StepClosed { ending: closed, .. }) if ending == closed => {
            Some(Status::Closed { ending: *ending })
        }
        _ => None,
    }
}

/// Phases begin in their order, and again where they stand; installing is over for good once its outcome is durable. Once
/// the end is ordered only the stop may still begin again: it has to be seen through.
fn phase_may_begin(step: &StepState, phase: Phase) -> bool {
    if step.end_ordered.is_some() && phase != Phase::Stopping {
        return false;
    }
    match &step.status {
        Status::Opened => phase == Phase::Preparing,
        Status::Begun { phase: begun, .. } => phase == *begun,
        Status::Ended { phase: ended } => ended.next() == Some(phase),
        Status::Rebooting { .. }
        | Status::Verifying
        | Status::Failed { .. }
        | Status::Ending { .. }
        | Status::Closed { .. } => false,
    }
}

/// An end is ordered once, while something of the step is still to come. The start of the new instance isn't turned back
/// any more: only who loses the grant stops there.
pub(crate) fn end_may_be_ordered(step: &StepState, ending: Ending) -> bool {
    let may_turn_back = match &step.status {
        Status::Begun { phase, .. } | Status::Ended { phase } => {
            matches!(phase, Phase::Stopping | Phase::Installing)
        }
        Status::Rebooting { .. } => true,
        Status::Opened | Status::Verifying | Status::Failed { .. } | Status::Ending { .. } | Status::Closed { .. } => {
            false
        }
    };
    let is_starting = matches!(step.status, Status::Begun { phase: Phase::Starting, .. });
    let is_allowed = match ending {
        Ending::TurnedBack => may_turn_back,
        Ending::Withdrawn => may_turn_back || is_starting,
        Ending::Finished | Ending::Failed => false,
    };
    is_allowed && step.end_ordered.is_none()
}

/// A failed step ends as failed; only a verified one can end as finished; an end, once begun, keeps its kind.
fn end_may_begin(step: &StepState, ending: Ending) -> bool {
    match &step.status {
        Status::Failed { .. } => ending == Ending::Failed,
        Status::Ending { ending: begun, .. } => ending == *begun,
        Status::Verifying => ending != Ending::Failed,
        Status::Opened | Status::Begun { .. } | Status::Ended { .. } => {
            is_by_order(ending) && step.end_ordered.is_none_or(|ordered| ordered == ending)
        }
        Status::Rebooting { .. } => is_by_order(ending) && step.end_ordered == Some(ending),
        Status::Closed { .. } => false,
    }
}

fn is_by_order(ending: Ending) -> bool {
    matches!(ending, Ending::TurnedBack | Ending::Withdrawn)
}

fn next_from_begun(step: &StepState, event: &Event) -> Option<Status> {
    let Status::Begun { phase, boot_id } = &step.status else { return None };
    let same = Some(step.status.clone());
    match event {
        Event::HookStarted { hook, .. } => (hook_phase(*hook) == Some(*phase)).then_some(step.status.clone()),
        Event::HookEnded { hook } if step.hook.is_some_and(|mark| mark.hook == *hook) => same,
        Event::OldInstanceGone { .. } if *phase == Phase::Stopping => same,
        Event::PhaseEnded { phase: ended, outcome } if ended == phase => match outcome {
            // Starting ends with a NewInstance.
            Outcome::Done { .. } if *phase == Phase::Starting => None,
            Outcome::Done { .. } if *phase == Phase::Stopping && step.old_gone.is_none() => None,
            Outcome::Forced if !matches!(phase, Phase::Preparing | Phase::Draining) => None,
            Outcome::Done { .. } | Outcome::Forced => Some(Status::Ended { phase: *phase }),
            Outcome::Failed(_) => Some(Status::Failed { phase: *phase }),
        },
        Event::RebootAsked { boot_id } if *phase == Phase::Installing => Some(Status::Rebooting { from: *boot_id }),
        Event::Rebooted { from, to, asked_for: false } if *phase == Phase::Installing => {
            (from == boot_id && from != to).then_some(Status::Begun { phase: *phase, boot_id: *to })
        }
        Event::NewInstance(instance) if *phase == Phase::Starting && instance.release == step.opened.to => {
            Some(Status::Verifying)
        }
        _ => None,
    }
}

/// The phase in which a journalled hook runs.
fn hook_phase(hook: Hook) -> Option<Phase> {
    match hook {
        Hook::ReadyToUpdate => Some(Phase::Preparing),
        Hook::Drain => Some(Phase::Draining),
        Hook::PreStop | Hook::PostStop => Some(Phase::Stopping),
        Hook::Install => Some(Phase::Installing),
        Hook::Init => Some(Phase::Starting),
        Hook::Undrain
        | Hook::Run
        | Hook::PostRun
        | Hook::HealthCheck
        | Hook::Suitability
        | Hook::Probe
        | Hook::Uninstall => None,
    }
}
