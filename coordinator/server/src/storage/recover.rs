//! Bringing a peer's durable parts together at its start: each of them may be older than the others, and some may be
//! damaged; what is started with must fit.

use rollcall_ident::Revision;
use rollcall_rollout::{ChainHead, ChainedRecord};
use tokio::sync::watch;

use super::error::StorageError;
use super::history::{Command, History, HistoryBounds, RETAINED_REVISIONS};
use super::identity::DataDir;
use super::log_open;
use super::log_store::LogStore;
use super::snapshot_file::{Loaded, SnapshotFile};
use super::snapshot_store::SnapshotStore;
use super::state_machine::{AppliedState, StateMachine};
use crate::world::simulated;

pub(super) const LOG_DIR: &str = "log";
pub(super) const SNAPSHOT_DIR: &str = "snapshots";
pub(super) const HISTORY_DIR: &str = "history";

/// How large files and histories get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// Of a file of the log. Tests want many of them from a few entries.
    pub log_chunk_bytes: usize,
    /// BOUND: revisions of which the events are kept.
    pub history_revisions: u64,
}

impl Default for Sizes {
    fn default() -> Self {
        Self { log_chunk_bytes: log_open::CHUNK_BYTES, history_revisions: RETAINED_REVISIONS }
    }
}

/// Everything durable of a peer, opened.
pub struct Storage {
    /// For openraft: entries, vote, committed index.
    pub log: LogStore,
    /// For openraft: applies entries, makes and installs snapshots. It starts at the newest snapshot; openraft re-applies
    /// the log up to the committed index before it takes part.
    pub state_machine: StateMachine,
    /// What has been applied on this peer, now and from now on.
    pub applied: watch::Receiver<AppliedState>,
    /// The event history of this peer.
    pub history: History,
    /// To stream the current snapshot, and to receive one.
    pub snapshots: SnapshotStore,
}

impl Storage {
    /// Opens what is in the data directory, or makes it. Blocks, and reads the whole log: call it before serving.
    ///
    /// # Errors
    /// [`StorageError`] says what to do. Nothing that is damaged is used.
    pub fn open(dir: &DataDir, sizes: Sizes) -> Result<Self, StorageError> {
        if simulated().is_some() {
            return Self::open_here(dir, sizes);
        }
        // On a thread of its own: it waits for the history's thread, which tokio forbids on the threads of a runtime.
        std::thread::scope(|scope| {
            let opening = scope.spawn(|| Self::open_here(dir, sizes));
            opening.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    fn open_here(dir: &DataDir, sizes: Sizes) -> Result<Self, StorageError> {
        let log = LogStore::open_chunked(&dir.path().join(LOG_DIR), sizes.log_chunk_bytes)?;
        let (snapshots, loaded) = SnapshotStore::open(&dir.path().join(SNAPSHOT_DIR))?;
        let history = History::open(&dir.path().join(HISTORY_DIR), sizes.history_revisions)?;
        let start = match (snapshots.current(), &loaded) {
            (Some(current), Some(loaded)) => AppliedState::from_snapshot(&current.meta, loaded.state.clone()),
            _ => AppliedState::default(),
        };
        check_log_reaches(dir, &log, &start)?;
        refill_if_doubtful(&history, sizes.history_revisions, &log, &snapshots, loaded.as_ref(), &start)?;
        let state_machine = StateMachine::new(start, history.clone(), snapshots.clone());
        let applied = state_machine.subscribe();
        Ok(Self { log, state_machine, applied, history, snapshots })
    }
}

/// INVARIANT: whatever was purged from the log is in a snapshot. If the newest snapshots are damaged or gone, the state
/// between can't be had from this disk.
fn check_log_reaches(dir: &DataDir, log: &LogStore, start: &AppliedState) -> Result<(), StorageError> {
    let path = dir.path();
    let (purged, _) = log.bounds().map_err(|error| StorageError::io("read the Raft log in", path, error))?;
    if purged <= start.last_applied {
        return Ok(());
    }
    let index = purged.map_or(0, |purged| purged.index);
    let reached = start.revision();
    let what = format!(
        "the log begins behind entry {index}, and the newest snapshot that is whole reaches only to {reached}: a \
         snapshot was damaged or removed"
    );
    Err(StorageError::damaged(path.join(SNAPSHOT_DIR), what))
}

/// The history is filled from the snapshot unless it reaches from where it should to the snapshot; what comes after is
/// recorded again while the log is re-applied.
fn refill_if_doubtful(
    history: &History,
    retained: u64,
    log: &LogStore,
    snapshots: &SnapshotStore,
    loaded: Option<&Loaded>,
    start: &AppliedState,
) -> Result<(), StorageError> {
    let HistoryBounds { floor, applied, .. } = history.bounds();
    let snapshot_floor = loaded.map_or(Revision(0), |loaded| loaded.history_floor);
    let expected_floor = snapshot_floor.max(Revision(applied.0.saturating_sub(retained)));
    // Entries are committed before they are recorded, so the log reaches at least as far, unless it isn't the log that
    // this history came from.
    let (_, last) = log.bounds().map_err(|error| StorageError::io("read", "the Raft log", error))?;
    let log_end = Revision(last.map_or(0, |last| last.index)).max(start.revision());
    if applied >= start.revision() && applied <= log_end && floor <= expected_floor {
        return Ok(());
    }
    tracing::warn!(
        floor = floor.0,
        applied = applied.0,
        snapshot = start.revision().0,
        "the event history doesn't fit the snapshot: filling it again"
    );
    match (snapshots.current(), loaded) {
        (Some(current), Some(loaded)) => fill_history(history, &current.snapshot, loaded),
        _ => {
            history.send_blocking(Command::Reset { floor: Revision(0), anchor: ChainHead::default() });
            Ok(())
        }
    }
}

/// Replaces the history by the one in a snapshot.
pub(super) fn fill_history(history: &History, file: &SnapshotFile, contents: &Loaded) -> Result<(), StorageError> {
    let last = Revision(contents.head.last_log_id.map_or(0, |last| last.index));
    let Loaded { history_floor, anchor, .. } = *contents;
    history.send_blocking(Command::Reset { floor: history_floor, anchor });
    file.load(|records: Vec<ChainedRecord>| {
        if let Some((applied, head)) = records.last().map(|record| (record.record.revision, record.head())) {
            history.send_blocking(Command::Append { records, applied, head });
        }
        Ok(())
    })?;
    let head = contents.state.audit_head();
    history.send_blocking(Command::Append { records: Vec::new(), applied: last, head });
    Ok(())
}
