//! The handle on a running peer: propose, read, watch, and ask how things stand.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use openraft::ServerState;
use openraft::async_runtime::watch::WatchReceiver as _;
use rollcall_ident::{ClusterId, ClusterTime, PeerId};
use rollcall_rollout::{Applied, Proposal};
use tokio::sync::{Mutex, Semaphore, mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout_at};

use super::api::{Leadership, NotProposed, ProposeError, ReadError};
use super::client::Clients;
use super::clock::ClusterClock;
use super::leadership::watch_leadership;
use super::members::Addresses;
use super::membership::settle_when_leading;
use super::network::Network;
use super::propose::{self, Proposer, Queued};
use super::read::{self, Confirmer, Waiting};
use super::start_error::StartError;
use super::tuning::Tuning;
use super::view::{StateWatch, View};
use super::wire::ProcessId;
use crate::storage::{
    AppliedState, ApplyObserver, DataDir, History, Identity, LogMetrics, LogStore, Sizes, SnapshotStore, StateMachine,
    Storage,
};
use crate::world;

/// openraft, with what it runs on here.
pub(super) type Raft = openraft::Raft<crate::storage::types::TypeConfig, StateMachine>;

/// Is told how long each write took from its proposal on this peer, as the leader, to its outcome.
pub type CommitObserver = Arc<dyn Fn(Duration) + Send + Sync>;

/// Who is told how long things take.
#[derive(Clone, Default)]
pub struct Observers {
    /// Of writes.
    pub commit: Option<CommitObserver>,
    /// Of entries, applied one by one.
    pub apply: Option<ApplyObserver>,
}

/// BOUND: how long [`Consensus::propose`] waits for an outcome: an election and what piles up in it fits.
const PROPOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// BOUND: pauses between tries, unless leadership changes first.
const RETRY_FIRST: Duration = Duration::from_millis(20);
const RETRY_LAST: Duration = Duration::from_millis(250);

/// A running peer. Clones are handles on the same one.
#[derive(Clone)]
pub struct Consensus {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub identity: Identity,
    pub raft: Raft,
    pub applied: watch::Receiver<AppliedState>,
    pub addresses: Addresses,
    pub leadership: watch::Receiver<Option<Leadership>>,
    pub snapshots: SnapshotStore,
    pub log: LogStore,
    pub tuning: Tuning,
    /// One change of the peers at a time.
    pub changing: Mutex<()>,
    /// One snapshot received at a time.
    pub receiving: Arc<Mutex<()>>,
    /// One snapshot written for somebody outside at a time.
    pub exporting: Arc<Semaphore>,
    clock: Arc<ClusterClock>,
    proposals: mpsc::Sender<Queued>,
    reads: mpsc::Sender<Waiting>,
    pub history: History,
    /// Where this process says that it is reached.
    pub address: String,
    /// Which process this is.
    pub process: ProcessId,
    /// Why this peer must not go on, once there is a reason that isn't its disk.
    pub fatal: watch::Sender<Option<String>>,
    /// Other peers are told, instead of hearing errors of a core that is gone.
    pub stopping: AtomicBool,
    tasks: std::sync::Mutex<Vec<JoinHandle<()>>>,
    /// The directory is this process's own until the last handle is gone.
    pub dir: Arc<DataDir>,
}

