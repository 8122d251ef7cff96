//! What the agent does when it starts and finds a journal: for every phase and every point in it, after every kind of
//! crash. [`TABLE`] is the promise; a test holds it against [`recover`], and `docs/hooks.md` prints it.

use crate::{Action, Ending, Event, Facts, Impossible, Phase, ServiceState, Status, Wanted, decide};

/// What to do with the service's process while the step goes on, or waits, or rests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServicePlan {
    /// It should be up: re-adopt it where it runs, else start the current release.
    KeepUp,
    /// The step is about to stop it, or has: re-adopt it where it runs, start nothing.
    LeaveAsIs,
    /// The step is about to start it: re-adopt what the step started, start nothing else.
    AwaitStart,
    /// A step was ended by order after the stop: what runs is kept running, but nothing is started until a step does.
    KeepIfUp,
}

/// What a journal says at the agent's start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovery {
    /// The service, folded.
    pub state: ServiceState,
    /// The next thing to do, before any orders were heard.
    pub action: Action,
    /// And what to do with the process meanwhile.
    pub plan: ServicePlan,
}

/// Folds a journal and says what to do next, before any orders were heard.
///
/// # Errors
/// [`Impossible`]: the journal tells of something that can't have happened.
pub fn recover(events: &[Event], facts: &Facts) -> Result<Recovery, Impossible> {
    let state = ServiceState::from_events(events)?;
    let action = state.open_step().map_or(Action::Rest, |step| decide(step, facts, Wanted::NotHeard));
    let plan = ServicePlan::of(&state);
    Ok(Recovery { state, action, plan })
}

impl ServicePlan {
    /// What is wanted of the process, as the journal stands.
    #[must_use]
    pub fn of(state: &ServiceState) -> Self {
        let undisturbed = if state.is_left_down { Self::KeepIfUp } else { Self::KeepUp };
        let Some(step) = state.open_step() else { return undisturbed };
        match &step.status {
            Status::Begun { phase, .. } | Status::Ended { phase } => match phase {
                Phase::Preparing | Phase::Draining => undisturbed,
                Phase::Stopping | Phase::Installing | Phase::Rebooting | Phase::Verifying => Self::LeaveAsIs,
                Phase::Starting => Self::AwaitStart,
            },
            Status::Rebooting { .. } => Self::LeaveAsIs,
            Status::Ending { .. } | Status::Failed { .. } if step.leaves_service_as_is() => Self::KeepIfUp,
            // After commit point B it needs nobody's leave to bring the service back up, nor after any failure.
            Status::Ending { .. } if step.stop_begun => Self::KeepUp,
            Status::Failed { .. } | Status::Ending { ending: Ending::Failed, .. } | Status::Verifying => Self::KeepUp,
            Status::Opened | Status::Ending { .. } | Status::Closed { .. } => undisturbed,
        }
    }
}

/// A point in a phase at which something can die.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrashPoint {
    /// The intent is durable, no hook was started.
    IntentDurable,
    /// A hook runs.
    HookRunning,
    /// The outcome is durable.
    OutcomeDurable,
    /// It was reported and answered.
    Reported,
}

impl CrashPoint {
    /// In the order in which a phase goes through them.
    pub const ALL: [Self; 4] = [Self::IntentDurable, Self::HookRunning, Self::OutcomeDurable, Self::Reported];

    /// For people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::IntentDurable => "intent durable",
            Self::HookRunning => "hook running",
            Self::OutcomeDurable => "outcome durable",
            Self::Reported => "reported",
        }
    }
}

/// What dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The agent alone; hooks and the service live on.
    AgentCrash,
    /// Agent, hooks and service; the machine lives on.
    Both,
    /// The machine, with everything that wasn't synced; a reboot that nobody asked for is the same.
    PowerCut,
    /// The machine, as the install hook's exit code asked.
    AskedReboot,
}

