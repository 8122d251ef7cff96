//! Tables and code say the same: every pair of status and event is either in the table or refused.

#![allow(clippy::unwrap_used)]

use rollcall_ident::{BootId, Fence, RolloutId};
use rollcall_steps::{
    Ending, Event, Failure, FailureReason, Hook, HookMark, Instance, Outcome, Phase, Reason, RunToken, Status,
    StatusKind, StepOpened, StepState, TRANSITIONS, Timings,
};

const OLD: BootId = BootId([1; 16]);
const NEW: BootId = BootId([2; 16]);

fn opened() -> StepOpened {
    StepOpened {
        fence: Fence(7),
        attempt: 1,
        rollout: RolloutId(3),
        from: Some("acme/app/1.0/20260101000000".parse().unwrap()),
        to: "acme/app/2.0/20260102000000".parse().unwrap(),
        digest: None,
        reason: Reason::Update,
        max_reboots: 3,
        reboots: 0,
    }
}

fn statuses() -> Vec<Status> {
    let mut statuses = vec![Status::Opened, Status::Rebooting { from: OLD }, Status::Verifying];
    for phase in [Phase::Preparing, Phase::Draining, Phase::Stopping, Phase::Installing, Phase::Starting] {
        statuses.push(Status::Begun { phase, boot_id: OLD });
        statuses.push(Status::Failed { phase });
        if phase != Phase::Starting {
            statuses.push(Status::Ended { phase });
        }
    }
    for ending in [Ending::Finished, Ending::TurnedBack, Ending::Withdrawn, Ending::Failed] {
        statuses.push(Status::Ending { ending, boot_id: OLD });
        statuses.push(Status::Closed { ending });
    }
    statuses
}

fn events() -> Vec<(&'static str, Event)> {
    let failure = Failure { reason: FailureReason::HookFailed, detail: String::new(), output: String::new() };
    let token = RunToken([1; 16]);
    let instance = Instance { pid: 42, start_time: 1, boot_id: OLD, release: opened().to };
    let mut events = vec![
        ("OldInstanceGone", Event::OldInstanceGone { killed: false }),
        ("RebootAsked", Event::RebootAsked { boot_id: OLD }),
        ("Rebooted", Event::Rebooted { from: OLD, to: NEW, asked_for: true }),
        ("Rebooted", Event::Rebooted { from: OLD, to: NEW, asked_for: false }),
        ("NewInstance", Event::NewInstance(instance)),
    ];
    for phase in Phase::ALL {
        events.push(("PhaseBegun", Event::PhaseBegun { phase, boot_id: NEW }));
        events.push(("PhaseEnded done", Event::PhaseEnded { phase, outcome: Outcome::Done { hook_ran: true } }));
        events.push(("PhaseEnded forced", Event::PhaseEnded { phase, outcome: Outcome::Forced }));
        events.push(("PhaseEnded failed", Event::PhaseEnded { phase, outcome: Outcome::Failed(failure.clone()) }));
    }
    for hook in Hook::ALL {
        events.push(("HookStarted", Event::HookStarted { hook, token }));
        events.push(("HookEnded", Event::HookEnded { hook }));
    }
    for ending in [Ending::Finished, Ending::TurnedBack, Ending::Withdrawn, Ending::Failed] {
        events.push(("EndOrdered", Event::EndOrdered { ending }));
        events.push(("EndBegun", Event::EndBegun { ending, boot_id: NEW }));
        events.push(("StepClosed", Event::StepClosed { ending, timings: Timings::default() }));
    }
    events
}

/// What the code allows, by kind, over every status and event, with every history that could matter.
fn allowed() -> Vec<(StatusKind, &'static str, StatusKind)> {
    let mut moves = Vec::new();
    for status in statuses() {
        for (name, event) in events() {
            let hooks = [None, Some(Hook::Drain), Some(Hook::Undrain)];
            let ends = [None, Some(Ending::TurnedBack)];
            for (hook, end_ordered) in hooks.into_iter().flat_map(|hook| ends.map(|end| (hook, end))) {
                let mut step = StepState::open(opened());
                step.status = status.clone();
                step.end_ordered = end_ordered;
                step.old_gone = Some(false);
                step.hook = hook.map(|hook| HookMark { hook, token: RunToken::default(), ended: false });
                let from = step.status.kind();
                if step.apply(&event).is_ok() {
                    moves.push((from, name, step.status.kind()));
                }
            }
        }
    }
    moves.sort_unstable();
    moves.dedup();
    moves
}

#[test]
fn the_transition_table_is_what_apply_does() {
    let mut table = TRANSITIONS.to_vec();
    table.sort_unstable();
    assert_eq!(allowed(), table);
}

#[test]
fn an_impossible_event_changes_nothing() {
    for status in statuses() {
        for (_, event) in events() {
            let mut step = StepState::open(opened());
            step.status = status.clone();
            let before = step.clone();
            if step.apply(&event).is_err() {
                assert_eq!(step, before, "{event:?}");
            }
        }
    }
}
