//! Driver `supervise`: the agent starts `init`, then `run`, and sees that the process stays up.
//!
//! The process leads a group of its own, writes its own log, and outlives the agent. An actor owns it; everybody else
//! sees a [`ProcessView`].

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rollcall_steps::{Hook, Instance, RunToken};
use rustix::process::Signal;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};

use super::Backoff;
use super::log::{bound_log, open_log};
use super::record::{Found, INSTANCE_MARK, mark_of, mark_prefix, store_record};
use crate::hooks::{Exit, HOOK_TOKEN, HookEnd, HookReason, StepFacts};
use crate::package::{Release, StopSignal};
use crate::process::{Process, SpawnError, kill_by_environment};
use crate::service::ServiceContext;

/// A process that was up for so long was healthy a while: the next restart is quick again.
const SETTLED_AFTER: Duration = Duration::from_secs(30);

/// How often the size of the service's log is looked at.
const LOG_INTERVAL: Duration = Duration::from_secs(5);

/// A killed process is gone at once, unless the kernel holds it (a dead disk, a hung mount).
const KILL_LIMIT: Duration = Duration::from_secs(60);

/// What everybody may know about the process.
#[derive(Debug, Clone, Default)]
pub struct ProcessView {
    /// The process; none: none runs.
    pub instance: Option<Instance>,
    /// Since when.
    pub up_since: Option<Instant>,
    /// It was started by an earlier life of the agent.
    pub is_adopted: bool,
    /// How often it has exited by itself while this agent watched.
    pub exit_count: u64,
    /// How it last did.
    pub last_exit: Option<String>,
}

/// The end of the old process was observed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped {
    /// It outlived its `stop_timeout`.
    pub killed: bool,
}

/// It survived even KILL.
#[derive(Debug, Clone, thiserror::Error)]
#[error("process {pid} is still there {KILL_LIMIT:?} after it was killed")]
pub struct StopFailed {
    pid: u32,
}

enum Order {
    KeepUp {
        release: Arc<Release>,
        reason: HookReason,
    },
    Start {
        release: Arc<Release>,
        step: Box<StepFacts>,
        reason: HookReason,
        reply: oneshot::Sender<Result<Instance, SpawnError>>,
    },
    Stop {
        reply: oneshot::Sender<Result<Stopped, StopFailed>>,
    },
}

/// Talks to the actor.
#[derive(Debug, Clone)]
pub struct Supervisor {
    commands: mpsc::Sender<Order>,
    view: watch::Receiver<ProcessView>,
}

impl Supervisor {
    /// Starts the actor, with the process that was re-adopted, if any.
    #[must_use]
    pub fn spawn(context: Arc<ServiceContext>, running: Option<Found>) -> Self {
        // BOUND: the step engine is the only caller and waits for each answer.
        let (commands, inbox) = mpsc::channel(4);
        let (sender, view) = watch::channel(ProcessView::default());
        let mut actor = Actor { context, view: sender, state: State::Down, wanted: None, backoff: Backoff::standard() };
        if let Some(Found { process, instance, start }) = running {
            tracing::info!(group = %actor.context.group, pid = instance.pid, release = %instance.release, "re-adopted");
            store_record(&actor.context.layout, &instance, &start);
            let age = process.age();
            actor.set_up(process, instance, age);
            actor.view.send_modify(|view| view.is_adopted = true);
        }
        tokio::spawn(actor.run(inbox));
        Self { commands, view }
    }

    /// The process as it stands, and every change of it.
    #[must_use]
    pub fn view(&self) -> watch::Receiver<ProcessView> {
        self.view.clone()
    }

    /// From now on this release should be up: whatever runs is kept, else it is started.
    pub async fn keep_up(&self, release: Arc<Release>, reason: HookReason) {
        self.send(Order::KeepUp { release, reason }).await;
    }

    /// Starts this release for a step; its `init` has run. From now on it should be up.
    ///
    /// # Errors
    /// [`SpawnError`]
    pub async fn start(
        &self,
        release: Arc<Release>,
        reason: HookReason,
        step: StepFacts,
    ) -> Result<Instance, SpawnError> {
        let (reply, answer) = oneshot::channel();
        self.send(Order::Start { release, step: Box::new(step), reason, reply }).await;
        never_if_gone(answer).await
    }

    /// Stops whatever runs; from now on nothing should be up.
    ///
    /// # Errors
    /// [`StopFailed`]
    pub async fn stop(&self) -> Result<Stopped, StopFailed> {
        let (reply, answer) = oneshot::channel();
        self.send(Order::Stop { reply }).await;
        never_if_gone(answer).await
    }

    async fn send(&self, command: Order) {
        // The actor only ends with the runtime.
        let _ = self.commands.send(command).await;
    }
}

async fn never_if_gone<T>(answer: oneshot::Receiver<T>) -> T {
    match answer.await {
        Ok(answer) => answer,
        Err(_) => std::future::pending().await,
    }
}

/// What should be up.
struct Wanted {
    release: Arc<Release>,
    /// Of the next start.
    reason: HookReason,
}

