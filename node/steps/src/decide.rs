//! What to do next.
//!
//! | the step is | no orders heard | go on | withdrawn | turn back |
//! | --- | --- | --- | --- | --- |
//! | at or before commit point B | wait | the next phase, as far as `go` lets it | end | end |
//! | stopping | finish it | finish it | finish it | finish it |
//! | stopped | install | install | end, old release up | end, old release up |
//! | installing, interrupted | settle it | settle it | end, old release up | end, old release up |
//! | installed | start | start | start; superseded: end | end, old release up |
//! | starting | start | start | start | start |
//! | verifying | sample | sample until `finish` | end | end |

use rollcall_ident::BootId;

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
    /// See that the current release runs, run `undrain` if it is owed, close the step.
    End(Ending),
}

/// The next thing to do for `step`.
#[must_use]
pub fn decide(step: &StepState, facts: &Facts, wanted: Wanted) -> Action {
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
        Status::Rebooting { from } if *from == facts.boot_id => Action::Reboot,
        Status::Rebooting { from } => Action::ComeBack { from: *from, asked_for: true },
        Status::Verifying => match wanted {
            Wanted::Step(Go::Finish) => Action::End(Ending::Finished),
            Wanted::Step(_) | Wanted::NotHeard => Action::Verify,
            Wanted::TurnBack => Action::End(Ending::TurnedBack),
            Wanted::Gone | Wanted::Superseded => Action::End(Ending::Withdrawn),
        },
    }
}

/// Before commit point B nothing begins without an order.
fn go_or_end(phase: Phase, wanted: Wanted) -> Action {
    match wanted {
        Wanted::NotHeard => Action::AwaitOrders,
        Wanted::Step(go) if go >= phase.needs() => Action::Run(phase),
        Wanted::Step(_) => Action::AwaitOrders,
        Wanted::TurnBack => Action::End(Ending::TurnedBack),
        Wanted::Gone | Wanted::Superseded => Action::End(Ending::Withdrawn),
    }
}

fn decide_at_boundary(ended: Phase, wanted: Wanted) -> Action {
    let next = ended.next().expect("no phase is recorded as ended after starting");
    match (next, wanted) {
        (Phase::Preparing | Phase::Draining | Phase::Stopping, wanted) => go_or_end(next, wanted),
        (_, Wanted::TurnBack) => Action::End(Ending::TurnedBack),
        (_, Wanted::Superseded) => Action::End(Ending::Withdrawn),
        (Phase::Installing, Wanted::Gone) => Action::End(Ending::Withdrawn),
        (_, Wanted::Gone | Wanted::NotHeard | Wanted::Step(_)) => Action::Run(next),
    }
}

/// The intent of `phase` is durable, its outcome isn't.
fn decide_interrupted(step: &StepState, phase: Phase, begun_in: BootId, facts: &Facts, wanted: Wanted) -> Action {
    let settle_or_run = |hook| match step.is_unclean(hook, facts.boot_id) {
        true => Action::Settle(hook),
        false => Action::Run(phase),
    };
    match phase {
        Phase::Preparing => go_or_end(phase, wanted),
        Phase::Draining => match go_or_end(phase, wanted) {
            Action::Run(_) => settle_or_run(Hook::Drain),
            other => other,
        },
        // Each of its parts looks at what is done already: hooks that were started, a process that is gone.
        Phase::Stopping => Action::Run(phase),
        Phase::Installing => match wanted {
            Wanted::TurnBack => Action::End(Ending::TurnedBack),
            Wanted::Gone | Wanted::Superseded => Action::End(Ending::Withdrawn),
            Wanted::NotHeard | Wanted::Step(_) if begun_in != facts.boot_id => {
                Action::ComeBack { from: begun_in, asked_for: false }
            }
            Wanted::NotHeard | Wanted::Step(_) if step.reboots > step.opened.max_reboots => {
                Action::Fail(phase, FailureReason::MaxReboots)
            }
            Wanted::NotHeard | Wanted::Step(_) => settle_or_run(Hook::Install),
        },
        Phase::Starting => settle_or_run(Hook::Init),
        Phase::Rebooting | Phase::Verifying => unreachable!("the journal never begins {phase:?}"),
    }
}
