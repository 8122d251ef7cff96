//! The Raft log, the vote and the committed index behind openraft's traits, in one [`raft_log`].
//!
//! # Invariants
//! - All writes go into one sequence of records, in the order in which openraft made them, under one lock. So a vote for
//!   a term can't become durable after an entry of that term, and no crash leaves a hole.
//! - [`save_vote`](RaftLogStorage::save_vote) returns, and the callback of [`append`](RaftLogStorage::append) completes,
//!   only after a sync that covers it.
//! - After the first failed write nothing is written any more: the peer has to be restarted.
//!
//! # Deliberately absent
//! Any knowledge of what a command means.

use std::fmt::Debug;
use std::io;
use std::ops::{Bound, RangeBounds};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use futures::Stream;
use openraft::storage::{IOFlushed, RaftLogReader, RaftLogStorage};
use openraft::type_config::TypeConfigExt;
use openraft::{OptionalSend, type_config::alias::OneshotReceiverOf};
use raft_log::RaftLog;
use raft_log::api::raft_log_writer::RaftLogWriter;

use super::disk::{EntryV1, LogIdV1, VoteV1};
use super::error::StorageError;
use super::log_open;
use super::log_sync::{GroupCommit, half_written};
use super::types::{Entry, LogId, LogState, TypeConfig, Vote};
use super::wal::{SealedPayload, Wal, check_size};

/// BOUND: how much is read for a follower, or for the state machine, under one lock: appends wait for it.
const READ_BATCH_BYTES: usize = 1 << 20;

/// BOUND: the same in entries, for many small ones.
const READ_BATCH_ENTRIES: u64 = 4096;

/// The durable log of a peer. A clone is a handle on the same log, and a reader of it.
#[derive(Clone)]
pub struct LogStore {
    shared: Arc<Shared>,
}

/// What the log has done since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogMetrics {
    /// Bytes of its files.
    pub disk_bytes: u64,
    /// How many syncs there were: appends that waited together share one.
    pub sync_count: u64,
    /// How long they took, together.
    pub sync_time: Duration,
    /// How long the slowest took: a disk under stress shows here first.
    pub slowest_sync: Duration,
}

struct Shared {
    /// Ends, and answers who waits, before the log is dropped.
    commit: GroupCommit,
    log: Arc<RwLock<RaftLog<Wal>>>,
    dir: PathBuf,
}

impl LogStore {
    /// Opens the log in `dir`, or makes an empty one. Whatever it holds afterwards is on disk.
    ///
    /// # Errors
    /// [`StorageError`] says what to do: damage, a full or read-only disk, a folder in use.
    pub fn open(dir: &Path) -> Result<Self, StorageError> {
        Self::open_chunked(dir, log_open::CHUNK_BYTES)
    }

    /// [`open`](Self::open) with files of another size: tests want many of them from a few entries.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    #[doc(hidden)]
    pub fn open_chunked(dir: &Path, chunk_bytes: usize) -> Result<Self, StorageError> {
        let log = log_open::open(dir, chunk_bytes)?;
        let commit = GroupCommit::start(log.clone(), dir)
            .map_err(|error| StorageError::io("start the thread that syncs", dir, error))?;
        Ok(Self { shared: Arc::new(Shared { commit, log, dir: dir.to_owned() }) })
    }

    /// Numbers for the metrics page.
    pub fn metrics(&self) -> LogMetrics {
        // Somebody panicked under the lock: the peer is ending, and nobody reads its metrics.
        let Ok(log) = self.shared.log.read() else { return LogMetrics::default() };
        let flushes = log.stat().flush_metrics;
        LogMetrics {
            disk_bytes: log.on_disk_size(),
            sync_count: flushes.sync_batch_count,
            sync_time: Duration::from_micros(flushes.sync_us),
            slowest_sync: Duration::from_micros(flushes.sync_max_us),
        }
    }

    /// The highest index that was purged, and the last one in the log.
    pub fn bounds(&self) -> io::Result<(Option<LogId>, Option<LogId>)> {
        let log = self.read()?;
        let state = log.log_state();
        Ok((state.purged().copied().map(LogId::from), state.last().copied().map(LogId::from)))
    }

