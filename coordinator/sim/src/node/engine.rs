//! The loop: look at the journal and the orders, decide, do, again. As `node/agent/src/step/engine.rs` does it.

use std::rc::Rc;
use std::time::Duration;

use rollcall_steps::{
    Action, Ending, Event, Facts, Failure, FailureReason, Go, Milestone, OpenRefusal, Outcome, Phase, StepState,
    Wanted, check_open, decide, end_to_record,
};
use tokio::sync::watch;
use tokio::time::timeout;

use super::agent::Agent;
use super::wire::{self, GroupOrders, OrderedStep};

/// How long the first orders are waited for where a step is past commit point B.
const FIRST_WORD_LIMIT: Duration = Duration::from_secs(5);

/// How long it is waited for the coordinator to hear why the node is about to vanish.
const REPORT_LIMIT: Duration = Duration::from_secs(5);

/// Carries out the steps of the service.
pub(super) struct Engine {
    pub agent: Rc<Agent>,
    pub orders: watch::Receiver<Option<GroupOrders>>,
}

/// Carries out steps for ever.
pub(super) async fn run(agent: Rc<Agent>) {
    agent.report_milestones();
    let orders = agent.orders.subscribe();
    let mut engine = Engine { agent, orders };
    engine.begin_life().await;
    loop {
        engine.turn().await;
    }
}

impl Engine {
    /// One look, and what follows from it.
    async fn turn(&mut self) {
        let orders = self.orders.borrow_and_update().clone();
        let Some(step) = self.agent.open_step() else {
            if !self.open_if_ordered(orders.and_then(|orders| orders.step)).await {
                self.orders_changed().await;
            }
            return;
        };
        let wanted = self.wanted(&step);
        if self.is_behind(&step, orders.as_ref()) && self.fail_as_behind(&step).await {
            return;
        }
        if let Some(ending) = end_to_record(&step, wanted) {
            return self.append(Event::EndOrdered { ending }).await;
        }
        let facts = Facts { boot_id: self.agent.boot_id };
        match decide(&step, &facts, wanted) {
            Action::Rest | Action::AwaitOrders => self.orders_changed().await,
            Action::Run(phase) => self.run_phase(phase).await,
            Action::Settle(hook) => self.settle(hook).await,
            Action::Reboot => self.reboot().await,
            Action::ComeBack { from, asked_for } => {
                self.append(Event::Rebooted { from, to: self.agent.boot_id, asked_for }).await;
            }
            Action::Fail(phase, reason) => self.fail(phase, reason).await,
            Action::Verify => self.verify(&step).await,
            Action::LetEnd(hook) => self.let_end(hook).await,
            Action::End(ending) => self.end(ending).await,
        }
    }

    /// Hears the first word about a step that is past commit point B.
    async fn begin_life(&mut self) {
        let facts = Facts { boot_id: self.agent.boot_id };
        let Some(step) = self.agent.open_step() else { return };
        let action = decide(&step, &facts, Wanted::NotHeard);
        let starts_something =
            matches!(action, Action::Run(_) | Action::Settle(_) | Action::Reboot | Action::ComeBack { .. });
        if starts_something && step.end_ordered.is_none() {
            let _ = timeout(FIRST_WORD_LIMIT, self.orders.wait_for(Option::is_some)).await;
        }
    }

    /// What the orders say about the step that stands.
    pub fn wanted(&mut self, step: &StepState) -> Wanted {
        if step.opened.fence < self.agent.fence.get() {
            return Wanted::Superseded;
        }
        wanted(step, self.orders.borrow_and_update().as_ref())
    }

    /// Whether the orders want the step ended at its next boundary after commit point B.
    pub fn is_to_end(&mut self) -> bool {
        let step = self.agent.step();
        step.end_ordered.is_some() || end_to_record(&step, self.wanted(&step)).is_some()
    }

