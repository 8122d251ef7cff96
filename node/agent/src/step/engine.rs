//! The loop: look at the journal and the orders, decide, do, again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rollcall_ident::{Fence, ReleaseIdent};
use rollcall_steps::{
    Action, Ending, Event, Facts, Failure, FailureReason, Go, Hook, Milestone, OpenRefusal, Outcome, Phase, StepState,
    Wanted, check_open, decide, end_to_record,
};
use tokio::sync::watch;

use super::clock::StepClock;
use crate::disk::{Journal, JournalError, seal_text, write_volatile};
use crate::driver::{Backoff, ProcessView, Supervisor};
use crate::service::{GroupOrders, HealthSettings, HealthView, OrderedStep, Pace, ServiceContext, ServiceError};
use crate::session::{Answer, StepMilestone};

/// A full or read-only disk is tried again by back-off up to this; meanwhile nothing is begun.
const DISK_RETRY_LIMIT: Duration = Duration::from_secs(10);

/// Carries out the steps of one service, one after the other.
#[derive(Debug)]
pub struct Engine {
    pub(super) context: Arc<ServiceContext>,
    pub(super) journal: Arc<Mutex<Journal>>,
    pub(super) orders: watch::Receiver<Option<GroupOrders>>,
    pub(super) supervisor: Supervisor,
    pub(super) process: watch::Receiver<ProcessView>,
    pub(super) health: watch::Receiver<HealthView>,
    settings: watch::Sender<HealthSettings>,
    current: watch::Sender<Option<ReleaseIdent>>,
    urged: watch::Sender<u64>,
    /// How many milestones of the step were answered.
    pub(super) answered: watch::Sender<u32>,
    pub(super) clock: StepClock,
    /// How many milestones of the step are in the outbox, or were.
    queued: u32,
    /// The closed step whose turn back was last reported: while the answer is awaited the orders still ask for it.
    pub(super) turned_back: Option<(Fence, u32)>,
    /// The exits that the process had before this step started it.
    pub(super) exits_before: u64,
}

/// What the engine hears, and who hears of it.
#[derive(Debug)]
pub struct Surroundings {
    /// What is wanted of the service.
    pub orders: watch::Receiver<Option<GroupOrders>>,
    /// How it is.
    pub health: watch::Receiver<HealthView>,
    /// How its health is to be watched.
    pub settings: watch::Sender<HealthSettings>,
    /// The release that runs, or would be started.
    pub current: watch::Sender<Option<ReleaseIdent>>,
    /// Counted up where the status should be reported again.
    pub urged: watch::Sender<u64>,
}

impl Engine {
    /// An engine over a recovered journal.
    #[must_use]
    pub fn new(
        context: Arc<ServiceContext>,
        journal: Arc<Mutex<Journal>>,
        supervisor: Supervisor,
        surroundings: Surroundings,
    ) -> Self {
        let Surroundings { orders, health, settings, current, urged } = surroundings;
        let process = supervisor.view();
        let queued = lock(&journal).state().step.as_ref().map_or(0, |step| step.reported);
        Self {
            context,
            journal,
            orders,
            supervisor,
            process,
            health,
            settings,
            current,
            urged,
            answered: watch::Sender::new(queued),
            clock: StepClock::start(),
            queued,
            turned_back: None,
            exits_before: 0,
        }
    }

