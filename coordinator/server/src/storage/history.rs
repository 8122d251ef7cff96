//! The event history of a peer: what happened, by revision, for watches and for the audit trail.
//!
//! It is derived: every event in it follows from the log, and a snapshot carries it along. So whenever its files are in
//! doubt they are put aside and it is filled again, and no failure of it ever stops the state machine.
//!
//! A thread of its own owns the files ([`history_thread`](super::history_thread)); this is the handle that tasks hold.
//!
//! # Invariants
//! - Between [`floor`](HistoryPage::floor) and [`applied`](HistoryPage::applied) it is complete: a revision that has no
//!   record there had no events.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rollcall_ident::Revision;
use rollcall_rollout::{ChainHead, ChainedRecord};
use tokio::sync::{mpsc, oneshot, watch};

use super::history_thread::Keeper;

/// BOUND: how far back watches can resume and the audit trail reaches on a peer, unless it is configured otherwise. At a
/// few hundred bytes for a revision it keeps the history, which every snapshot carries, at tens of MiB.
pub const RETAINED_REVISIONS: u64 = 100_000;

/// BOUND: records of one page, whatever a reader asks for.
pub const MAX_PAGE_RECORDS: usize = 1024;

/// BOUND: batches on their way to the thread; when it falls behind, applying waits for it.
pub(super) const QUEUED_COMMANDS: usize = 64;

/// Consecutive records of the history.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryPage {
    /// The records asked for, in order, each with its place in the audit chain.
    pub records: Vec<ChainedRecord>,
    /// Read on from here: behind the last record, or behind [`applied`](Self::applied) when there is no more.
    pub next: Revision,
    /// Everything after this revision is kept.
    pub floor: Revision,
    /// Everything up to this revision has been recorded.
    pub applied: Revision,
    /// Where the audit chain stands after the last record of all.
    pub head: ChainHead,
}

/// Why the history can't be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HistoryError {
    /// What was asked for has been dropped.
    #[error("the history up to revision {floor} has been compacted: restart from a fresh read, or from {floor} + 1")]
    Compacted {
        /// The last revision that is gone.
        floor: Revision,
    },
    /// The history is out of order on this peer and is being put right.
    #[error("the history of this peer is being rebuilt ({reason}): ask another peer, or again in a few seconds")]
    Unavailable {
        /// What happened to it.
        reason: String,
    },
}

/// What the thread is asked to do.
pub(super) enum Command {
    /// Record the events of entries up to `applied`, where the audit chain stands at `head`. Records at or below what is
    /// there already are skipped.
    Append { records: Vec<ChainedRecord>, applied: Revision, head: ChainHead },
    /// Read records from a revision on.
    Read { from: Revision, limit: usize, reply: oneshot::Sender<Result<HistoryPage, HistoryError>> },
    /// Forget everything and begin again behind `floor`, where the audit chain stands at `anchor`.
    Reset { floor: Revision, anchor: ChainHead },
    /// Answer once everything before is on disk.
    Flush { reply: oneshot::Sender<()> },
}

/// How far the history reaches on this peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HistoryBounds {
    /// Everything after this revision is kept.
    pub floor: Revision,
    /// Everything up to this revision has been recorded.
    pub applied: Revision,
    /// Where the audit chain stands after it.
    pub head: ChainHead,
}

/// A handle on the history. Clones share it; dropping the last of them waits until its files are closed.
#[derive(Debug, Clone)]
pub struct History {
    worker: Arc<Worker>,
    bounds: watch::Receiver<HistoryBounds>,
}

/// Who does what the history is asked for.
#[derive(Debug)]
enum Worker {
    /// Its own thread.
    Thread {
        /// `None` only while it is dropped: the thread ends with its queue.
        commands: Option<mpsc::Sender<Command>>,
        thread: Option<JoinHandle<()>>,
    },
    /// In a simulation, where nothing may depend on which of two threads is faster: whoever asks, at once.
    Here(Box<Mutex<Keeper>>),
}

impl Drop for Worker {
    fn drop(&mut self) {
        let Self::Thread { commands, thread } = self else { return };
        drop(commands.take());
        // Whoever opens the folder next, in this process too, must not find it locked.
        if let Some(thread) = thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread of the event history panicked");
        }
    }
}