    fn read(&self) -> io::Result<RwLockReadGuard<'_, RaftLog<Wal>>> {
        self.shared.log.read().map_err(|_| half_written())
    }

    /// The log, to be changed. Refused once a write has failed.
    fn write(&self) -> io::Result<RwLockWriteGuard<'_, RaftLog<Wal>>> {
        if let Some(failure) = self.shared.commit.failure() {
            return Err(failure.to_error());
        }
        self.shared.log.write().map_err(|_| half_written())
    }

    /// Makes a failed change fatal, and says where it was.
    fn failed(&self, action: &'static str, error: io::Error) -> io::Error {
        let error = io::Error::from(StorageError::io(action, &self.shared.dir, error));
        self.shared.commit.fail(&error);
        error
    }

    /// A sync that covers everything written before this call.
    fn sync(&self) -> OneshotReceiverOf<TypeConfig, io::Result<()>> {
        let (done, wait) = TypeConfig::oneshot();
        self.shared.commit.sync(IOFlushed::signal(done));
        wait
    }

    /// Entries from `from` up to `to`, exclusive; with `limited`, at least one and no more than a batch.
    fn load_entries(&self, from: u64, to: u64, limited: bool) -> io::Result<Vec<Entry>> {
        let sealed = self.load_sealed(from, to, limited)?;
        // Decoding happens here, after the lock is gone.
        let mut entries = Vec::with_capacity(sealed.len());
        for (log_id, payload) in sealed {
            let payload = payload.open().map_err(|error| StorageError::codec(&self.shared.dir, error))?;
            let entry = EntryV1 { log_id, payload }.into_entry();
            entries.push(entry.map_err(|what| StorageError::damaged(&self.shared.dir, what))?);
        }
        Ok(entries)
    }

    fn load_sealed(&self, from: u64, to: u64, limited: bool) -> io::Result<Vec<(LogIdV1, SealedPayload)>> {
        if from >= to {
            return Ok(Vec::new());
        }
        let log = self.read()?;
        let (mut entries, mut bytes) = (Vec::<(LogIdV1, SealedPayload)>::new(), 0);
        for entry in log.read(from, to) {
            let (log_id, payload) =
                entry.map_err(|error| StorageError::damaged(&self.shared.dir, error.to_string()))?;
            if entries.last().is_some_and(|(previous, _)| log_id.index != previous.index + 1) {
                let what = format!("the log has a hole before entry {}", log_id.index);
                return Err(StorageError::damaged(&self.shared.dir, what).into());
            }
            bytes += payload.bytes();
            entries.push((log_id, payload));
            if limited && (bytes >= READ_BATCH_BYTES || entries.len() as u64 >= READ_BATCH_ENTRIES) {
                break;
            }
        }
        Ok(entries)
    }

    fn load_vote(&self) -> io::Result<Option<Vote>> {
        Ok(self.read()?.log_state().vote().copied().map(Vote::from))
    }
}

impl RaftLogReader<TypeConfig> for LogStore {
    async fn try_get_log_entries<RB>(&mut self, range: RB) -> Result<Vec<Entry>, io::Error>
    where
        RB: RangeBounds<u64> + Clone + Debug + OptionalSend,
    {
        let (from, to) = half_open(&range);
        self.load_entries(from, to, false)
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> Result<Vec<Entry>, io::Error> {
        let mut entries = self.load_entries(start, end, true)?;
        if entries.first().is_none_or(|first| first.log_id.index != start) {
            note_purged_read();
            entries.clear();
        }
        Ok(entries)
    }

    /// Committed entries for the state machine, a batch at a time: it may be far behind after a restart.
    async fn entries_stream<RB>(&mut self, range: RB) -> impl Stream<Item = Result<Entry, io::Error>> + OptionalSend
    where
        RB: RangeBounds<u64> + Clone + Debug + OptionalSend,
    {
        let (from, to) = half_open(&range);
        let reader = self.clone();
        Box::pin(async_stream::try_stream! {
            let mut next = from;
            while next < to {
                let batch = reader.load_entries(next, to, true)?;
                let Some(last) = batch.last() else { break };
                next = last.log_id.index + 1;
                for entry in batch {
                    yield entry;
                }
            }
        })
    }

    async fn read_vote(&mut self) -> Result<Option<Vote>, io::Error> {
        self.load_vote()
    }
}

impl RaftLogStorage<TypeConfig> for LogStore {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState, io::Error> {
        let (last_purged_log_id, last_log_id) = self.bounds()?;
        Ok(LogState { last_purged_log_id, last_log_id })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> Result<(), io::Error> {
        self.write()?.save_vote(VoteV1::from(vote)).map_err(|error| self.failed("write the vote to", error))?;
        // ORDER: answered after the sync. A vote that is given and forgotten lets two leaders be elected in one term.
        self.sync().await.map_err(|_| io::Error::other("the thread that syncs the log has ended"))?
    }