#[allow(clippy::large_enum_variant, reason = "there is one for each service")]
enum State {
    Down,
    /// To be started at this moment.
    Due(Instant),
    /// `init` runs before a restart.
    Init {
        task: JoinHandle<HookEnd>,
        token: RunToken,
    },
    Up {
        process: Process,
        instance: Instance,
        since: Instant,
    },
}

enum Event {
    Order(Option<Order>),
    Due,
    InitEnded(HookEnd),
    Exited,
    LookAtLog,
}

struct Actor {
    context: Arc<ServiceContext>,
    view: watch::Sender<ProcessView>,
    state: State,
    wanted: Option<Wanted>,
    backoff: Backoff,
}

impl Actor {
    async fn run(mut self, mut inbox: mpsc::Receiver<Order>) {
        let mut log_ticks = interval(LOG_INTERVAL);
        log_ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let event = tokio::select! {
                command = inbox.recv() => Event::Order(command),
                event = next_event(&mut self.state) => event,
                _ = log_ticks.tick() => Event::LookAtLog,
            };
            match event {
                Event::Order(None) => return,
                Event::Order(Some(command)) => self.obey(command).await,
                Event::Due => self.start_init(),
                Event::InitEnded(end) => self.after_init(&end).await,
                Event::Exited => self.after_exit().await,
                Event::LookAtLog => bound_log(&self.context.layout.log("run")),
            }
        }
    }

    async fn obey(&mut self, command: Order) {
        match command {
            Order::KeepUp { release, reason } => {
                self.wanted = Some(Wanted { release, reason });
                if matches!(self.state, State::Down) {
                    self.state = State::Due(Instant::now());
                }
            }
            Order::Start { release, step, reason, reply } => {
                self.backoff.reset();
                let started = self.start(&release, reason, Some(*step)).await;
                self.wanted = Some(Wanted { release, reason: HookReason::Crash });
                if started.is_err() {
                    self.state = State::Down;
                }
                let _ = reply.send(started);
            }
            Order::Stop { reply } => {
                self.wanted = None;
                let stopped = self.stop().await;
                let _ = reply.send(stopped);
            }
        }
    }

    fn start_init(&mut self) {
        let Some(wanted) = &self.wanted else {
            self.state = State::Down;
            return;
        };
        self.context.hand_over(&wanted.release);
        let token = RunToken(*uuid::Uuid::new_v4().as_bytes());
        let run = self.context.hook_run(&wanted.release, Hook::Init, wanted.reason, None, token);
        match run {
            Some(run) => self.state = State::Init { task: tokio::spawn(run.run()), token },
            None => {
                let end = HookEnd { exit: Exit::Code(0), output: Default::default(), took: Duration::ZERO };
                self.state = State::Init { task: tokio::spawn(async { end }), token };
            }
        }
    }

    async fn after_init(&mut self, end: &HookEnd) {
        let Some(Wanted { release, reason }) = &self.wanted else {
            self.state = State::Down;
            return;
        };
        let (release, reason) = (Arc::clone(release), *reason);
        if end.exit != Exit::Code(0) {
            return self.note_failed_start(format!("hook init {}", end.exit));
        }
        if let Err(error) = self.start(&release, reason, None).await {
            self.note_failed_start(error.to_string());
        }
    }

    /// Starts `run`. Whatever ran before is gone.
    async fn start(
        &mut self,
        release: &Arc<Release>,
        reason: HookReason,
        step: Option<StepFacts>,
    ) -> Result<Instance, SpawnError> {
        // Nothing that an earlier process has left behind may run beside this one.
        self.kill_stragglers().await;
        let context = &self.context;
        let program = release.path.join("hooks").join(Hook::Run.name());
        let error = |source| SpawnError { program: program.display().to_string(), source };
        let out = open_log(&context.layout.log("run")).map_err(error)?;
        let err = out.try_clone().map_err(error)?;
        let user = context.user_for(release, Hook::Run).map_err(|why| error(std::io::Error::other(why)))?;
        let mut command = Command::new(&program);
        command.current_dir(context.layout.root()).stdin(Stdio::null()).stdout(out).stderr(err);
        context.environment(release, reason, step).apply(&mut command);
        let start = RunToken(*uuid::Uuid::new_v4().as_bytes());
        let prefix = mark_prefix(context.node.node_id, &context.group);
        command.env(INSTANCE_MARK, mark_of(&prefix, &release.ident, start));
        if let Some((uid, gid)) = user {
            command.uid(uid).gid(gid);
        }
        let process = Process::spawn(&mut command).await?;
        // CRASH: here the mark in its environment finds it.
        let instance = Instance {
            pid: process.pid(),
            start_time: process.start_time(),
            boot_id: context.node.boot_id,
            release: release.ident.clone(),
        };
        store_record(&context.layout, &instance, &start.to_string());
        tracing::info!(group = %context.group, pid = instance.pid, release = %instance.release, "started");
        self.set_up(process, instance.clone(), Duration::ZERO);
        Ok(instance)
    }

    fn set_up(&mut self, process: Process, instance: Instance, age: Duration) {
        let now = Instant::now();
        let since = now.checked_sub(age).unwrap_or(now);
        self.view.send_modify(|view| {
            view.instance = Some(instance.clone());
            view.up_since = Some(since);
            view.is_adopted = false;
        });
        self.state = State::Up { process, instance, since };
    }

    async fn after_exit(&mut self) {
        let State::Up { mut process, instance, since } = std::mem::replace(&mut self.state, State::Down) else {
            return;
        };
        // What it left behind in its group must not run beside its successor.
        let left_in_group = process.has_company();
        process.signal_group(Signal::KILL);
        let how = process.reap().map_or_else(|| "exited".to_owned(), |status| Exit::from(status).to_string());
        let left_behind = self.kill_stragglers().await > 0 || left_in_group;
        if since.elapsed() >= SETTLED_AFTER {
            self.backoff.reset();
        }
        tracing::warn!(group = %self.context.group, pid = instance.pid, %how, "the service has ended by itself");
        if let Some(wanted) = &mut self.wanted {
            wanted.reason = HookReason::Crash;
        }
        // It has put itself into the background: nobody could tell that process from any other.
        let daemon = if left_behind && how == Exit::Code(0).to_string() {
            "; what it had left behind was ended: `run` must stay in the foreground"
        } else {
            ""
        };
        self.note_failed_start(format!("the process {how}{daemon}"));
    }

    /// Its exit, or that it couldn't even be started: try again, later and later.
    fn note_failed_start(&mut self, why: String) {
        self.view.send_modify(|view| {
            view.instance = None;
            view.up_since = None;
            view.exit_count += 1;
            view.last_exit = Some(why);
        });
        self.state = match self.wanted {
            Some(_) => State::Due(Instant::now() + self.backoff.next_delay()),
            None => State::Down,
        };
    }

    async fn stop(&mut self) -> Result<Stopped, StopFailed> {
        match std::mem::replace(&mut self.state, State::Down) {
            State::Down | State::Due(_) => {
                self.kill_stragglers().await;
                Ok(Stopped { killed: false })
            }
            State::Init { task, token } => {
                let token = token.to_string();
                let _ =
                    tokio::task::spawn_blocking(move || kill_by_environment(HOOK_TOKEN, |value| value == token)).await;
                let _ = task.await;
                Ok(Stopped { killed: false })
            }
            State::Up { process, instance, since } => {
                let stopped = self.stop_process(process, &instance).await;
                match stopped {
                    Ok(stopped) => {
                        self.view.send_modify(|view| {
                            view.instance = None;
                            view.up_since = None;
                        });
                        Ok(stopped)
                    }
                    Err((process, error)) => {
                        self.state = State::Up { process: *process, instance, since };
                        Err(error)
                    }
                }
            }
        }
    }

    async fn stop_process(
        &self,
        mut process: Process,
        instance: &Instance,
    ) -> Result<Stopped, (Box<Process>, StopFailed)> {
        let settings = self.context.load(&instance.release).map(|release| release.manifest.service);
        let settings = settings.unwrap_or_else(|error| {
            tracing::warn!(%error, "stopping with the defaults");
            Default::default()
        });
        process.signal_group(signal(settings.stop_signal));
        let patience = Duration::from_millis(settings.stop_timeout.0);
        let killed = timeout(patience, process.group_gone()).await.is_err();
        if killed {
            tracing::warn!(group = %self.context.group, pid = instance.pid, ?patience, "it outlived its stop_timeout");
            process.signal_group(Signal::KILL);
            if timeout(KILL_LIMIT, process.exited()).await.is_err() {
                return Err((Box::new(process), StopFailed { pid: instance.pid }));
            }
        }
        process.reap();
        self.kill_stragglers().await;
        Ok(Stopped { killed })
    }

    /// Ends what has left its group, yet carries the mark of this service, of whatever release. Gives how many there were.
    /// None of them where the data folder may be a copy: they may be another agent's.
    async fn kill_stragglers(&self) -> usize {
        if !*self.context.node.is_confirmed.borrow() {
            return 0;
        }
        let prefix = mark_prefix(self.context.node.node_id, &self.context.group);
        let killing = move || kill_by_environment(INSTANCE_MARK, |value| value.starts_with(&prefix));
        tokio::task::spawn_blocking(killing).await.unwrap_or_default()
    }
}

async fn next_event(state: &mut State) -> Event {
    match state {
        State::Down => std::future::pending().await,
        State::Due(at) => {
            sleep_until(*at).await;
            Event::Due
        }
        State::Init { task, .. } => match task.await {
            Ok(end) => Event::InitEnded(end),
            // It was the runtime that ended.
            Err(_) => std::future::pending().await,
        },
        State::Up { process, .. } => {
            process.exited().await;
            Event::Exited
        }
    }
}

fn signal(signal: StopSignal) -> Signal {
    match signal {
        StopSignal::Term => Signal::TERM,
        StopSignal::Int => Signal::INT,
        StopSignal::Quit => Signal::QUIT,
        StopSignal::Hup => Signal::HUP,
        StopSignal::Usr1 => Signal::USR1,
        StopSignal::Usr2 => Signal::USR2,
        StopSignal::Kill => Signal::KILL,
    }
}