    /// Waits for what runs now. What the orders want of the step's end is recorded meanwhile.
    pub async fn attend<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        loop {
            let step = self.agent.step();
            if let Some(ending) = end_to_record(&step, self.wanted(&step)) {
                self.append(Event::EndOrdered { ending }).await;
            }
            tokio::select! {
                biased;
                done = &mut work => return done,
                () = self.orders_changed() => {}
            }
        }
    }

    async fn open_if_ordered(&mut self, ordered: Option<OrderedStep>) -> bool {
        let Some(ordered) = ordered else { return false };
        let highest = self.agent.fence.get();
        let (fence, attempt) = ordered.key();
        let checked = check_open(&self.agent.state.borrow(), highest, fence, attempt);
        if let Err(refusal) = checked {
            self.refuse_to_open(&ordered, refusal);
            return false;
        }
        self.agent.queued.set(0);
        self.agent.answered.send_replace(0);
        let is_lost = fence <= self.agent.lost_fence.get();
        let logged = ordered.logged;
        self.append(Event::StepOpened(ordered.opened)).await;
        self.agent.fence.set(self.agent.fence.get().max(fence));
        self.agent.judge.count("steps opened");
        if is_lost {
            self.fail_as_lost(logged).await;
        }
        true
    }

    fn refuse_to_open(&mut self, ordered: &OrderedStep, refusal: OpenRefusal) {
        let is_over = matches!(refusal, OpenRefusal::AlreadyClosed { .. });
        if is_over && ordered.go.is_none() && self.agent.turned_back.get() != Some(ordered.key()) {
            self.agent.turned_back.set(Some(ordered.key()));
            self.agent.report(wire::step_report(&ordered.opened, &Milestone::TurnedBack), None);
        }
    }

    fn is_behind(&self, step: &StepState, orders: Option<&GroupOrders>) -> bool {
        let ordered = orders.and_then(|orders| orders.step.as_ref());
        let is_it = |ordered: &&OrderedStep| ordered.key() == (step.opened.fence, step.opened.attempt);
        let Some(logged) = ordered.filter(is_it).and_then(|ordered| ordered.logged) else { return false };
        let machine = self.agent.machine.borrow();
        let is_running = machine.process.as_ref().is_some_and(|process| process.instance.release == step.opened.to);
        step.is_behind(logged) && !(step.switched && is_running)
    }

    async fn fail_as_behind(&mut self, step: &StepState) -> bool {
        let events = step.failed_where_it_stands(failure(FailureReason::JournalBehind), self.agent.boot_id);
        let is_failing = !events.is_empty();
        for event in events {
            self.append(event).await;
        }
        is_failing
    }

    async fn fail_as_lost(&mut self, logged: Option<Phase>) {
        let boot_id = self.agent.boot_id;
        if logged.is_some_and(|phase| phase >= Phase::Draining) {
            self.append(Event::PhaseBegun { phase: Phase::Preparing, boot_id }).await;
            self.append(Event::PhaseEnded { phase: Phase::Preparing, outcome: Outcome::Forced }).await;
            self.append(Event::PhaseBegun { phase: Phase::Draining, boot_id }).await;
        }
        let step = self.agent.step();
        self.fail_as_behind(&step).await;
    }

    /// Writes into the journal.
    pub async fn append(&self, event: Event) {
        self.agent.append(event).await;
    }

    /// The phase begins, or begins again after a crash.
    pub async fn begin(&self, phase: Phase) {
        self.append(Event::PhaseBegun { phase, boot_id: self.agent.boot_id }).await;
    }

    /// The phase is done.
    pub async fn done(&self, phase: Phase, hook_ran: bool) {
        self.append(Event::PhaseEnded { phase, outcome: Outcome::Done { hook_ran } }).await;
    }

    /// The phase has failed; `decide` ends the step.
    pub async fn fail(&self, phase: Phase, reason: FailureReason) {
        self.agent.judge.count("phases failed");
        self.append(Event::PhaseEnded { phase, outcome: Outcome::Failed(failure(reason)) }).await;
    }

    async fn reboot(&mut self) {
        let reached = u32::try_from(self.agent.step().milestones.len()).unwrap_or(u32::MAX);
        let mut answered = self.agent.answered.subscribe();
        let reported = async move { answered.wait_for(|count| *count >= reached).await.map(|_| ()) };
        let _ = self.attend(timeout(REPORT_LIMIT, reported)).await;
        if self.is_to_end() {
            return;
        }
        self.agent.judge.note(&self.agent.name, "asks for a reboot");
        self.agent.machine.borrow_mut().wants_reboot = true;
        std::future::pending::<()>().await;
    }

    /// Ends the step.
    pub async fn close(&mut self, ending: Ending) {
        if ending == Ending::TurnedBack {
            let opened = self.agent.step().opened;
            self.agent.turned_back.set(Some((opened.fence, opened.attempt)));
        }
        let step = self.agent.step();
        self.append(Event::StepClosed { ending, timings: Default::default() }).await;
        self.agent.judge.note(&self.agent.name, format_args!("closes {} as {ending:?}", step.opened.rollout));
        let runs = self.agent.machine.borrow().process.as_ref().map(|process| process.instance.release.clone());
        self.agent.judge.witness(|witness, _| {
            witness.closed(&self.agent.name, ending == Ending::Finished, &step.opened, runs.as_ref())
        });
        self.agent.urge_status();
    }

    /// Waits until the orders change.
    pub async fn orders_changed(&mut self) {
        if self.orders.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

fn wanted(step: &StepState, orders: Option<&GroupOrders>) -> Wanted {
    let Some(orders) = orders else { return Wanted::NotHeard };
    match &orders.step {
        None if orders.are_current => Wanted::Gone,
        None => Wanted::NotHeard,
        Some(ordered) if ordered.key() == (step.opened.fence, step.opened.attempt) => {
            ordered.go.map_or(Wanted::TurnBack, Wanted::Step)
        }
        Some(ordered) if ordered.key() > (step.opened.fence, step.opened.attempt) => Wanted::Superseded,
        Some(_) => Wanted::NotHeard,
    }
}

/// Whether the orders let the step go at least so far.
pub(super) fn lets_go(wanted: Wanted, go: Go) -> bool {
    matches!(wanted, Wanted::Step(ordered) if ordered >= go)
}

/// Completes once the orders let this step go so far.
pub(super) async fn until_let_go(mut orders: watch::Receiver<Option<GroupOrders>>, step: StepState, go: Go) {
    if orders.wait_for(|orders| lets_go(wanted(&step, orders.as_ref()), go)).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// A failure in a few words.
pub(super) fn failure(reason: FailureReason) -> Failure {
    Failure { reason, detail: reason.name().to_owned(), output: String::new() }
}
