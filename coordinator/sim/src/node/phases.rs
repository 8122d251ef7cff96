//! The phases of a step, and the settling of hooks whose end nobody saw.

use std::time::Duration;

use rollcall_steps::{
    Action, Ending, Event, Facts, FailureReason, Go, Hook, Milestone, Outcome, Phase, Settled, Status, StepState,
    Wanted, decide, rerun_policy, settle,
};
use tokio::time::sleep;

use super::engine::{Engine, lets_go, until_let_go};
use super::machine::Exit;

/// A new release whose process exits so often won't come up by being started once more.
const CRASH_LOOP_EXITS: u64 = 5;

/// Between two times that a hook is asked.
const ASK_AGAIN: Duration = Duration::from_millis(300);

/// BOUND: an `undrain` that says "call me again" so often won't come to an end.
const UNDRAIN_TRIES: u32 = 10;

/// How a hook that is asked again and again has answered.
enum Polled {
    Ready { hook_ran: bool },
    Forced,
    Failed(FailureReason),
    Interrupted,
}

impl Engine {
    pub(super) async fn run_phase(&mut self, phase: Phase) {
        match phase {
            Phase::Preparing => self.ask(Hook::ReadyToUpdate, Phase::Preparing, Go::Drain).await,
            Phase::Draining => self.ask(Hook::Drain, Phase::Draining, Go::Replace).await,
            Phase::Stopping => self.stop().await,
            Phase::Installing => self.install().await,
            Phase::Starting => self.start(true).await,
            Phase::Rebooting | Phase::Verifying => unreachable!("decide never runs {phase:?}"),
        }
    }

    /// Runs a hook to its end.
    async fn run_hook(&mut self, hook: Hook) -> Exit {
        self.run_hook_unless(hook, std::future::pending()).await.expect("nothing cuts it off")
    }

    /// The same, but it is ended when `cut` completes: none.
    async fn run_hook_unless(&mut self, hook: Hook, cut: impl Future<Output = ()>) -> Option<Exit> {
        let agent = self.agent.clone();
        let now_ms = agent.judge.now_ms();
        let (token, running) = agent.machine.borrow_mut().start_hook(hook, now_ms);
        // The mark is written before the hook is started; in the model its process waits for it.
        agent.machine.borrow_mut().hooks.remove(&token);
        let is_marked = hook == Hook::ReadyToUpdate && agent.step().hook.is_some_and(|mark| mark.hook == hook);
        if !is_marked {
            self.append(Event::HookStarted { hook, token }).await;
        }
        let begin = agent.witness_begin(hook);
        let takes_ms = running.ends_at_ms - now_ms;
        let ends_at_ms = agent.judge.now_ms() + takes_ms;
        agent.machine.borrow_mut().hooks.insert(token, super::machine::Running { ends_at_ms, ..running });
        let ended = async {
            tokio::select! {
                biased;
                () = sleep(Duration::from_millis(takes_ms)) => Some(running.exit),
                () = cut => None,
            }
        };
        let exit = self.attend(ended).await;
        agent.machine.borrow_mut().hooks.remove(&token);
        agent.judge.witness(|witness, _| {
            witness.end(&begin, exit != Some(Exit::Ok));
            None
        });
        agent.judge.note(&agent.name, format_args!("ended {} {exit:?}", hook.name()));
        exit
    }

    async fn ask(&mut self, hook: Hook, phase: Phase, next: Go) {
        self.begin(phase).await;
        if self.agent.machine.borrow().process.is_none() {
            return self.done(phase, false).await;
        }
        match self.poll_hook(hook, next).await {
            Polled::Ready { hook_ran } => self.done(phase, hook_ran).await,
            Polled::Forced => self.append(Event::PhaseEnded { phase, outcome: Outcome::Forced }).await,
            Polled::Failed(reason) => self.fail(phase, reason).await,
            Polled::Interrupted => {}
        }
    }