impl History {
    pub(super) fn new(
        commands: mpsc::Sender<Command>,
        bounds: watch::Receiver<HistoryBounds>,
        thread: JoinHandle<()>,
    ) -> Self {
        Self { worker: Arc::new(Worker::Thread { commands: Some(commands), thread: Some(thread) }), bounds }
    }

    /// A history without a thread.
    pub(super) fn simulated(keeper: Keeper, bounds: watch::Receiver<HistoryBounds>) -> Self {
        Self { worker: Arc::new(Worker::Here(Box::new(Mutex::new(keeper)))), bounds }
    }

    /// Up to `limit` records from revision `from` on, fewer if they are large.
    ///
    /// # Errors
    /// [`HistoryError::Compacted`] if events at or after `from` have been dropped.
    pub async fn read(&self, from: Revision, limit: usize) -> Result<HistoryPage, HistoryError> {
        if let Worker::Here(keeper) = &*self.worker {
            return lock(keeper).read(from, limit);
        }
        let (reply, answer) = oneshot::channel();
        self.commands()?.send(Command::Read { from, limit, reply }).await.map_err(|_| ended())?;
        answer.await.map_err(|_| ended())?
    }

    /// [`read`](Self::read) for a thread that may block.
    pub(super) fn read_blocking(&self, from: Revision, limit: usize) -> Result<HistoryPage, HistoryError> {
        if let Worker::Here(keeper) = &*self.worker {
            return lock(keeper).read(from, limit);
        }
        let (reply, answer) = oneshot::channel();
        self.commands()?.blocking_send(Command::Read { from, limit, reply }).map_err(|_| ended())?;
        answer.blocking_recv().map_err(|_| ended())?
    }

    /// The revision up to which events have been recorded.
    pub fn applied(&self) -> Revision {
        self.bounds.borrow().applied
    }

    /// How far the history reaches.
    pub fn bounds(&self) -> HistoryBounds {
        *self.bounds.borrow()
    }

    /// Tells when more has been recorded.
    pub fn subscribe(&self) -> watch::Receiver<HistoryBounds> {
        self.bounds.clone()
    }

    /// Returns once everything recorded so far is on disk.
    pub async fn flush(&self) {
        let (reply, answer) = oneshot::channel();
        self.send(Command::Flush { reply }).await;
        // A history that has ended keeps nothing; it is rebuilt at the next start.
        let _ = answer.await;
    }

    /// Records what entries up to `applied` did, where the audit chain stands at `head`. Waits only if the thread is far
    /// behind.
    pub(super) async fn append(&self, records: Vec<ChainedRecord>, applied: Revision, head: ChainHead) {
        self.send(Command::Append { records, applied, head }).await;
    }

    /// The thread logs why it ended, if it does. The state machine goes on: nothing depends on the history.
    async fn send(&self, command: Command) {
        match &*self.worker {
            Worker::Here(keeper) => lock(keeper).obey(command),
            Worker::Thread { .. } => {
                if let Ok(commands) = self.commands() {
                    let _ = commands.send(command).await;
                }
            }
        }
    }

    /// [`send`](Self::send) for a thread that may block.
    pub(super) fn send_blocking(&self, command: Command) {
        match &*self.worker {
            Worker::Here(keeper) => lock(keeper).obey(command),
            Worker::Thread { .. } => {
                if let Ok(commands) = self.commands() {
                    let _ = commands.blocking_send(command);
                }
            }
        }
    }

    fn commands(&self) -> Result<&mpsc::Sender<Command>, HistoryError> {
        match &*self.worker {
            Worker::Thread { commands, .. } => commands.as_ref().ok_or_else(ended),
            Worker::Here(_) => Err(ended()),
        }
    }
}

fn lock(keeper: &Mutex<Keeper>) -> MutexGuard<'_, Keeper> {
    // What sled panics with is caught.
    keeper.lock().unwrap_or_else(PoisonError::into_inner)
}

fn ended() -> HistoryError {
    HistoryError::Unavailable { reason: "its thread has ended; restart the peer".into() }
}
