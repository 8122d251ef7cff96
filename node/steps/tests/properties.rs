//! Steps that are cut off anywhere, any number of times: whatever dies, no phase is begun behind its back.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use proptest::prelude::*;
use rollcall_ident::{BootId, Fence, RolloutId};
use rollcall_steps::{
    Action, Ending, Event, Facts, Go, Hook, Instance, Milestone, OpenRefusal, Outcome, Phase, Reason, RunToken,
    ServiceState, Status, StepOpened, Timings, Wanted, check_open, decide, end_to_record,
};

fn opened(fence: u64, attempt: u32) -> StepOpened {
    StepOpened {
        fence: Fence(fence),
        attempt,
        rollout: RolloutId(1),
        from: Some("acme/app/1.0/20260101000000".parse().unwrap()),
        to: "acme/app/2.0/20260102000000".parse().unwrap(),
        digest: None,
        reason: Reason::Update,
        max_reboots: 3,
        reboots: 0,
    }
}

/// What happens between one write and the next.
#[derive(Debug, Clone, Copy)]
enum Fault {
    None,
    /// The agent dies; what was written stays.
    AgentDies,
    /// The machine dies; what wasn't synced is lost.
    PowerCut,
}

/// A node that carries out a step as the agent does, and dies as it is told.
struct World {
    /// On the disk, and how many of them were synced.
    journal: Vec<Event>,
    synced: usize,
    boot: u8,
    faults: Vec<Fault>,
    /// How often each hook was started without having been settled.
    starts: BTreeMap<Hook, u32>,
    settled: BTreeMap<Hook, u32>,
    has_instance: bool,
}

/// It died: whoever was in the middle of something must start over from the journal.
struct Died;

impl World {
    fn new(faults: Vec<Fault>) -> Self {
        Self {
            journal: Vec::new(),
            synced: 0,
            boot: 1,
            faults,
            starts: BTreeMap::new(),
            settled: BTreeMap::new(),
            has_instance: false,
        }
    }

    fn boot_id(&self) -> BootId {
        BootId([self.boot; 16])
    }

    fn state(&self) -> ServiceState {
        ServiceState::from_events(&self.journal).expect("the agent writes what can have happened")
    }

    fn maybe_die(&mut self) -> Result<(), Died> {
        match self.faults.pop().unwrap_or(Fault::None) {
            Fault::None => Ok(()),
            Fault::AgentDies => Err(Died),
            Fault::PowerCut => {
                self.journal.truncate(self.synced);
                self.boot += 1;
                self.has_instance = false;
                Err(Died)
            }
        }
    }

    fn append(&mut self, event: Event) -> Result<(), Died> {
        self.maybe_die()?;
        let is_synced = event.is_synced();
        self.journal.push(event);
        self.state();
        if is_synced {
            self.synced = self.journal.len();
        }
        self.maybe_die()
    }

    fn hook(&mut self, hook: Hook) -> Result<(), Died> {
        self.append(Event::HookStarted { hook, token: RunToken::default() })?;
        *self.starts.entry(hook).or_default() += 1;
        self.maybe_die()
    }

    fn done(&mut self, phase: Phase) -> Result<(), Died> {
        self.append(Event::PhaseEnded { phase, outcome: Outcome::Done { hook_ran: true } })
    }

    /// What a log that waits for the service orders at this moment.
    fn patient(&self) -> Wanted {
        let Some(step) = self.state().step else { return Wanted::NotHeard };
        Wanted::Step(match step.status {
            Status::Opened | Status::Begun { phase: Phase::Preparing, .. } => Go::Prepare,
            Status::Ended { phase: Phase::Preparing } | Status::Begun { phase: Phase::Draining, .. } => Go::Drain,
            _ => Go::Finish,
        })
    }

