//! The agent's parts, and what they share.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use rollcall_ident::{BootId, Fence};
use rollcall_proto::v1;
use rollcall_steps::{Event, Hook, ServicePlan, ServiceState, StepState};
use tokio::sync::{Mutex, Notify, watch};
use tokio::time::sleep;

use super::machine::Machine;
use super::outbox::Outbox;
use super::wire::{self, GroupOrders};
use super::{GROUP, engine, session};
use crate::judge::{Begin, Judge};
use crate::planted::{Planted, is_planted};

/// How often a service is looked at that nothing happens to, and one that was just started.
const IDLE_PACE: Duration = Duration::from_millis(500);
const VERIFYING_PACE: Duration = Duration::from_millis(100);

/// After an exit.
const RESTART_AFTER_MS: u64 = 500;

/// One life of an agent: everything in it is lost with it, but for the machine.
pub(super) struct Agent {
    pub name: String,
    pub machine: Rc<RefCell<Machine>>,
    pub judge: Judge,
    pub boot_id: BootId,
    pub state: RefCell<ServiceState>,
    pub orders: watch::Sender<Option<GroupOrders>>,
    pub outbox: RefCell<Outbox>,
    pub outgoing: Notify,
    /// Counted up when the process changes.
    pub process: watch::Sender<u64>,
    /// The highest fence that the node, or the cluster, knows of, and the highest that the node has lost.
    pub fence: Cell<Fence>,
    pub lost_fence: Cell<Fence>,
    /// How many milestones of the step are in the outbox, or were; and how many were answered.
    pub queued: Cell<u32>,
    pub answered: watch::Sender<u32>,
    pub turned_back: Cell<Option<(Fence, u32)>>,
    pub exits_before: Cell<u64>,
    pub has_session: Cell<bool>,
    is_urged: Cell<bool>,
    writing: Mutex<()>,
}

/// Runs an agent until it dies.
pub async fn run(machine: Rc<RefCell<Machine>>, endpoints: Vec<String>, judge: Judge) -> turmoil::Result {
    let agent = Rc::new(Agent::recover(machine, judge));
    tokio::task::spawn_local(mind(agent.clone()));
    tokio::task::spawn_local(watch_health(agent.clone()));
    tokio::task::spawn_local(prefetch(agent.clone()));
    tokio::task::spawn_local(session::run(agent.clone(), endpoints));
    engine::run(agent).await;
    Ok(())
}

impl Agent {
    fn recover(machine: Rc<RefCell<Machine>>, judge: Judge) -> Self {
        let (name, boot_id, state) = {
            let machine = machine.borrow();
            let state = ServiceState::from_events(&machine.journal)
                .unwrap_or_else(|impossible| panic!("the journal of {}: {impossible}", machine.name));
            (machine.name.clone(), machine.boot_id(), state)
        };
        let reported = state.step.as_ref().map_or(0, |step| step.reported);
        if let Some(step) = state.step.as_ref().filter(|step| step.is_closed()) {
            judge.witness(|witness, _| {
                witness.found_closed(&name, &step.opened);
                None
            });
        }
        judge.note(&name, format_args!("agent begins with {:?}", state.step.as_ref().map(|step| &step.status)));
        Self {
            name,
            machine,
            judge,
            boot_id,
            fence: Cell::new(state.fence),
            lost_fence: Cell::new(Fence::default()),
            state: RefCell::new(state),
            orders: watch::Sender::new(None),
            outbox: RefCell::default(),
            outgoing: Notify::new(),
            process: watch::Sender::new(0),
            queued: Cell::new(reported),
            answered: watch::Sender::new(reported),
            turned_back: Cell::new(None),
            exits_before: Cell::new(0),
            has_session: Cell::new(false),
            is_urged: Cell::new(false),
            writing: Mutex::new(()),
        }
    }

    /// The step, if one is open.
    pub fn open_step(&self) -> Option<StepState> {
        self.state.borrow().open_step().cloned()
    }