    async fn poll_hook(&mut self, hook: Hook, next: Go) -> Polled {
        if let Some(mark) = self.agent.step().hook.filter(|mark| mark.hook == hook && !mark.ended) {
            self.agent.machine.borrow_mut().hooks.remove(&mark.token);
        }
        loop {
            if let Some(polled) = self.overtaken(next) {
                return polled;
            }
            let cut = until_let_go(self.orders.clone(), self.agent.step(), next);
            match self.run_hook_unless(hook, cut).await {
                Some(Exit::Ok) => return Polled::Ready { hook_ran: true },
                Some(Exit::Again) => {
                    if hook != Hook::ReadyToUpdate {
                        self.append(Event::HookEnded { hook }).await;
                    }
                }
                _ if matches!(self.overtaken(next), Some(Polled::Forced)) => return Polled::Forced,
                exit => return Polled::Failed(reason_of(exit)),
            }
            let again = tokio::time::Instant::now() + ASK_AGAIN;
            loop {
                if let Some(polled) = self.overtaken(next) {
                    return polled;
                }
                tokio::select! {
                    biased;
                    () = tokio::time::sleep_until(again) => break,
                    () = self.orders_changed() => {}
                }
            }
        }
    }

    fn overtaken(&mut self, next: Go) -> Option<Polled> {
        let step = self.agent.step();
        match self.wanted(&step) {
            wanted if lets_go(wanted, next) => Some(Polled::Forced),
            Wanted::Step(_) | Wanted::NotHeard => None,
            Wanted::TurnBack | Wanted::Gone | Wanted::Superseded => Some(Polled::Interrupted),
        }
    }

    async fn stop(&mut self) {
        self.begin(Phase::Stopping).await;
        let agent = self.agent.clone();
        let has_session = agent.has_session.get();
        agent.judge.witness(|witness, at_ms| witness.taken_down(&agent.name, at_ms, has_session));
        if agent.machine.borrow().process.is_some() {
            self.run_once(Hook::PreStop).await;
        }
        let takes_ms = agent.machine.borrow_mut().draw(1_500);
        let mut killed = agent.step().old_gone == Some(true);
        if agent.machine.borrow().process.is_some() {
            self.attend(sleep(Duration::from_millis(takes_ms))).await;
            killed |= takes_ms > 1_300;
            agent.machine.borrow_mut().process = None;
            agent.judge.note(&agent.name, "is down");
            agent.process.send_modify(|count| *count += 1);
        }
        self.append(Event::OldInstanceGone { killed }).await;
        self.run_once(Hook::PostStop).await;
        self.done(Phase::Stopping, true).await;
    }

    async fn run_once(&mut self, hook: Hook) {
        if !self.agent.step().hooks_started.contains(&hook) {
            self.run_hook(hook).await;
            self.append(Event::HookEnded { hook }).await;
        }
    }

    async fn install(&mut self) {
        self.begin(Phase::Installing).await;
        let step = self.agent.step();
        if self.agent.state.borrow().installed.contains(&step.opened.to.bare()) {
            return self.done(Phase::Installing, false).await;
        }
        if self.is_to_end() {
            return;
        }
        match self.run_hook(Hook::Install).await {
            Exit::Ok => self.done(Phase::Installing, true).await,
            Exit::Reboot if step.reboots >= step.opened.max_reboots => {
                self.fail(Phase::Installing, FailureReason::MaxReboots).await;
            }
            Exit::Reboot => self.append(Event::RebootAsked { boot_id: self.agent.boot_id }).await,
            exit => self.fail(Phase::Installing, reason_of(Some(exit))).await,
        }
    }

    async fn start(&mut self, with_init: bool) {
        self.begin(Phase::Starting).await;
        let to = self.agent.step().opened.to;
        let running = self.agent.machine.borrow().process.as_ref().map(|process| process.instance.clone());
        if let Some(instance) = running.filter(|instance| instance.release == to) {
            return self.note_instance(instance).await;
        }
        if with_init && !self.is_to_end() {
            match self.run_hook(Hook::Init).await {
                Exit::Ok if self.is_to_end() => self.append(Event::HookEnded { hook: Hook::Init }).await,
                Exit::Ok => {}
                exit => return self.fail(Phase::Starting, reason_of(Some(exit))).await,
            }
        }
        if self.is_to_end() {
            return;
        }
        self.agent.exits_before.set(self.agent.machine.borrow().exit_count);
        let instance = self.agent.start_process(&to);
        self.note_instance(instance).await;
    }

    async fn note_instance(&mut self, instance: rollcall_steps::Instance) {
        self.append(Event::NewInstance(instance)).await;
        self.agent.urge_status();
    }

