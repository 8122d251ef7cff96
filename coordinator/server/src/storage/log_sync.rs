//! Group commit: one thread that syncs the log for everybody who waits.
//!
//! While one sync runs, whoever appends queues up; the next sync covers them all. That batches by itself under load and
//! adds no delay when there is none, so `raft-log`'s own wait for more is off.
//!
//! # Invariants
//! - A waiter is answered `Ok` only after a sync that began after its records were in the log.
//! - After the first failure every waiter, then and later, is answered with that failure: what a failed sync left on
//!   disk is unknown, and only a restart, which reads it back, may go on.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;

use openraft::storage::IOFlushed;
use raft_log::RaftLog;
use raft_log::api::raft_log_writer::RaftLogWriter;
use rollcall_rollout::{Planted, is_planted};
use tokio::sync::Notify;

use super::types::TypeConfig;
use super::wal::Wal;
use crate::world::{World, simulated};

/// Asks to be told once everything appended so far is on disk.
pub(super) type Waiter = IOFlushed<TypeConfig>;

#[derive(Default)]
struct Queue {
    waiters: Vec<Waiter>,
    stopping: bool,
    failure: Option<Failure>,
}

/// `io::Error` can't be cloned; this can.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    kind: io::ErrorKind,
    message: String,
}

impl Failure {
    pub(super) fn of(error: &io::Error) -> Self {
        Self { kind: error.kind(), message: error.to_string() }
    }

    pub(super) fn to_error(&self) -> io::Error {
        io::Error::new(self.kind, self.message.clone())
    }
}

/// The thread and the queue before it. Dropping it answers who still waits, then ends the thread.
pub(super) struct GroupCommit {
    queue: Arc<(Mutex<Queue>, Condvar)>,
    syncer: Syncer,
}

/// Who syncs.
enum Syncer {
    /// `None` only while it is dropped.
    Thread(Option<JoinHandle<()>>),
    /// In a simulation, where time has to pass as the simulator says.
    Task(Simulated),
}

impl GroupCommit {
    pub(super) fn start(log: Arc<RwLock<RaftLog<Wal>>>, dir: &Path) -> io::Result<Self> {
        let queue = Arc::new((Mutex::new(Queue::default()), Condvar::new()));
        let shared = queue.clone();
        let syncer = match simulated() {
            Some(world) => Syncer::Task(Simulated::start(world, dir.to_owned(), shared, log)),
            None => {
                let thread = std::thread::Builder::new().name("rollcall-log-sync".into());
                Syncer::Thread(Some(thread.spawn(move || run(&shared, &log))?))
            }
        };
        Ok(Self { queue, syncer })
    }

    /// Queues `waiter` for the next sync. Its records must be in the log already.
    pub(super) fn sync(&self, waiter: Waiter) {
        let mut queue = lock(&self.queue.0);
        if let Some(failure) = &queue.failure {
            let error = failure.to_error();
            drop(queue);
            return waiter.io_completed(Err(error));
        }
        if is_planted(Planted::AckBeforeSync) {
            drop(queue);
            return waiter.io_completed(Ok(()));
        }
        queue.waiters.push(waiter);
        match &self.syncer {
            Syncer::Thread(_) => self.queue.1.notify_one(),
            Syncer::Task(task) => task.wake(),
        }
    }

    /// The failure after which nothing may be written.
    pub(super) fn failure(&self) -> Option<Failure> {
        lock(&self.queue.0).failure.clone()
    }

    /// Marks the log as failed: a write before the sync went wrong.
    pub(super) fn fail(&self, error: &io::Error) {
        lock(&self.queue.0).failure.get_or_insert_with(|| Failure::of(error));
    }
}

impl Drop for GroupCommit {
    fn drop(&mut self) {
        lock(&self.queue.0).stopping = true;
        self.queue.1.notify_one();
        if let Syncer::Thread(thread) = &mut self.syncer
            && let Some(thread) = thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that syncs the log panicked");
        }
    }
}