    /// The step that stands.
    pub fn step(&self) -> StepState {
        self.open_step().expect("only called while a step is open")
    }

    /// Writes into the journal, and syncs where the event asks for it. What isn't durable isn't known to anybody yet.
    pub async fn append(&self, event: Event) {
        let _one_at_a_time = self.writing.lock().await;
        let is_mark = matches!(event, Event::HookStarted { .. });
        let is_synced = event.is_synced() && !(is_mark && is_planted(Planted::UnsyncedMark));
        let (end, pause_ms) = {
            let mut machine = self.machine.borrow_mut();
            machine.journal.push(event.clone());
            let sync_ms = machine.sync_ms;
            (machine.journal.len(), 1 + machine.draw(sync_ms))
        };
        if is_synced {
            // CRASH: written, and not synced: it is there for an agent that starts again, and a power cut may take it.
            sleep(Duration::from_millis(pause_ms)).await;
            self.machine.borrow_mut().synced = end;
        }
        self.fold(&event);
    }

    /// The first milestones of this step were answered. Where the journal is being written, nobody remembers that.
    pub fn note_answer(&self, key: (Fence, u32), count: u32) {
        let is_of_step = |step: &StepState| (step.opened.fence, step.opened.attempt) == key && step.reported < count;
        if !self.state.borrow().step.as_ref().is_some_and(is_of_step) {
            return;
        }
        if let Ok(_writing) = self.writing.try_lock() {
            let event = Event::Reported { count };
            self.machine.borrow_mut().journal.push(event.clone());
            self.fold(&event);
        }
        self.answered.send_replace(count);
    }

    fn fold(&self, event: &Event) {
        let folded = self.state.borrow_mut().apply(event);
        folded.unwrap_or_else(|impossible| panic!("{}: {impossible}", self.name));
        if let Some(step) = self.open_step().filter(|step| step.installed) {
            self.judge.witness(|witness, _| {
                witness.installed(&self.name, &step.opened.to);
                None
            });
        }
        self.report_milestones();
    }

    /// Queues what the coordinator hasn't heard yet.
    pub fn report_milestones(&self) {
        let state = self.state.borrow();
        let Some(step) = &state.step else { return };
        let key = (step.opened.fence, step.opened.attempt);
        for (index, milestone) in step.unreported().skip_while(|(index, _)| *index < self.queued.get()) {
            self.judge.witness(|witness, _| {
                witness.tells(&self.name, step.opened.fence, milestone);
                None
            });
            self.report(wire::step_report(&step.opened, milestone), Some((key, index + 1)));
            self.queued.set(index + 1);
        }
    }

    /// Queues a report.
    pub fn report(&self, kind: v1::report::Kind, milestone: Option<((Fence, u32), u32)>) {
        if matches!(kind, v1::report::Kind::Step(_)) {
            self.machine.borrow_mut().note_said(&kind);
        }
        self.outbox.borrow_mut().push(kind, milestone);
        self.outgoing.notify_one();
    }

    /// Has the status said once more.
    pub fn urge_status(&self) {
        self.is_urged.set(true);
    }

    /// Tells the witness that a hook begins. What is to be told when it ends.
    pub fn witness_begin(&self, hook: Hook) -> Begin {
        let opened = self.step().opened;
        let begin = Begin {
            node: self.name.clone(),
            rollout: opened.rollout,
            fence: opened.fence,
            attempt: opened.attempt,
            hook,
            release: opened.to.bare(),
            boot_id: self.boot_id,
        };
        let what = format!("begins {} {} fence {} attempt {}", hook.name(), begin.rollout, begin.fence, begin.attempt);
        self.judge.note(&self.name, what);
        self.judge.count("hooks begun");
        self.judge.witness(|witness, _| witness.begin(&begin));
        begin
    }