    /// Written with the records around it and never synced on its own: a restart that finds an older one applies less
    /// at first, and the leader says the rest.
    async fn save_committed(&mut self, committed: Option<LogId>) -> Result<(), io::Error> {
        let Some(committed) = committed.as_ref().map(LogIdV1::from) else { return Ok(()) };
        let mut log = self.write()?;
        let state = log.log_state();
        if Some(&committed) <= state.committed() || Some(&committed) > state.last() {
            // A snapshot got there first; the log knows nothing of that entry and needs no note of it.
            return Ok(());
        }
        log.commit(committed)
            .and_then(|_| log.flush(false, None))
            .map_err(|error| self.failed("write the committed index to", error))
    }

    async fn read_committed(&mut self) -> Result<Option<LogId>, io::Error> {
        Ok(self.read()?.log_state().committed().copied().map(LogId::from))
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<TypeConfig>) -> Result<(), io::Error>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut sealed = Vec::new();
        for entry in entries {
            let entry = EntryV1::from(entry);
            let payload = SealedPayload::seal(&entry.payload);
            check_size(&payload, &self.shared.dir)?;
            sealed.push((entry.log_id, payload));
        }
        self.write()?.append(sealed).map_err(|error| self.failed("append to the Raft log in", error))?;
        // ORDER: readable now, acknowledged after the sync.
        self.shared.commit.sync(callback);
        Ok(())
    }

    async fn truncate_after(&mut self, last_log_id: Option<LogId>) -> Result<(), io::Error> {
        let keep = last_log_id.map_or(0, |last| last.index + 1);
        let mut log = self.write()?;
        if log.log_state().last().is_none_or(|last| keep > last.index) {
            return Ok(());
        }
        // CRASH: one record. Before it is on disk the old tail is back, after it the tail is gone: never a hole. It needs
        // no sync of its own, since what is appended next comes behind it in the same file.
        log.truncate(keep).map_err(|error| self.failed("truncate the Raft log in", error))?;
        Ok(())
    }

    async fn purge(&mut self, log_id: LogId) -> Result<(), io::Error> {
        self.write()?.purge(LogIdV1::from(&log_id)).map_err(|error| self.failed("purge the Raft log in", error))?;
        // ORDER: files are unlinked by the sync that makes this record durable, behind it. Nobody waits for that.
        self.shared.commit.sync(IOFlushed::noop());
        Ok(())
    }
}

tokio::task_local! {
    static PURGED_READ: Arc<AtomicBool>;
}

/// Polls what reads the log for a follower, and sets the flag where that asks for entries that are purged.
///
/// openraft may still have such a reading under way when it has decided for a snapshot: then it would send what is left
/// behind the hole. A reader that says nothing of it is asked again and again, and one that fails stops the leader, so who
/// sends the entries ends the stream.
pub fn watch_purged_reads<T>(flag: &Arc<AtomicBool>, poll: impl FnOnce() -> T) -> T {
    PURGED_READ.sync_scope(flag.clone(), poll)
}

fn note_purged_read() {
    // Outside of it nobody sends what was read.
    let _ = PURGED_READ.try_with(|flag| flag.store(true, Ordering::Relaxed));
}

/// Any range as `from..to`.
fn half_open(range: &impl RangeBounds<u64>) -> (u64, u64) {
    let from = match range.start_bound() {
        Bound::Included(from) => *from,
        Bound::Excluded(before) => before.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let to = match range.end_bound() {
        Bound::Included(last) => last.saturating_add(1),
        Bound::Excluded(to) => *to,
        Bound::Unbounded => u64::MAX,
    };
    (from, to)
}