impl Inner {
    fn lock_tasks(&self) -> std::sync::MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.tasks.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Consensus {
    /// Starts openraft on what is on disk.
    pub(super) async fn start(
        dir: Arc<DataDir>,
        identity: Identity,
        address: String,
        tuning: Tuning,
        observers: Observers,
    ) -> Result<Self, StartError> {
        let opened = dir.clone();
        // Reads the whole log.
        let sizes = Sizes { history_revisions: tuning.history_revisions, ..Sizes::default() };
        let storage = world::off_the_runtime(move || Storage::open(&opened, sizes)).await??;
        let Storage { log, state_machine, applied, history, snapshots } = storage;
        let state_machine = state_machine.observed_by(observers.apply);
        let config = tuning.to_config(&identity.cluster.to_string());
        let config = Arc::new(config.map_err(|error| StartError::Tuning { what: error.to_string() })?);
        let clients = Clients::new(identity);
        let network = Network::new(clients.clone());
        let raft = Raft::new(identity.peer.0, config, network, log.clone(), state_machine)
            .await
            .map_err(|error| StartError::Raft { what: error.to_string() })?;
        let addresses = Addresses::new(raft.clone(), clients);
        let clock = Arc::new(ClusterClock::default());
        let (publish, leadership) = watch::channel(None);
        let (proposals, proposal_queue) = mpsc::channel(propose::QUEUE);
        let (reads, read_queue) = mpsc::channel(read::QUEUE);
        let me = identity.peer;
        let proposer = Proposer {
            raft: raft.clone(),
            me,
            leadership: leadership.clone(),
            applied: applied.clone(),
            clock: clock.clone(),
            observer: observers.commit,
        };
        let confirmer =
            Confirmer { raft: raft.clone(), me, leadership: leadership.clone(), addresses: addresses.clone() };
        let tasks = vec![
            tokio::spawn(watch_leadership(raft.clone(), applied.clone(), clock.clone(), publish)),
            tokio::spawn(proposer.run(proposal_queue)),
            tokio::spawn(confirmer.run(read_queue)),
            tokio::spawn(addresses.clone().follow_members()),
        ];
        let inner = Inner {
            identity,
            raft,
            applied,
            addresses,
            leadership,
            snapshots,
            log,
            tuning,
            changing: Mutex::new(()),
            receiving: Arc::default(),
            exporting: Arc::new(Semaphore::new(1)),
            clock,
            proposals,
            reads,
            history,
            address,
            fatal: watch::Sender::new(None),
            process: world::random_id().as_u128(),
            stopping: AtomicBool::new(false),
            tasks: std::sync::Mutex::new(tasks),
            dir,
        };
        let inner = Arc::new(inner);
        let settle = settle_when_leading(Arc::downgrade(&inner), inner.leadership.clone());
        inner.lock_tasks().push(tokio::spawn(settle));
        Ok(Self { inner })
    }

    /// Has the others know where this peer is now, for as long as it takes.
    pub(super) fn begin_to_announce(&self) {
        let announce = self.clone().announce(self.inner.address.clone());
        self.inner.lock_tasks().push(tokio::spawn(announce));
    }

    /// Which cluster this is.
    pub fn cluster_id(&self) -> ClusterId {
        self.inner.identity.cluster
    }

    /// Which peer this is.
    pub fn peer_id(&self) -> PeerId {
        self.inner.identity.peer
    }

    /// Writes, through whoever leads. A refusal by the state machine is an outcome, in [`Applied`].
    ///
    /// # Errors
    /// [`ProposeError::NotProposed`] if it certainly has no effect, [`ProposeError::Unknown`] in doubt. Dropping the
    /// future leaves the outcome unknown.
    pub async fn propose(&self, proposal: Proposal) -> Result<Applied, ProposeError> {
        self.propose_once(proposal, PROPOSE_TIMEOUT).await
    }

    /// Writes, and tries again until `deadline`: whenever it certainly has no effect yet, and in doubt if it carries a
    /// request id, so that it can't take effect twice.
    ///
    /// # Errors
    /// As of [`propose`](Self::propose). Once one try was in doubt the whole is, whatever later tries say.
    pub async fn propose_until(&self, proposal: Proposal, deadline: Instant) -> Result<Applied, ProposeError> {
        let repeatable = proposal.request_id.is_some();
        let mut leadership = self.inner.leadership.clone();
        let mut pause = RETRY_FIRST;
        let mut doubt = None;
        loop {
            leadership.mark_unchanged();
            let timeout = deadline.saturating_duration_since(Instant::now()).min(PROPOSE_TIMEOUT);
            let error = match self.propose_once(proposal.clone(), timeout).await {
                Ok(applied) => return Ok(applied),
                Err(error) => error,
            };
            let hopeless = match &error {
                ProposeError::Unknown { .. } => {
                    doubt = Some(error.clone());
                    !repeatable
                }
                ProposeError::NotProposed { reason } => {
                    matches!(reason, NotProposed::TooLarge { .. } | NotProposed::Stopping)
                }
            };
            if hopeless || Instant::now() + pause >= deadline {
                return Err(doubt.unwrap_or(error));
            }
            tokio::select! {
                () = sleep(pause) => {}
                changed = leadership.changed() => if changed.is_err() {
                    // This peer has stopped for good: no later try ends otherwise.
                    return Err(doubt.unwrap_or(NotProposed::Stopping.into()));
                },
            }
            pause = (pause * 2).min(RETRY_LAST);
        }
    }

    async fn propose_once(&self, proposal: Proposal, timeout: Duration) -> Result<Applied, ProposeError> {
        propose::check_size(&proposal)?;
        let Some(leadership) = *self.inner.leadership.borrow() else { return Err(NotProposed::NoLeader.into()) };
        if leadership.is_me {
            return self.propose_here(proposal, timeout).await;
        }
        let leader = leadership.peer;
        let client = self.inner.addresses.client(leader);
        let client = client.map_err(|what| NotProposed::LeaderUnreachable { leader, what })?;
        propose::propose_there(&client, proposal, timeout).await
    }

    /// Writes if this peer leads, and never asks another.
    pub(super) async fn propose_here(&self, proposal: Proposal, timeout: Duration) -> Result<Applied, ProposeError> {
        propose::propose_here(&self.inner.proposals, proposal, timeout).await
    }

    /// A state that holds everything that was acknowledged anywhere before this call.
    ///
    /// # Errors
    /// [`ReadError`] says why not by `deadline`.
    pub async fn read(&self, deadline: Instant) -> Result<View, ReadError> {
        let mut leadership = self.inner.leadership.clone();
        let mut pause = RETRY_FIRST;
        let needed = loop {
            leadership.mark_unchanged();
            let error = match timeout_at(deadline, self.read_index()).await {
                Ok(Ok(index)) => break index,
                Ok(Err(error)) => error,
                Err(_) => return Err(ReadError::TimedOut),
            };
            if error == ReadError::Stopping || Instant::now() + pause >= deadline {
                return Err(error);
            }
            tokio::select! {
                () = sleep(pause) => {}
                changed = leadership.changed() => if changed.is_err() {
                    return Err(ReadError::Stopping);
                },
            }
            pause = (pause * 2).min(RETRY_LAST);
        };
        let mut watch = self.applied();
        watch.wait_for(needed, deadline).await.ok_or_else(|| ReadError::Behind { applied: watch.revision(), needed })
    }

    async fn read_index(&self) -> Result<rollcall_ident::Revision, ReadError> {
        let (done, index) = oneshot::channel();
        self.inner.reads.send(done).await.map_err(|_| ReadError::Stopping)?;
        index.await.map_err(|_| ReadError::Stopping)?
    }

    /// What this peer has applied: maybe stale, and labelled with its revision.
    pub fn state(&self) -> View {
        View::of(&self.inner.applied.borrow())
    }

    /// Follows what this peer applies.
    pub fn applied(&self) -> StateWatch {
        StateWatch::new(self.inner.applied.clone())
    }

    /// Who leads, now and from now on. `None` while that isn't known, or this peer was just elected.
    pub fn leadership(&self) -> watch::Receiver<Option<Leadership>> {
        self.inner.leadership.clone()
    }

    /// Cluster time now: it runs on the leader; elsewhere it is that of the applied state.
    pub fn cluster_time(&self) -> ClusterTime {
        let applied = self.inner.applied.borrow().state.clock();
        self.inner.clock.now(applied, world::monotonic())
    }

    /// The events that this peer retains.
    pub fn history(&self) -> &History {
        &self.inner.history
    }

    /// What the log's disk does.
    pub fn log_metrics(&self) -> LogMetrics {
        self.inner.log.metrics()
    }

    /// How large this peer's newest snapshot is; none where it has none.
    pub fn snapshot_bytes(&self) -> Option<u64> {
        self.inner.snapshots.current().map(|current| current.snapshot.bytes())
    }

    /// Resolves when this peer can't go on: the reason if its disk failed or another process has its identity, nothing if
    /// it was told to stop. The process must end then.
    pub async fn stopped(&self) -> Option<String> {
        let mut fatal = self.inner.fatal.subscribe();
        tokio::select! {
            reason = self.raft_stopped() => reason,
            reason = fatal.wait_for(Option::is_some) => reason.ok().and_then(|reason| reason.clone()),
        }
    }

    async fn raft_stopped(&self) -> Option<String> {
        let mut metrics = self.inner.raft.metrics();
        loop {
            let running = metrics.borrow_and_update().running_state.clone();
            match running {
                Ok(()) => {}
                Err(openraft::errors::Fatal::Stopped) => return None,
                Err(fatal) => return Some(fatal.to_string()),
            }
            if metrics.changed().await.is_err() {
                return None;
            }
        }
    }

    /// Hands leadership over if this peer leads and another could take it at once, then stops. Without this call
    /// consensus runs on, even when the last handle is gone.
    pub async fn shutdown(&self) {
        if self.is_elected()
            && let Some(successor) = self.best_successor()
            && let Err(error) = self.move_leader_here(successor).await
        {
            tracing::warn!(%error, successor = successor.0, "stopping without handing leadership over");
        }
        self.inner.stopping.store(true, Ordering::Relaxed);
        if let Err(error) = self.inner.raft.shutdown().await {
            tracing::error!(%error, "consensus didn't stop in order");
        }
        let tasks = std::mem::take(&mut *self.inner.lock_tasks());
        for task in tasks {
            task.abort();
            let _ = task.await;
        }
    }

    pub(super) fn is_elected(&self) -> bool {
        self.inner.raft.server_metrics().borrow_watched().state == ServerState::Leader
    }

    pub(super) fn leads(&self) -> bool {
        self.inner.leadership.borrow().is_some_and(|leadership| leadership.is_me)
    }

    pub(super) fn queued_proposals(&self) -> u64 {
        (self.inner.proposals.max_capacity() - self.inner.proposals.capacity()) as u64
    }
}