    /// How the service stands.
    pub fn status(&self) -> v1::ServiceStatus {
        let now_ms = self.judge.now_ms();
        let mut machine = self.machine.borrow_mut();
        let is_well = machine.is_well(now_ms);
        let current = self.state.borrow().current.clone();
        let health = match (&current, is_well) {
            (None, _) => v1::Health::Unprovisioned,
            (Some(_), true) => v1::Health::Healthy,
            (Some(_), false) => v1::Health::Critical,
        };
        let release = |ident: Option<&rollcall_ident::ReleaseIdent>| ident.map(ToString::to_string).unwrap_or_default();
        v1::ServiceStatus {
            group: GROUP.to_owned(),
            release: release(current.as_ref()),
            instance: machine.process.as_ref().map(|process| wire::instance(&process.instance)),
            health: health.into(),
            prefetched: release(machine.prefetched.as_ref().filter(|ident| Some(*ident) != current.as_ref())),
            ..v1::ServiceStatus::default()
        }
    }

    /// Starts a release's process, now.
    pub fn start_process(&self, release: &rollcall_ident::ReleaseIdent) -> rollcall_steps::Instance {
        let now_ms = self.judge.now_ms();
        let instance = self.machine.borrow_mut().start(release, now_ms);
        self.judge.note(&self.name, format_args!("starts {release} as {}", instance.pid));
        self.process.send_modify(|count| *count += 1);
        instance
    }
}

/// Keeps the service up where the journal wants it up, and sees when it has ended.
async fn mind(agent: Rc<Agent>) {
    let mut last = agent.machine.borrow().process.as_ref().map(|process| process.instance.clone());
    let mut gone_at_ms = 0;
    loop {
        let now_ms = agent.judge.now_ms();
        let instance = {
            let mut machine = agent.machine.borrow_mut();
            machine.is_well(now_ms);
            machine.process.as_ref().map(|process| process.instance.clone())
        };
        if instance != last {
            gone_at_ms = now_ms;
            last.clone_from(&instance);
            agent.process.send_modify(|count| *count += 1);
        }
        let is_wanted = ServicePlan::of(&agent.state.borrow()) == ServicePlan::KeepUp;
        if is_wanted && instance.is_none() && now_ms >= gone_at_ms + RESTART_AFTER_MS {
            let current = agent.state.borrow().current.clone();
            last = current.map(|release| agent.start_process(&release));
        }
        sleep(Duration::from_millis(50)).await;
    }
}

/// Reports how the service stands whenever that changes.
async fn watch_health(agent: Rc<Agent>) {
    let mut last = None;
    loop {
        let status = agent.status();
        if agent.is_urged.replace(false) || last.as_ref() != Some(&status) {
            last = Some(status.clone());
            agent.report(v1::report::Kind::Status(status), None);
        }
        let again = agent.machine.borrow_mut().take_repeated();
        again.into_iter().for_each(|kind| {
            agent.judge.count("reports repeated");
            agent.outbox.borrow_mut().push(kind, None);
            agent.outgoing.notify_one();
        });
        let is_switched = agent.open_step().is_some_and(|step| step.switched);
        sleep(if is_switched { VERIFYING_PACE } else { IDLE_PACE }).await;
    }
}

/// Fetches what the orders name.
async fn prefetch(agent: Rc<Agent>) {
    let mut orders = agent.orders.subscribe();
    let mut reported = None;
    loop {
        let wanted = orders.borrow_and_update().as_ref().and_then(|orders| orders.prefetch.clone());
        if let Some(release) = wanted.filter(|release| reported.as_ref() != Some(release)) {
            let takes_ms = 50 + agent.machine.borrow_mut().draw(1_000);
            sleep(Duration::from_millis(takes_ms)).await;
            agent.machine.borrow_mut().prefetched = Some(release.clone());
            agent.report(wire::prefetched(&release), None);
            reported = Some(release);
            continue;
        }
        if orders.changed().await.is_err() {
            return;
        }
    }
}