    fn run(&mut self, phase: Phase, wanted: Wanted) -> Result<(), Died> {
        self.append(Event::PhaseBegun { phase, boot_id: self.boot_id() })?;
        let is_forced = |next| matches!(wanted, Wanted::Step(go) if go >= next);
        match phase {
            Phase::Preparing if is_forced(Go::Drain) => {
                self.append(Event::PhaseEnded { phase, outcome: Outcome::Forced })
            }
            Phase::Preparing => self.done(phase),
            Phase::Draining if is_forced(Go::Replace) => {
                self.append(Event::PhaseEnded { phase, outcome: Outcome::Forced })
            }
            Phase::Draining => {
                self.hook(Hook::Drain)?;
                self.done(phase)
            }
            Phase::Stopping => {
                if !self.state().step.unwrap().hooks_started.contains(&Hook::PreStop) {
                    self.hook(Hook::PreStop)?;
                }
                self.append(Event::OldInstanceGone { killed: false })?;
                self.done(phase)
            }
            Phase::Installing if self.state().installed.contains(&opened(0, 0).to) => self.done(phase),
            Phase::Installing => {
                self.hook(Hook::Install)?;
                self.done(phase)
            }
            Phase::Starting => {
                if !self.has_instance {
                    self.hook(Hook::Init)?;
                    self.has_instance = true;
                    self.maybe_die()?;
                }
                let release = opened(0, 0).to;
                self.append(Event::NewInstance(Instance { pid: 9, start_time: 1, boot_id: self.boot_id(), release }))
            }
            Phase::Rebooting | Phase::Verifying => unreachable!(),
        }
    }

    fn settle(&mut self, hook: Hook) -> Result<(), Died> {
        *self.settled.entry(hook).or_default() += 1;
        match hook {
            Hook::Drain => self.run(Phase::Draining, Wanted::Step(Go::Drain)),
            Hook::Install => self.run(Phase::Installing, Wanted::NotHeard),
            Hook::Init => self.run(Phase::Starting, Wanted::NotHeard),
            _ => match self.state().step.unwrap().status {
                Status::Ending { ending, .. } => self.end(ending),
                status => unreachable!("{status:?}"),
            },
        }
    }

    fn end(&mut self, ending: Ending) -> Result<(), Died> {
        let step = self.state().step.unwrap();
        if !matches!(step.status, Status::Ending { .. }) {
            self.append(Event::EndBegun { ending, boot_id: self.boot_id() })?;
        }
        if step.owes_undrain() {
            self.hook(Hook::Undrain)?;
            self.append(Event::HookEnded { hook: Hook::Undrain })?;
        }
        self.append(Event::StepClosed { ending, timings: Timings::default() })
    }

    /// One action of the agent; true: the step is over.
    fn act(&mut self, wanted: Wanted) -> Result<bool, Died> {
        let Some(step) = self.state().step.filter(|step| !step.is_closed()) else { return Ok(true) };
        if let Some(ending) = end_to_record(&step, wanted) {
            self.append(Event::EndOrdered { ending })?;
            return Ok(false);
        }
        let facts = Facts { boot_id: self.boot_id() };
        match decide(&step, &facts, wanted) {
            Action::Rest => return Ok(true),
            Action::AwaitOrders | Action::Verify => {}
            Action::Run(phase) => self.run(phase, wanted)?,
            Action::Settle(hook) => self.settle(hook)?,
            Action::ComeBack { from, asked_for } => {
                self.append(Event::Rebooted { from, to: self.boot_id(), asked_for })?;
            }
            Action::Fail(phase, reason) => {
                let failure = rollcall_steps::Failure { reason, detail: String::new(), output: String::new() };
                self.append(Event::PhaseEnded { phase, outcome: Outcome::Failed(failure) })?;
            }
            Action::LetEnd(hook) => self.append(Event::HookEnded { hook })?,
            Action::End(ending) => self.end(ending)?,
            Action::Reboot => unreachable!("no hook asks for one"),
        }
        Ok(false)
    }
}

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![6 => Just(Fault::None), 1 => Just(Fault::AgentDies), 1 => Just(Fault::PowerCut)]
}