impl Cause {
    /// In the order of the table's columns. A crash of the service alone needs no recovery: the supervisor sees its exit.
    pub const ALL: [Self; 4] = [Self::AgentCrash, Self::Both, Self::PowerCut, Self::AskedReboot];
}

/// Phase, point, and what happens next after an agent crash, a crash of both, a power cut, a reboot that was asked for.
/// "–": can't happen.
type Row = (Phase, CrashPoint, [&'static str; 4]);

const TABLE: &[Row] = {
    use CrashPoint::{HookRunning, IntentDurable, OutcomeDurable, Reported};
    use Phase::{Draining, Installing, Preparing, Rebooting, Starting, Stopping, Verifying};
    const NEVER: &str = "–";
    const PREPARE: &str = "service up; on orders: go on with preparing";
    const DRAIN: &str = "service up; on orders: go on with draining";
    const DRAIN_AGAIN: &str = "service up; on orders: settle `drain` by its policy";
    const STOP_NEXT: &str = "service up; on orders: go on with stopping";
    const STOP: &str = "go on with stopping";
    const INSTALL: &str = "go on with installing";
    const INSTALL_AGAIN: &str = "settle `install` by its policy";
    const REBOOTED: &str = "record the reboot, settle `install` by its policy, at most `max_reboots` times";
    const REBOOT: &str = "reboot again";
    const BACK: &str = "record the reboot, go on with starting";
    const START: &str = "go on with starting";
    const INIT_AGAIN: &str = "settle `init` by its policy";
    const VERIFY: &str = "service up; go on verifying";
    const END: &str = "service up; `undrain`, close";
    const UNDRAIN_AGAIN: &str = "service up; settle `undrain` by its policy";
    const REST: &str = "service up; rest";
    &[
        (Preparing, IntentDurable, [PREPARE, PREPARE, PREPARE, NEVER]),
        (Preparing, HookRunning, [PREPARE, PREPARE, PREPARE, NEVER]),
        (Preparing, OutcomeDurable, [DRAIN, DRAIN, DRAIN, NEVER]),
        (Preparing, Reported, [DRAIN, DRAIN, DRAIN, NEVER]),
        (Draining, IntentDurable, [DRAIN, DRAIN, DRAIN_AGAIN, NEVER]),
        (Draining, HookRunning, [DRAIN_AGAIN, DRAIN_AGAIN, DRAIN_AGAIN, NEVER]),
        (Draining, OutcomeDurable, [STOP_NEXT, STOP_NEXT, STOP_NEXT, NEVER]),
        (Draining, Reported, [STOP_NEXT, STOP_NEXT, STOP_NEXT, NEVER]),
        (Stopping, IntentDurable, [STOP, STOP, STOP, NEVER]),
        (Stopping, HookRunning, [STOP, STOP, STOP, NEVER]),
        (Stopping, OutcomeDurable, [INSTALL, INSTALL, INSTALL, NEVER]),
        (Stopping, Reported, [INSTALL, INSTALL, INSTALL, NEVER]),
        (Installing, IntentDurable, [INSTALL, INSTALL, REBOOTED, NEVER]),
        (Installing, HookRunning, [INSTALL_AGAIN, INSTALL_AGAIN, REBOOTED, NEVER]),
        (Installing, OutcomeDurable, [START, START, START, NEVER]),
        (Installing, Reported, [START, START, START, NEVER]),
        (Rebooting, OutcomeDurable, [REBOOT, REBOOT, BACK, BACK]),
        (Rebooting, Reported, [REBOOT, REBOOT, BACK, BACK]),
        (Starting, IntentDurable, [START, START, INIT_AGAIN, NEVER]),
        (Starting, HookRunning, [INIT_AGAIN, INIT_AGAIN, INIT_AGAIN, NEVER]),
        (Starting, OutcomeDurable, [VERIFY, VERIFY, VERIFY, NEVER]),
        (Starting, Reported, [VERIFY, VERIFY, VERIFY, NEVER]),
        // The intent of verifying is the end of the step: the soak is complete.
        (Verifying, IntentDurable, [END, END, UNDRAIN_AGAIN, NEVER]),
        (Verifying, HookRunning, [UNDRAIN_AGAIN, UNDRAIN_AGAIN, UNDRAIN_AGAIN, NEVER]),
        (Verifying, OutcomeDurable, [REST, REST, REST, NEVER]),
        (Verifying, Reported, [REST, REST, REST, NEVER]),
    ]
};

/// The same where an end was ordered, and recorded, at that point or earlier.
type OrderedRow = (Ending, Phase, CrashPoint, [&'static str; 4]);

const ORDERED_TABLE: &[OrderedRow] = {
    use CrashPoint::{HookRunning, IntentDurable, OutcomeDurable, Reported};
    use Ending::{TurnedBack, Withdrawn};
    use Phase::{Installing, Rebooting, Starting, Stopping};
    const NEVER: &str = "–";
    const STOP: &str = "go on with stopping";
    const TURN: &str = "start nothing; `undrain`, close";
    const TURN_AFTER: &str = "start nothing; let `install` end, `undrain`, close";
    const TURN_BACK: &str = "record the reboot; start nothing; `undrain`, close";
    const END: &str = "start nothing; close";
    const END_AFTER: &str = "start nothing; let `install` end, close";
    const END_AFTER_INIT: &str = "start nothing; let `init` end, close";
    const END_BACK: &str = "record the reboot; start nothing; close";
    &[
        (TurnedBack, Stopping, IntentDurable, [STOP, STOP, STOP, NEVER]),
        (TurnedBack, Stopping, HookRunning, [STOP, STOP, STOP, NEVER]),
        (TurnedBack, Stopping, OutcomeDurable, [TURN, TURN, TURN, NEVER]),
        (TurnedBack, Stopping, Reported, [TURN, TURN, TURN, NEVER]),
        (TurnedBack, Installing, IntentDurable, [TURN, TURN, TURN, NEVER]),
        (TurnedBack, Installing, HookRunning, [TURN_AFTER, TURN_AFTER, TURN, NEVER]),
        (TurnedBack, Installing, OutcomeDurable, [TURN, TURN, TURN, NEVER]),
        (TurnedBack, Installing, Reported, [TURN, TURN, TURN, NEVER]),
        (TurnedBack, Rebooting, OutcomeDurable, [TURN, TURN, TURN_BACK, TURN_BACK]),
        (TurnedBack, Rebooting, Reported, [TURN, TURN, TURN_BACK, TURN_BACK]),
        (Withdrawn, Stopping, IntentDurable, [STOP, STOP, STOP, NEVER]),
        (Withdrawn, Stopping, HookRunning, [STOP, STOP, STOP, NEVER]),
        (Withdrawn, Stopping, OutcomeDurable, [END, END, END, NEVER]),
        (Withdrawn, Stopping, Reported, [END, END, END, NEVER]),
        (Withdrawn, Installing, IntentDurable, [END, END, END, NEVER]),
        (Withdrawn, Installing, HookRunning, [END_AFTER, END_AFTER, END, NEVER]),
        (Withdrawn, Installing, OutcomeDurable, [END, END, END, NEVER]),
        (Withdrawn, Installing, Reported, [END, END, END, NEVER]),
        (Withdrawn, Rebooting, OutcomeDurable, [END, END, END_BACK, END_BACK]),
        (Withdrawn, Rebooting, Reported, [END, END, END_BACK, END_BACK]),
        (Withdrawn, Starting, IntentDurable, [END, END, END, NEVER]),
        (Withdrawn, Starting, HookRunning, [END_AFTER_INIT, END_AFTER_INIT, END, NEVER]),
    ]
};

/// The recovery table, as Markdown.
#[must_use]
pub fn recovery_table() -> String {
    let mut out = String::from(
        "| phase | dies at | agent | agent and service | power, or a reboot nobody asked for | reboot asked for |\n\
         | --- | --- | --- | --- | --- | --- |\n",
    );
    for (phase, point, cells) in TABLE {
        out.push_str(&format!("| {} | {} | {} |\n", phase.name(), point.name(), cells.join(" | ")));
    }
    out
}

/// The recovery table of a step whose end was ordered after commit point B, as Markdown.
#[must_use]
pub fn ordered_recovery_table() -> String {
    let mut out = String::from(
        "| ordered | phase | dies at | agent | agent and service | power, or a reboot nobody asked for | reboot asked for |\n\
         | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for (ending, phase, point, cells) in ORDERED_TABLE {
        let ordered = if *ending == Ending::TurnedBack { "turn back" } else { "withdrawn" };
        out.push_str(&format!("| {ordered} | {} | {} | {} |\n", phase.name(), point.name(), cells.join(" | ")));
    }
    out
}

#[cfg(test)]
mod tests {
    use rollcall_ident::BootId;

    use super::*;
    use crate::{Ending, Go, Hook, Instance, Outcome, Reason, RunToken, StepOpened, Timings};

    /// What [`recover`] does at this point after this cause, in the table's words; none: it can't happen.
    fn recovered(phase: Phase, point: CrashPoint, cause: Cause) -> Option<String> {
        let [before, after] = [BootId([1; 16]), BootId([2; 16])];
        if phase != Phase::Rebooting && cause == Cause::AskedReboot {
            return None;
        }
        let events = example_journal(phase, point, before)?;
        let boot_id = if matches!(cause, Cause::PowerCut | Cause::AskedReboot) { after } else { before };
        let facts = Facts { boot_id };
        let recovery = recover(&events, &facts).expect("the example is a journal of ours");
        let process = match recovery.plan {
            ServicePlan::KeepUp => "service up; ",
            ServicePlan::LeaveAsIs | ServicePlan::AwaitStart => "",
            ServicePlan::KeepIfUp => unreachable!("no end was ordered"),
        };
        let next = match (recovery.action, &recovery.state.step) {
            (Action::AwaitOrders, Some(step)) => {
                // No further than the phase needs: beyond that its hook isn't waited for any more.
                let go = if step.phase() == Phase::Draining { Go::Drain } else { Go::Replace };
                let decided = [go, Go::Replace].map(|go| decide(step, &facts, Wanted::Step(go)));
                let waits = decided[0] == Action::AwaitOrders;
                format!("on orders: {}", describe(decided[usize::from(waits)]))
            }
            (action, _) => describe(action),
        };
        Some(format!("{process}{next}"))
    }

    /// The same where `ending` was ordered at this point; none: it can't be, or it can't happen.
    fn recovered_ordered(ending: Ending, phase: Phase, point: CrashPoint, cause: Cause) -> Option<String> {
        let [before, after] = [BootId([1; 16]), BootId([2; 16])];
        if phase != Phase::Rebooting && cause == Cause::AskedReboot {
            return None;
        }
        let mut events = example_journal(phase, point, before)?;
        events.push(Event::EndOrdered { ending });
        let boot_id = if matches!(cause, Cause::PowerCut | Cause::AskedReboot) { after } else { before };
        let facts = Facts { boot_id };
        let Recovery { mut state, mut action, plan } = recover(&events, &facts).ok()?;
        assert_ne!(plan, ServicePlan::KeepUp, "{phase:?} {point:?}: the old release would be started");
        let mut words = Vec::new();
        if let Action::ComeBack { from, asked_for } = action {
            let back = Event::Rebooted { from, to: boot_id, asked_for };
            state.apply(&back).expect("what is decided can be recorded");
            action = decide(state.open_step()?, &facts, Wanted::NotHeard);
            words.push("record the reboot; ".to_owned());
        }
        if action == Action::Run(Phase::Stopping) {
            return Some(describe(action));
        }
        words.push("start nothing; ".to_owned());
        if let Action::LetEnd(hook) = action {
            state.apply(&Event::HookEnded { hook }).expect("what is decided can be recorded");
            words.push(format!("let `{}` end, ", hook.name()));
            action = decide(state.open_step()?, &facts, Wanted::NotHeard);
        }
        assert_eq!(action, Action::End(ending));
        words.push(if state.open_step()?.owes_undrain() { "`undrain`, close" } else { "close" }.to_owned());
        check_left_down(state, ending, boot_id);
        Some(words.concat())
    }

    /// From the end on nothing is started, whatever crashes, and whatever the orders that come say.
    fn check_left_down(mut state: ServiceState, ending: Ending, boot_id: BootId) {
        for event in [Event::EndBegun { ending, boot_id }, Event::StepClosed { ending, timings: Timings::default() }] {
            state.apply(&event).expect("what is decided can be recorded");
            assert_eq!(ServicePlan::of(&state), ServicePlan::KeepIfUp);
            if let Some(step) = state.open_step() {
                let next = decide(step, &Facts { boot_id }, Wanted::Step(Go::Finish));
                assert_eq!(next, Action::End(ending));
            }
        }
        // Nor after the file was compacted, nor before the next step has come to its start.
        let mut events = state.compacted();
        events.push(Event::StepOpened(StepOpened { fence: rollcall_ident::Fence(8), ..opened() }));
        events.push(Event::PhaseBegun { phase: Phase::Preparing, boot_id });
        let recovery = recover(&events, &Facts { boot_id }).expect("a compacted journal is one of ours");
        assert_eq!(recovery.plan, ServicePlan::KeepIfUp);
    }

    fn describe(action: Action) -> String {
        match action {
            Action::Rest => "rest".to_owned(),
            Action::AwaitOrders => "wait for orders".to_owned(),
            Action::Run(phase) => format!("go on with {}", phase.name()),
            Action::Settle(hook) => format!("settle `{}` by its policy", hook.name()),
            Action::Reboot => "reboot again".to_owned(),
            Action::ComeBack { asked_for: true, .. } => "record the reboot, go on with starting".to_owned(),
            Action::ComeBack { asked_for: false, .. } => {
                "record the reboot, settle `install` by its policy, at most `max_reboots` times".to_owned()
            }
            Action::Fail(phase, reason) => format!("fail {} ({})", phase.name(), reason.name()),
            Action::Verify => "go on verifying".to_owned(),
            Action::LetEnd(hook) => format!("let `{}` end", hook.name()),
            Action::End(_) => "`undrain`, close".to_owned(),
        }
    }

    fn opened() -> StepOpened {
        StepOpened {
            fence: rollcall_ident::Fence(7),
            attempt: 1,
            rollout: rollcall_ident::RolloutId(3),
            from: Some("acme/app/1.0/20260101000000".parse().expect("a literal")),
            to: "acme/app/2.0/20260102000000".parse().expect("a literal"),
            digest: None,
            reason: Reason::Update,
            max_reboots: 3,
            reboots: 0,
        }
    }

    /// A journal that ends at this point of this phase.
    fn example_journal(phase: Phase, point: CrashPoint, boot_id: BootId) -> Option<Vec<Event>> {
        let instance = Instance { pid: 42, start_time: 99, boot_id, release: opened().to };
        let mut events = vec![Event::StepOpened(opened())];
        for earlier in [Phase::Preparing, Phase::Draining, Phase::Stopping, Phase::Installing, Phase::Starting] {
            if earlier >= phase || (phase == Phase::Rebooting && earlier >= Phase::Installing) {
                break;
            }
            events.push(Event::PhaseBegun { phase: earlier, boot_id });
            events.extend(outcome_of(earlier, &instance));
        }
        events.extend(at_point(phase, point, boot_id, &instance)?);
        if point == CrashPoint::Reported {
            let state = ServiceState::from_events(&events).expect("the example is a journal of ours");
            let count = state.step.map_or(0, |step| step.milestones.len());
            events.push(Event::Reported { count: u32::try_from(count).expect("a handful") });
        }
        Some(events)
    }

    fn at_point(phase: Phase, point: CrashPoint, boot_id: BootId, instance: &Instance) -> Option<Vec<Event>> {
        let hook = match phase {
            Phase::Preparing => Hook::ReadyToUpdate,
            Phase::Draining => Hook::Drain,
            Phase::Stopping => Hook::PreStop,
            Phase::Installing | Phase::Rebooting => Hook::Install,
            Phase::Starting => Hook::Init,
            Phase::Verifying => Hook::Undrain,
        };
        let started = Event::HookStarted { hook, token: RunToken([9; 16]) };
        let begun_phase = if phase == Phase::Rebooting { Phase::Installing } else { phase };
        let mut events = match phase {
            // Its intent is the end of the step: the soak is complete.
            Phase::Verifying => vec![Event::EndBegun { ending: Ending::Finished, boot_id }],
            _ => vec![Event::PhaseBegun { phase: begun_phase, boot_id }],
        };
        match point {
            CrashPoint::IntentDurable if phase == Phase::Rebooting => return None,
            CrashPoint::IntentDurable => {}
            CrashPoint::HookRunning if phase == Phase::Rebooting => return None,
            CrashPoint::HookRunning => events.push(started),
            CrashPoint::OutcomeDurable | CrashPoint::Reported => match phase {
                Phase::Rebooting => events.extend([started, Event::RebootAsked { boot_id }]),
                Phase::Verifying => {
                    events.push(Event::StepClosed { ending: Ending::Finished, timings: Timings::default() });
                }
                _ => events.extend(outcome_of(phase, instance)),
            },
        }
        Some(events)
    }

    fn outcome_of(phase: Phase, instance: &Instance) -> Vec<Event> {
        let done = Event::PhaseEnded { phase, outcome: Outcome::Done { hook_ran: true } };
        match phase {
            Phase::Stopping => vec![Event::OldInstanceGone { killed: false }, done],
            Phase::Starting => vec![Event::NewInstance(instance.clone())],
            _ => vec![done],
        }
    }

    #[test]
    fn the_table_is_what_recover_does() {
        let rows: Vec<(Phase, CrashPoint, [String; 4])> = Phase::ALL
            .into_iter()
            .flat_map(|phase| CrashPoint::ALL.map(|point| (phase, point)))
            .map(|(phase, point)| {
                let cells = Cause::ALL.map(|cause| recovered(phase, point, cause).unwrap_or_else(|| "–".to_owned()));
                (phase, point, cells)
            })
            .filter(|(_, _, cells)| cells.iter().any(|cell| cell != "–"))
            .collect();
        let promised: Vec<_> =
            TABLE.iter().map(|(phase, point, cells)| (*phase, *point, cells.map(str::to_owned))).collect();
        assert_eq!(rows, promised);
    }

    #[test]
    fn the_table_of_ordered_ends_is_what_recover_does() {
        let mut rows = Vec::new();
        for ending in [Ending::TurnedBack, Ending::Withdrawn] {
            for (phase, point) in Phase::ALL.into_iter().flat_map(|phase| CrashPoint::ALL.map(|point| (phase, point))) {
                let recovered = |cause| recovered_ordered(ending, phase, point, cause);
                let cells = Cause::ALL.map(|cause| recovered(cause).unwrap_or_else(|| "–".to_owned()));
                if cells.iter().any(|cell| cell != "–") {
                    rows.push((ending, phase, point, cells));
                }
            }
        }
        let promised: Vec<_> = ORDERED_TABLE
            .iter()
            .map(|(ending, phase, point, cells)| (*ending, *phase, *point, cells.map(str::to_owned)))
            .collect();
        assert_eq!(rows, promised);
    }

    #[test]
    fn the_documentation_prints_the_tables() {
        let page = include_str!("../../../docs/hooks.md");
        for table in [recovery_table(), ordered_recovery_table()] {
            assert!(page.contains(&table), "docs/hooks.md should contain:\n{table}");
        }
    }
}