    /// Carries out steps for ever.
    ///
    /// # Errors
    /// [`ServiceError`] where the journal and the code contradict each other.
    pub async fn run(mut self) -> Result<(), ServiceError> {
        self.note_current();
        self.report_milestones();
        self.begin_life().await;
        loop {
            self.set_pace();
            let orders = self.orders.borrow_and_update().clone();
            let Some(step) = self.open_step() else {
                if !self.open_if_ordered(orders.and_then(|orders| orders.step)).await? {
                    self.orders_changed().await;
                }
                continue;
            };
            let wanted = self.wanted(&step);
            if self.is_behind(&step, orders.as_ref()) && self.fail_as_behind(&step).await? {
                continue;
            }
            if let Some(ending) = end_to_record(&step, wanted) {
                self.append(&[Event::EndOrdered { ending }]).await?;
                self.log_ordered_end(ending);
                continue;
            }
            let facts = Facts { boot_id: self.context.node.boot_id };
            let action = decide(&step, &facts, wanted);
            tracing::debug!(group = %self.context.group, status = ?step.status, ?action, "step");
            match action {
                Action::Rest | Action::AwaitOrders => self.orders_changed().await,
                Action::Run(phase) => self.run_phase(phase).await?,
                Action::Settle(hook) => self.settle(hook).await?,
                Action::Reboot => self.reboot().await?,
                Action::ComeBack { from, asked_for } => {
                    let to = self.context.node.boot_id;
                    self.append(&[Event::Rebooted { from, to, asked_for }]).await?;
                }
                Action::Fail(phase, reason) => {
                    let detail = format!("the machine has rebooted {} times in this step", step.reboots);
                    self.fail(phase, Failure { reason, detail, output: String::new() }).await?;
                }
                Action::Verify => self.verify(&step).await?,
                Action::LetEnd(hook) => self.let_end(hook).await?,
                Action::End(ending) => self.end(ending).await?,
            }
        }
    }

    async fn run_phase(&mut self, phase: Phase) -> Result<(), JournalError> {
        match phase {
            Phase::Preparing => self.prepare().await,
            Phase::Draining => self.drain().await,
            Phase::Stopping => self.stop().await,
            Phase::Installing => self.install().await,
            Phase::Starting => self.start(true).await,
            Phase::Rebooting | Phase::Verifying => unreachable!("decide never runs {phase:?}"),
        }
    }

    /// The step, if one is open.
    pub(super) fn open_step(&self) -> Option<StepState> {
        lock(&self.journal).state().open_step().cloned()
    }

    /// The step that stands.
    pub(super) fn step(&self) -> StepState {
        self.open_step().expect("only called while a step is open")
    }

    /// What the orders say about the step that stands.
    pub(super) fn wanted(&mut self, step: &StepState) -> Wanted {
        if step.opened.fence < self.context.node.fence.get() {
            // This node holds another grant, or has held one since: a node holds at most one.
            return Wanted::Superseded;
        }
        wanted(step, self.orders.borrow_and_update().as_ref())
    }

    /// Whether the orders, heard by now or recorded, want the step ended at its next boundary after commit point B.
    pub(super) fn is_to_end(&mut self) -> bool {
        let step = self.step();
        step.end_ordered.is_some() || end_to_record(&step, self.wanted(&step)).is_some()
    }

    /// Waits for what runs now to come to its end. What the orders want of the step's end is recorded meanwhile, so that
    /// it is known whatever dies before that.
    pub(super) async fn attend<T>(&mut self, work: impl Future<Output = T>) -> Result<T, JournalError> {
        let mut work = std::pin::pin!(work);
        loop {
            let step = self.step();
            if let Some(ending) = end_to_record(&step, self.wanted(&step)) {
                match lock(&self.journal).append(&[Event::EndOrdered { ending }]) {
                    Ok(()) => self.log_ordered_end(ending),
                    // What runs can't wait for the disk; it is recorded before the next phase.
                    Err(JournalError::Disk(error)) => {
                        tracing::warn!(group = %self.context.group, %error, "not recorded yet")
                    }
                    Err(error) => return Err(error),
                }
            }
            tokio::select! {
                done = &mut work => return Ok(done),
                () = self.orders_changed() => {}
            }
        }
    }

    fn log_ordered_end(&self, ending: Ending) {
        tracing::warn!(group = %self.context.group, "the step ends at its next boundary, by order ending={ending:?}");
    }

    /// Whether anything was opened.
    async fn open_if_ordered(&mut self, ordered: Option<OrderedStep>) -> Result<bool, JournalError> {
        let Some(ordered) = ordered else { return Ok(false) };
        let highest = self.context.node.fence.get();
        let checked = check_open(lock(&self.journal).state(), highest, ordered.opened.fence, ordered.opened.attempt);
        if let Err(refusal) = checked {
            self.refuse_to_open(&ordered, refusal);
            return Ok(false);
        }
        let fence = ordered.opened.fence;
        self.queued = 0;
        self.answered.send_replace(0);
        self.clock = StepClock::start();
        let is_lost = self.is_lost(&ordered);
        let logged = ordered.logged;
        self.append(&[Event::StepOpened(ordered.opened)]).await?;
        self.context.node.fence.raise(fence);
        if is_lost {
            self.fail_as_lost(logged).await?;
        }
        Ok(true)
    }