    pub(super) async fn verify(&mut self, step: &StepState) {
        let recorded = step.milestones.iter().rev().find_map(|milestone| match milestone {
            Milestone::Started(instance) => Some(instance.clone()),
            _ => None,
        });
        let mut process = self.agent.process.subscribe();
        loop {
            let (exits, instance) = {
                let machine = self.agent.machine.borrow();
                (machine.exit_count, machine.process.as_ref().map(|process| process.instance.clone()))
            };
            if exits.saturating_sub(self.agent.exits_before.get()) >= CRASH_LOOP_EXITS {
                return self.fail(Phase::Verifying, FailureReason::CrashLoop).await;
            }
            let is_new = |it: &rollcall_steps::Instance| it.release == step.opened.to && Some(it) != recorded.as_ref();
            if let Some(instance) = instance.filter(is_new) {
                return self.note_instance(instance).await;
            }
            let facts = Facts { boot_id: self.agent.boot_id };
            if decide(step, &facts, self.wanted(step)) != Action::Verify {
                return;
            }
            tokio::select! {
                biased;
                () = self.orders_changed() => {}
                _ = process.changed() => {}
            }
        }
    }

    /// Waits for what is left of the hook, applies its policy, and goes on with its phase.
    pub(super) async fn settle(&mut self, hook: Hook) {
        self.await_survivor(hook).await;
        if self.is_overtaken(hook) {
            return;
        }
        match settle(rerun_policy(hook, None, false), None) {
            Settled::RunAgain | Settled::AskProbe => match hook {
                Hook::Drain => self.ask(Hook::Drain, Phase::Draining, Go::Replace).await,
                Hook::Install => self.install().await,
                Hook::Init => self.start(true).await,
                _ => {
                    let Status::Ending { ending, .. } = self.agent.step().status else { unreachable!("undrain") };
                    self.end(ending).await;
                }
            },
            Settled::Done | Settled::Fail => unreachable!("the default policies run these again"),
        }
    }

    async fn await_survivor(&mut self, hook: Hook) {
        let Some(mark) = self.agent.step().hook.filter(|mark| mark.hook == hook) else { return };
        let left_ms = {
            let machine = self.agent.machine.borrow();
            machine.hooks.get(&mark.token).map(|left| left.ends_at_ms.saturating_sub(self.agent.judge.now_ms()))
        };
        if let Some(left_ms) = left_ms {
            self.attend(sleep(Duration::from_millis(left_ms))).await;
            self.agent.machine.borrow_mut().hooks.remove(&mark.token);
        }
    }

    fn is_overtaken(&mut self, hook: Hook) -> bool {
        match hook {
            Hook::Drain => {
                let step = self.agent.step();
                let wanted = self.wanted(&step);
                lets_go(wanted, Go::Replace) || !matches!(wanted, Wanted::Step(_) | Wanted::NotHeard)
            }
            Hook::Install | Hook::Init => self.is_to_end(),
            _ => false,
        }
    }

    pub(super) async fn let_end(&mut self, hook: Hook) {
        self.await_survivor(hook).await;
        self.append(Event::HookEnded { hook }).await;
    }

    /// Ends the step.
    pub(super) async fn end(&mut self, ending: Ending) {
        if !matches!(self.agent.step().status, Status::Ending { .. }) {
            self.append(Event::EndBegun { ending, boot_id: self.agent.boot_id }).await;
        }
        if self.agent.step().owes_undrain() && self.agent.state.borrow().current.is_some() {
            let mut exit = self.run_hook(Hook::Undrain).await;
            for _ in 0..UNDRAIN_TRIES {
                if exit != Exit::Again {
                    break;
                }
                sleep(ASK_AGAIN).await;
                exit = self.run_hook(Hook::Undrain).await;
            }
            self.append(Event::HookEnded { hook: Hook::Undrain }).await;
            if exit != Exit::Ok && ending == Ending::Finished {
                return self.fail(Phase::Verifying, reason_of(Some(exit))).await;
            }
        }
        self.close(ending).await;
    }
}

fn reason_of(exit: Option<Exit>) -> FailureReason {
    match exit {
        Some(Exit::TimedOut) => FailureReason::HookTimeout,
        Some(Exit::Ok | Exit::Again | Exit::Reboot | Exit::Failed) | None => FailureReason::HookFailed,
    }
}
