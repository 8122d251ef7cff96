//! The state of one step, folded from its events.
//!
//! ```text
//! opened ─ begun(preparing) ─ ended ─ begun(draining) ─ ended ─ begun(stopping) ─ ended ─ begun(installing) ─ ended ─┐
//!    │                                                                  rebooting ⇄ ┘                                │
//!    │            ┌────────── any begun phase may fail ──────────┐                  begun(starting) ─ verifying ◄────┘
//!    └─ ending ◄──┴─ failed ◄────────────────────────────────────┘                                       │
//!         └─ closed            ending also follows any boundary, by order                    ending ◄────┘
//! ```
//!
//! [`TRANSITIONS`] is that picture as data; `tests/tables.rs` holds it against [`StepState::apply`].

use std::collections::BTreeSet;

use rollcall_ident::BootId;

use crate::{Ending, Event, Hook, Milestone, Outcome, Phase, RunToken, StepOpened};

/// Where the step stands in its journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    /// Accepted; no phase has begun.
    Opened,
    /// The intent of a phase is durable.
    Begun {
        /// Which one.
        phase: Phase,
        /// The boot in which it (last) began.
        boot_id: BootId,
    },
    /// A phase is done, and that is durable.
    Ended {
        /// Which one.
        phase: Phase,
    },
    /// The install hook asked for a reboot.
    Rebooting {
        /// The boot that is to end.
        from: BootId,
    },
    /// A process of the target runs.
    Verifying,
    /// A phase failed, and that is durable.
    Failed {
        /// Which one.
        phase: Phase,
    },
    /// `undrain` is due or runs; then the step is closed.
    Ending {
        /// How it will have ended.
        ending: Ending,
        /// The boot in which that (last) began.
        boot_id: BootId,
    },
    /// Over.
    Closed {
        /// How it ended.
        ending: Ending,
    },
}

/// A status without its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum StatusKind {
    Opened,
    Begun,
    Ended,
    Rebooting,
    Verifying,
    Failed,
    Ending,
    Closed,
}

/// Every allowed move: in this status, this event (by name), leads there. What isn't listed can't have happened.
pub const TRANSITIONS: &[(StatusKind, &str, StatusKind)] = {
    use StatusKind::{Begun, Closed, Ended, Ending, Failed, Opened, Rebooting, Verifying};
    &[
        (Opened, "PhaseBegun", Begun),
        (Opened, "EndBegun", Ending),
        // Again after a crash, in the boot that is now.
        (Begun, "PhaseBegun", Begun),
        (Begun, "HookStarted", Begun),
        (Begun, "HookEnded", Begun),
        (Begun, "OldInstanceGone", Begun),
        (Begun, "PhaseEnded done", Ended),
        (Begun, "PhaseEnded failed", Failed),
        (Begun, "RebootAsked", Rebooting),
        (Begun, "Rebooted", Begun),
        (Begun, "NewInstance", Verifying),
        (Begun, "EndBegun", Ending),
        (Ended, "PhaseBegun", Begun),
        (Ended, "EndBegun", Ending),
        (Rebooting, "Rebooted", Ended),
        (Rebooting, "PhaseEnded failed", Failed),
        // The service was restarted while it was being verified.
        (Verifying, "NewInstance", Verifying),
        (Verifying, "PhaseEnded failed", Failed),
        (Verifying, "EndBegun", Ending),
        (Failed, "EndBegun", Ending),
        (Ending, "EndBegun", Ending),
        (Ending, "HookStarted", Ending),
        (Ending, "HookEnded", Ending),
        // `undrain` failed: the step hasn't succeeded.
        (Ending, "PhaseEnded failed", Failed),
        (Ending, "StepClosed", Closed),
    ]
};

impl Status {
    /// Without its data.
    #[must_use]
    pub fn kind(&self) -> StatusKind {
        match self {
            Self::Opened => StatusKind::Opened,
            Self::Begun { .. } => StatusKind::Begun,
            Self::Ended { .. } => StatusKind::Ended,
            Self::Rebooting { .. } => StatusKind::Rebooting,
            Self::Verifying => StatusKind::Verifying,
            Self::Failed { .. } => StatusKind::Failed,
            Self::Ending { .. } => StatusKind::Ending,
            Self::Closed { .. } => StatusKind::Closed,
        }
    }
}

/// An event that can't have followed: the journal is not one of ours, or the agent has a bug.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the journal says {event} while the step was {status:?}: that can't have happened")]
pub struct Impossible {
    /// The status before it.
    pub status: Option<Status>,
    /// The event.
    pub event: String,
}

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

    /// Whether `undrain` has to run before the step is closed.
    #[must_use]
    pub fn owes_undrain(&self) -> bool {
        self.drain_begun && !self.undrain_ended
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
            Event::EndBegun { .. } => self.note_new_phase(),
            Event::StepClosed { ending, timings } => match ending {
                Ending::Finished => self.milestones.push(Milestone::Finished(*timings)),
                Ending::TurnedBack => self.milestones.push(Milestone::TurnedBack),
                Ending::Withdrawn | Ending::Failed => {}
            },
            Event::Reported { count } => self.reported = self.reported.max(*count),
            Event::Baseline(_) | Event::StepOpened(_) | Event::ReleaseRemoved { .. } => {}
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
            (Phase::Preparing, Outcome::Done { .. }) => self.milestones.push(Milestone::Prepared),
            (Phase::Draining, Outcome::Done { .. }) => self.milestones.push(Milestone::Drained),
            (Phase::Stopping, Outcome::Done { .. }) => {
                self.milestones.push(Milestone::Stopped { killed: self.old_gone.unwrap_or(false) });
            }
            (Phase::Installing, Outcome::Done { hook_ran }) => {
                self.installed = true;
                self.milestones.push(Milestone::Installed { hook_ran: *hook_ran });
            }
            (Phase::Rebooting | Phase::Starting | Phase::Verifying, Outcome::Done { .. }) => {}
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
            phase_may_begin(status, *phase).then_some(Status::Begun { phase: *phase, boot_id: *boot_id })
        }
        (
            Status::Opened
            | Status::Begun { .. }
            | Status::Ended { .. }
            | Status::Verifying
            | Status::Failed { .. }
            | Status::Ending { .. },
            Event::EndBegun { ending, boot_id },
        ) => end_may_begin(status, *ending).then_some(Status::Ending { ending: *ending, boot_id: *boot_id }),
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

/// Phases begin in their order, and again where they stand; installing is over for good once its outcome is durable.
fn phase_may_begin(status: &Status, phase: Phase) -> bool {
    match status {
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

/// A failed step ends as failed; only a verified one can end as finished; an end, once begun, keeps its kind.
fn end_may_begin(status: &Status, ending: Ending) -> bool {
    match status {
        Status::Failed { .. } => ending == Ending::Failed,
        Status::Ending { ending: begun, .. } => ending == *begun,
        Status::Verifying => ending != Ending::Failed,
        Status::Opened | Status::Begun { .. } | Status::Ended { .. } => {
            matches!(ending, Ending::TurnedBack | Ending::Withdrawn)
        }
        Status::Rebooting { .. } | Status::Closed { .. } => false,
    }
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
            Outcome::Done { .. } => Some(Status::Ended { phase: *phase }),
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