    /// A step that is over has nothing left to undo, whatever the coordinator still believes: it is told so.
    fn refuse_to_open(&mut self, ordered: &OrderedStep, refusal: OpenRefusal) {
        let is_over = matches!(refusal, OpenRefusal::AlreadyClosed { .. });
        if is_over && ordered.go.is_none() && self.turned_back != Some(ordered.key()) {
            self.turned_back = Some(ordered.key());
            let report = StepMilestone {
                group: self.context.group.clone(),
                rollout: ordered.opened.rollout,
                fence: ordered.opened.fence,
                attempt: ordered.opened.attempt,
                milestone: Milestone::TurnedBack,
            };
            self.context.node.outbox.push_step(report, |_| {});
        } else if is_over {
            // Most often the coordinator hasn't heard of the end yet.
            tracing::debug!(group = %self.context.group, %refusal, "not opening a step");
        } else {
            tracing::warn!(group = %self.context.group, rollout = %ordered.opened.rollout, %refusal, "not opening a step");
        }
    }

    /// Appends to the journal. A disk that refuses is tried again for as long as it takes: without the record nothing may
    /// go on.
    pub(super) async fn append(&mut self, events: &[Event]) -> Result<(), JournalError> {
        let mut backoff = Backoff::new(Duration::from_millis(250), DISK_RETRY_LIMIT);
        let mut is_logged = false;
        loop {
            let appended = lock(&self.journal).append(events);
            match appended {
                Ok(()) => break,
                Err(JournalError::Disk(error)) => {
                    if !is_logged {
                        tracing::error!(group = %self.context.group, %error, "the step waits for the disk");
                        is_logged = true;
                    }
                    tokio::time::sleep(backoff.next_delay()).await;
                }
                Err(error) => return Err(error),
            }
        }
        self.note_current();
        self.report_milestones();
        Ok(())
    }

    fn note_current(&mut self) {
        let state = lock(&self.journal).state().clone();
        let in_use = [&state.current, &state.previous].into_iter().flatten().cloned().collect();
        self.context.node.note_in_use(&self.context.group, in_use);
        let current = state.current;
        if *self.current.borrow() != current {
            let text = current.as_ref().map_or_else(String::new, |release| format!("{release}\n"));
            if let Err(error) = write_volatile(&self.context.layout.current(), seal_text(&text).as_bytes()) {
                tracing::warn!(%error, "the second copy of the current release is old");
            }
            self.current.send_replace(current);
        }
    }

    /// The phase has failed; `decide` ends the step.
    pub(super) async fn fail(&mut self, phase: Phase, failure: Failure) -> Result<(), JournalError> {
        let group = &self.context.group;
        tracing::error!(%group, phase = phase.name(), reason = failure.reason.name(), "{}", failure.detail);
        self.context.node.metrics.note_failure(group, failure.reason.name());
        self.append(&[Event::PhaseEnded { phase, outcome: Outcome::Failed(failure) }]).await
    }

    /// The phase is done.
    pub(super) async fn done(&mut self, phase: Phase, hook_ran: bool) -> Result<(), JournalError> {
        self.append(&[Event::PhaseEnded { phase, outcome: Outcome::Done { hook_ran } }]).await
    }

    /// The log went on without the phase's hook.
    pub(super) async fn forced(&mut self, phase: Phase) -> Result<(), JournalError> {
        tracing::warn!(group = %self.context.group, phase = phase.name(), "forced: nobody waits for the hook any more");
        self.append(&[Event::PhaseEnded { phase, outcome: Outcome::Forced }]).await
    }

    /// The phase begins, or begins again after a crash.
    pub(super) async fn begin(&mut self, phase: Phase) -> Result<(), JournalError> {
        let boot_id = self.context.node.boot_id;
        self.append(&[Event::PhaseBegun { phase, boot_id }]).await
    }