fn lock(queue: &Mutex<Queue>) -> std::sync::MutexGuard<'_, Queue> {
    // Nothing that can panic runs under this lock.
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

fn run(queue: &(Mutex<Queue>, Condvar), log: &RwLock<RaftLog<Wal>>) {
    while let Some(waiters) = next_waiters(queue) {
        // ORDER: the waiters were taken before this sync begins, so it covers the records of each of them.
        let result = sync_now(log);
        answer(queue, waiters, result);
    }
}

fn answer(queue: &(Mutex<Queue>, Condvar), waiters: Vec<Waiter>, result: io::Result<()>) {
    if let Err(error) = &result {
        tracing::error!(%error, "the Raft log can't be written; this peer stops taking part");
        lock(&queue.0).failure.get_or_insert_with(|| Failure::of(error));
    }
    let failure = result.err().map(|error| Failure::of(&error));
    for waiter in waiters {
        // CRASH: the records are on disk and nobody knows yet. The leader sends them again and finds them here.
        waiter.io_completed(failure.as_ref().map_or(Ok(()), |failure| Err(failure.to_error())));
    }
}

/// The task that syncs in a simulation: as the thread does, but that the simulated disk says how long it takes and what comes
/// of it.
struct Simulated {
    somebody_waits: Arc<Notify>,
    task: tokio::task::JoinHandle<()>,
}

impl Simulated {
    fn start(
        world: Arc<dyn World>,
        dir: PathBuf,
        queue: Arc<(Mutex<Queue>, Condvar)>,
        log: Arc<RwLock<RaftLog<Wal>>>,
    ) -> Self {
        let somebody_waits = Arc::new(Notify::new());
        let woken = somebody_waits.clone();
        let task = tokio::spawn(async move {
            loop {
                woken.notified().await;
                let waiters = std::mem::take(&mut lock(&queue.0).waiters);
                if waiters.is_empty() {
                    continue;
                }
                // CRASH: in the files, and not synced: the simulator decides how much of it is left.
                let written = write_now(&log);
                let result = match world.sync(&dir).await {
                    Ok(()) => written.and_then(|()| sync_now(&log)).inspect(|()| world.synced(&dir)),
                    Err(error) => Err(error),
                };
                answer(&queue, waiters, result);
            }
        });
        Self { somebody_waits, task }
    }

    fn wake(&self) {
        self.somebody_waits.notify_one();
    }
}

impl Drop for Simulated {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Blocks until somebody waits; `None` once it's over and nobody does.
fn next_waiters(queue: &(Mutex<Queue>, Condvar)) -> Option<Vec<Waiter>> {
    let mut guard = lock(&queue.0);
    while guard.waiters.is_empty() && !guard.stopping {
        guard = queue.1.wait(guard).unwrap_or_else(PoisonError::into_inner);
    }
    let waiters = std::mem::take(&mut guard.waiters);
    (!waiters.is_empty()).then_some(waiters)
}

/// Writes what is buffered, syncs the file and waits for it. Chunks that a purge has emptied are unlinked behind it.
pub(super) fn sync_now(log: &RwLock<RaftLog<Wal>>) -> io::Result<()> {
    let (done, wait) = sync_channel(1);
    log.write().map_err(|_| half_written())?.flush(true, Some(done))?;
    wait.recv().map_err(|_| io::Error::other("the thread that writes the Raft log has ended; see its error above"))?
}

/// Writes what is buffered, and doesn't sync it.
fn write_now(log: &RwLock<RaftLog<Wal>>) -> io::Result<()> {
    log.write().map_err(|_| half_written())?.flush(false, None)
}

/// Somebody panicked while changing the log: its memory may not match its file.
pub(super) fn half_written() -> io::Error {
    io::Error::other("an earlier write to the Raft log was interrupted by a panic")
}