proptest! {
    /// Every step ends; each hook is started at most once more than it was settled; what is journalled could have happened.
    #[test]
    fn nothing_is_started_twice_without_being_settled(
        faults in prop::collection::vec(fault(), 0..60), is_forced in any::<bool>(),
    ) {
        let mut world = World::new(faults);
        while world.state().step.is_none() {
            let _ = world.append(Event::StepOpened(opened(7, 1)));
        }
        let mut turns = 0;
        loop {
            let wanted = if is_forced { Wanted::Step(Go::Finish) } else { world.patient() };
            if matches!(world.act(wanted), Ok(true)) {
                break;
            }
            turns += 1;
            prop_assert!(turns < 500, "it doesn't end: {:?}", world.journal);
        }
        for (hook, starts) in &world.starts {
            let settled = world.settled.get(hook).copied().unwrap_or(0);
            prop_assert!(*starts <= 1 + settled, "{hook:?}: {starts} starts, settled {settled} times");
        }
        // Orders that are past commit point B from the beginning don't wait for a drain.
        prop_assert_eq!(world.starts.contains_key(&Hook::Drain), !is_forced);
        prop_assert!(world.starts.get(&Hook::PreStop).copied().unwrap_or(0) <= 1);
        let state = world.state();
        prop_assert_eq!(state.fence, Fence(7));
        if state.step.as_ref().is_some_and(|step| step.status == Status::Closed { ending: Ending::Finished }) {
            prop_assert_eq!(state.current, Some(opened(7, 1).to));
        }
    }

    /// The log knows what was reported, and only what is durable is: so a journal is behind the log only where it has lost
    /// something. Then the step fails where it stands, wherever that is, and ends.
    #[test]
    fn only_a_journal_that_has_lost_something_is_behind(
        faults in prop::collection::vec(fault(), 0..40), turns in 0usize..16, lost in 0usize..30,
    ) {
        let mut world = World::new(faults);
        while world.state().step.is_none() {
            let _ = world.append(Event::StepOpened(opened(7, 1)));
        }
        for _ in 0..turns {
            let _ = world.act(world.patient());
        }
        let step = world.state().step.unwrap();
        let logged = |step: &rollcall_steps::StepState| step.milestones.iter().filter_map(|milestone| match milestone {
            Milestone::Accepted => Some(Phase::Preparing),
            Milestone::Prepared => Some(Phase::Draining),
            Milestone::Drained => Some(Phase::Stopping),
            Milestone::Stopped { .. } | Milestone::RebootBegun { .. } => Some(Phase::Installing),
            Milestone::Installed { .. } => Some(Phase::Starting),
            Milestone::Started(_) => Some(Phase::Verifying),
            Milestone::Finished(_) | Milestone::TurnedBack | Milestone::Failed { .. } => None,
        }).max();
        let before = logged(&step).unwrap();
        prop_assert!(!step.is_behind(before));

        let kept = world.journal.len().saturating_sub(lost).max(1);
        let mut older = ServiceState::from_events(&world.journal[..kept]).unwrap();
        let step = older.step.clone().unwrap();
        let has_lost_news = before >= Phase::Installing && logged(&step).unwrap() < before;
        prop_assert_eq!(step.is_behind(before), has_lost_news, "{:?} of {:?}", step.status, before);
        if !step.is_behind(before) {
            return Ok(());
        }
        let reason = rollcall_steps::FailureReason::JournalBehind;
        let failure = rollcall_steps::Failure { reason, detail: String::new(), output: String::new() };
        for event in step.failed_where_it_stands(failure, world.boot_id()) {
            older.apply(&event).unwrap();
        }
        let step = older.step.unwrap();
        prop_assert!(matches!(step.status, Status::Failed { .. }), "{:?}", step.status);
        let facts = Facts { boot_id: world.boot_id() };
        prop_assert_eq!(decide(&step, &facts, Wanted::Step(Go::Finish)), Action::End(Ending::Failed));
    }

    /// Once `install` is durably done here, no later step to the same release begins it again.
    #[test]
    fn install_runs_once_per_release(faults in prop::collection::vec(fault(), 0..40)) {
        let mut world = World::new(faults);
        for fence in 1..4 {
            while world.state().fence < Fence(fence) {
                let _ = world.append(Event::StepOpened(opened(fence, 1)));
            }
            let was_installed = world.state().installed.contains(&opened(0, 0).to);
            let before = world.starts.get(&Hook::Install).copied().unwrap_or(0);
            world.has_instance = false;
            while !matches!(world.act(Wanted::Step(Go::Finish)), Ok(true)) {}
            if was_installed {
                prop_assert_eq!(world.starts.get(&Hook::Install).copied().unwrap_or(0), before);
            }
        }
    }

    /// Before commit point B nothing begins without an order that lets it; after it nothing waits for one.
    #[test]
    fn commit_points_hold(faults in prop::collection::vec(fault(), 0..40), go in 0usize..3) {
        let go = [Go::Prepare, Go::Drain, Go::Replace][go];
        let mut world = World::new(faults);
        while world.state().step.is_none() {
            let _ = world.append(Event::StepOpened(opened(7, 1)));
        }
        for _ in 0..200 {
            let _ = world.act(Wanted::Step(go));
        }
        let step = world.state().step.unwrap();
        prop_assert_eq!(step.drain_begun, go >= Go::Drain);
        prop_assert_eq!(step.stop_begun, go >= Go::Replace);
        if step.stop_begun && !matches!(step.status, Status::Closed { .. }) {
            prop_assert_eq!(step.status, Status::Verifying);
        }
    }

    /// Once an end after commit point B is recorded nothing is started any more, whatever dies and whatever is heard then;
    /// only `undrain`, where the step still holds its grant.
    #[test]
    fn an_end_that_was_ordered_holds(
        faults in prop::collection::vec(fault(), 0..60), turns in 0usize..16, is_turn in any::<bool>(),
    ) {
        let (order, ending) = match is_turn {
            true => (Wanted::TurnBack, Ending::TurnedBack),
            false => (Wanted::Gone, Ending::Withdrawn),
        };
        let mut world = World::new(faults);
        while world.state().step.is_none() {
            let _ = world.append(Event::StepOpened(opened(7, 1)));
        }
        while !world.state().step.unwrap().stop_begun {
            let _ = world.act(world.patient());
        }
        for _ in 0..turns {
            let _ = world.act(Wanted::Step(Go::Replace));
        }
        let _ = world.act(order);
        let is_recorded = |world: &World| world.state().step.unwrap().end_ordered.is_some();
        let was_recorded = is_recorded(&world);
        let started = world.starts.clone();
        // Heard once; from now on nobody says anything.
        for _ in 0..200 {
            let _ = world.act(Wanted::NotHeard);
        }
        let step = world.state().step.unwrap();
        if !was_recorded {
            // It came too late, or died with the agent that heard it.
            prop_assert!(matches!(step.status, Status::Verifying | Status::Closed { .. }), "{:?}", step.status);
            return Ok(());
        }
        prop_assert_eq!(&step.status, &Status::Closed { ending });
        for hook in [Hook::Install, Hook::Init] {
            prop_assert_eq!(world.starts.get(&hook), started.get(&hook), "{:?} was started again", hook);
        }
        prop_assert_eq!(world.starts.contains_key(&Hook::Undrain), is_turn);
        prop_assert!(world.state().is_left_down);
    }

    /// A fence below the highest of the node is refused, whatever the step; so is one try twice.
    #[test]
    fn lower_fences_are_refused(highest in 1u64..100, fence in 1u64..100, attempt in 1u32..3) {
        let mut state = ServiceState::default();
        state.apply(&Event::StepOpened(opened(highest, 1))).unwrap();
        let checked = check_open(&state, Fence(highest), Fence(fence), attempt);
        let is_fresh = fence > highest || (fence == highest && attempt > 1);
        prop_assert_eq!(checked.is_ok(), is_fresh);
        if fence < highest {
            let is_stale = matches!(checked, Err(OpenRefusal::StaleFence { .. }));
            prop_assert!(is_stale);
            // And a journal that says otherwise isn't believed.
            prop_assert!(state.apply(&Event::StepOpened(opened(fence, attempt))).is_err());
        }
    }
}