    /// Queues what the coordinator hasn't heard yet.
    fn report_milestones(&mut self) {
        let journal = lock(&self.journal);
        let Some(step) = &journal.state().step else { return };
        let key = (step.opened.fence, step.opened.attempt);
        let fresh: Vec<_> = step.unreported().skip_while(|(index, _)| *index < self.queued).collect();
        for (index, milestone) in fresh {
            let report = StepMilestone {
                group: self.context.group.clone(),
                rollout: step.opened.rollout,
                fence: key.0,
                attempt: key.1,
                milestone: milestone.clone(),
            };
            let on_answer = note_answer(Arc::clone(&self.journal), self.answered.clone(), key, index + 1);
            self.context.node.outbox.push_step(report, on_answer);
            self.queued = index + 1;
        }
    }

    /// Says how the service stands once more: after a milestone that the coordinator judges it by.
    pub(super) fn urge_status(&self) {
        self.urged.send_modify(|count| *count += 1);
    }

    fn set_pace(&self) {
        let rules = self.orders.borrow().as_ref().map(|orders| orders.health).unwrap_or_default();
        let is_starting = self.open_step().is_some_and(|step| step.switched);
        let pace = if is_starting { Pace::Verifying } else { Pace::Idle };
        self.settings.send_if_modified(|settings| {
            let next = HealthSettings { rules, pace };
            let is_new = *settings != next;
            *settings = next;
            is_new
        });
    }

    pub(super) async fn orders_changed(&mut self) {
        if self.orders.changed().await.is_err() {
            // The agent is going down.
            std::future::pending::<()>().await;
        }
    }
}

pub(super) fn lock(journal: &Mutex<Journal>) -> MutexGuard<'_, Journal> {
    journal.lock().unwrap_or_else(PoisonError::into_inner)
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
        // A lower fence is of the past: as if nothing had been heard.
        Some(_) => Wanted::NotHeard,
    }
}

/// Remembers that the first `count` milestones of this step were answered. Losing that only means reporting again.
fn note_answer(
    journal: Arc<Mutex<Journal>>,
    answered: watch::Sender<u32>,
    key: (Fence, u32),
    count: u32,
) -> impl FnOnce(&Answer) + Send + 'static {
    move |answer| {
        tracing::debug!(fence = %key.0, milestone = count, "answered");
        if !answer.refusal.is_empty() {
            tracing::warn!(fence = %key.0, milestone = count, refusal = answer.refusal, "{}", answer.message);
        }
        let mut journal = lock(&journal);
        let step = journal.state().step.as_ref();
        if step.is_some_and(|step| (step.opened.fence, step.opened.attempt) == key && step.reported < count) {
            if let Err(error) = journal.append(&[Event::Reported { count }]) {
                tracing::debug!(%error, "an answer isn't remembered");
            }
            answered.send_replace(count);
        }
    }
}

/// Whether the orders let the step go at least so far.
pub(super) fn lets_go(wanted: Wanted, go: Go) -> bool {
    matches!(wanted, Wanted::Step(ordered) if ordered >= go)
}

/// Completes once the orders don't wait for this hook any more: they let the step go so far without its answer, or end the
/// step and have no time for it. A question can be left unanswered at any time; a drain is ended only where it has had its
/// time.
pub(super) async fn until_spared(
    mut orders: watch::Receiver<Option<GroupOrders>>,
    step: StepState,
    hook: Hook,
    go: Go,
) {
    let is_spared = |orders: &Option<GroupOrders>| {
        let orders = orders.as_ref();
        let wanted = wanted(&step, orders);
        let ends = !matches!(wanted, Wanted::Step(_) | Wanted::NotHeard);
        lets_go(wanted, go) || ends && (hook == Hook::ReadyToUpdate || cuts_drain(&step, orders))
    };
    if orders.wait_for(is_spared).await.is_err() {
        // The agent is going down.
        std::future::pending::<()>().await;
    }
}

/// Whether a drain of this step that still runs is to be ended.
pub(super) fn cuts_drain(step: &StepState, orders: Option<&GroupOrders>) -> bool {
    let ordered = orders.and_then(|orders| orders.step.as_ref());
    ordered.is_some_and(|it| it.key() == (step.opened.fence, step.opened.attempt) && it.go.is_none() && it.cut_drain)
}

/// A failure of the agent's own.
pub(super) fn failure(reason: FailureReason, detail: impl ToString) -> Failure {
    Failure { reason, detail: detail.to_string(), output: String::new() }
}
