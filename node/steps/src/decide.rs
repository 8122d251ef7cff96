//! What to do next.
//!
//! | the step is | no orders heard | go on | withdrawn | turn back |
//! | --- | --- | --- | --- | --- |
//! | at or before commit point B | wait | the next phase, as far as `go` lets it | end | end |
//! | stopping | finish it | finish it | finish it | finish it |
//! | stopped | install | install | end | end |
//! | installing, interrupted | settle it | settle it | let the hook end, end | let the hook end, end |
//! | rebooting | reboot | reboot | end | end |
//! | installed | start | start | end | end |
//! | starting, interrupted | start | start | let the hook end, end | start |
//! | verifying | sample | sample until `finish` | end | sample |
//!
//! After commit point B an end that was ordered and recorded holds, whatever is heard later, or nothing. Who was told to
//! turn back too late, when the new instance is about to come up, goes on: the log has the step's outcome then.
//!
//! Orders that let the step go further than the hook before a commit point has answered don't wait for it any more
//! (`ready_timeout_action`, `drain_timeout_action`): the phase is run once more, which ends what is left of the hook.

use rollcall_ident::BootId;

use crate::step::end_may_be_ordered;
use crate::{Ending, FailureReason, Go, Hook, Phase, Status, StepState};

/// What the orders say about the step that is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// No orders have arrived since the agent started.
    NotHeard,
    /// It may go so far.
    Step(Go),
    /// Undo what was begun.
    TurnBack,
    /// It isn't ordered any more, and nothing stands in its place.
    Gone,
    /// Another step (a higher fence, a later attempt) is ordered instead.
    Superseded,
}

/// What the journal can't know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// Of this boot.
    pub boot_id: BootId,
}

/// The next thing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// No step is open.
    Rest,
    /// At a commit point, or before: wait until the orders change.
    AwaitOrders,
    /// Write the intent and carry the phase out.
    Run(Phase),
    /// This hook may have been started, and nobody saw its end: wait for what is left of it, then apply its re-run
    /// policy, then go on with its phase.
    Settle(Hook),
    /// Have the machine rebooted, and wait to die.
    Reboot,
    /// Record that the machine is back from a reboot.
    ComeBack {
        /// The boot that ended.
        from: BootId,
        /// By the hook's exit code.
        asked_for: bool,
    },
    /// The phase has failed.
    Fail(Phase, FailureReason),
    /// Keep sampling; wait for the orders or a crash loop.
    Verify,
    /// The step ends by order, and this hook may still run: wait for what is left of it, and run nothing again.
    LetEnd(Hook),
    /// See to the service as [`ServicePlan`](crate::ServicePlan) says, run `undrain` if it is owed, close the step.
    End(Ending),
}

/// The next thing to do for `step`.
#[must_use]
pub fn decide(step: &StepState, facts: &Facts, wanted: Wanted) -> Action {
    let wanted = match step.end_ordered {
        None => wanted,
        Some(Ending::TurnedBack) => Wanted::TurnBack,
        Some(Ending::Withdrawn | Ending::Finished | Ending::Failed) => Wanted::Gone,
    };
    match &step.status {
        Status::Closed { .. } => Action::Rest,
        Status::Failed { .. } => Action::End(Ending::Failed),
        Status::Ending { .. } if step.owes_undrain() && step.is_unclean(Hook::Undrain, facts.boot_id) => {
            Action::Settle(Hook::Undrain)
        }
        Status::Ending { ending, .. } => Action::End(*ending),
        Status::Opened => go_or_end(Phase::Preparing, wanted),
        Status::Begun { phase, boot_id } => decide_interrupted(step, *phase, *boot_id, facts, wanted),
        Status::Ended { phase } => decide_at_boundary(*phase, wanted),
        Status::Rebooting { from } if *from != facts.boot_id => Action::ComeBack { from: *from, asked_for: true },
        Status::Rebooting { .. } => ending_of(wanted).map_or(Action::Reboot, Action::End),
        Status::Verifying => match wanted {
            Wanted::Step(Go::Finish) => Action::End(Ending::Finished),
            Wanted::Step(_) | Wanted::NotHeard | Wanted::TurnBack => Action::Verify,
            Wanted::Gone | Wanted::Superseded => Action::End(Ending::Withdrawn),
        },
    }
}

/// The end that `wanted` asks for after commit point B, for the journal: from the intent to stop on, until a new instance
/// is seen, it has to be recorded before anything else is done.
#[must_use]
pub fn end_to_record(step: &StepState, wanted: Wanted) -> Option<Ending> {
    let ending = ending_of(wanted)?;
    end_may_be_ordered(step, ending).then_some(ending)
}

fn ending_of(wanted: Wanted) -> Option<Ending> {
    match wanted {
        Wanted::NotHeard | Wanted::Step(_) => None,
        Wanted::TurnBack => Some(Ending::TurnedBack),
        Wanted::Gone | Wanted::Superseded => Some(Ending::Withdrawn),
    }
}

/// Before commit point B nothing begins without an order.
fn go_or_end(phase: Phase, wanted: Wanted) -> Action {
    match (ending_of(wanted), wanted) {
        (Some(ending), _) => Action::End(ending),
        (None, Wanted::Step(go)) if go >= phase.needs() => Action::Run(phase),
        (None, _) => Action::AwaitOrders,
    }
}

fn decide_at_boundary(ended: Phase, wanted: Wanted) -> Action {
    match ended.next().expect("no phase is recorded as ended after starting") {
        next @ (Phase::Preparing | Phase::Draining | Phase::Stopping) => go_or_end(next, wanted),
        next => ending_of(wanted).map_or(Action::Run(next), Action::End),
    }
}

/// The intent of `phase` is durable, its outcome isn't.
fn decide_interrupted(step: &StepState, phase: Phase, begun_in: BootId, facts: &Facts, wanted: Wanted) -> Action {
    let settle_or_run = |hook| match step.is_unclean(hook, facts.boot_id) {
        true => Action::Settle(hook),
        false => Action::Run(phase),
    };
    let end_after = |hook, ending| match step.may_still_run(hook, facts.boot_id) {
        true => Action::LetEnd(hook),
        false => Action::End(ending),
    };
    match phase {
        Phase::Preparing => go_or_end(phase, wanted),
        Phase::Draining => match go_or_end(phase, wanted) {
            Action::Run(_) if matches!(wanted, Wanted::Step(go) if go >= Phase::Stopping.needs()) => Action::Run(phase),
            Action::Run(_) => settle_or_run(Hook::Drain),
            Action::End(ending) => end_after(Hook::Drain, ending),
            other => other,
        },
        // Each of its parts looks at what is done already: hooks that were started, a process that is gone.
        Phase::Stopping => Action::Run(phase),
        Phase::Installing => match ending_of(wanted) {
            Some(ending) => end_after(Hook::Install, ending),
            None if begun_in != facts.boot_id => Action::ComeBack { from: begun_in, asked_for: false },
            None if step.reboots > step.opened.max_reboots => Action::Fail(phase, FailureReason::MaxReboots),
            None => settle_or_run(Hook::Install),
        },
        Phase::Starting => match ending_of(wanted) {
            Some(Ending::Withdrawn) => end_after(Hook::Init, Ending::Withdrawn),
            _ => settle_or_run(Hook::Init),
        },
        Phase::Rebooting | Phase::Verifying => unreachable!("the journal never begins {phase:?}"),
    }
}
