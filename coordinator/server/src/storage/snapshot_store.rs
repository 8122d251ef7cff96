//! The snapshots of a peer: files in one folder, of which the newest good one counts.
//!
//! # Invariants
//! - A file has its name only once it is whole and on disk: written and synced under a temporary name, renamed, the
//!   folder synced.
//! - A snapshot that was received counts only after all of it was read and its checksums were right.
//! - The newest two are kept, so that damage of the newest leaves a way back as long as the log still reaches there.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rollcall_rollout::State;

use super::disk::LogIdV1;
use super::error::{IoContext as _, StorageError};
use super::files::{create_dir_durable, remove_leftovers, rename_durable, sync_dir, temp_path};
use super::snapshot_file::{HeadV1, Loaded, SnapshotFile, SnapshotWriter, SyncedFile};
use super::types::{Snapshot, SnapshotMeta};
use crate::world;

/// BOUND: each is as large as the state and its history; one before the newest is the way back.
const KEPT_SNAPSHOTS: usize = 2;

const EXTENSION: &str = "snap";

/// Where damaged snapshots go, for whoever looks into it. They are never read again.
const DAMAGED_EXTENSION: &str = "damaged";

/// The snapshots of a peer. A clone is a handle on the same folder. Its functions block: call them off the runtime.
#[derive(Debug, Clone)]
pub struct SnapshotStore {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    dir: PathBuf,
    current: Mutex<Option<Snapshot>>,
    received: AtomicU64,
}

impl SnapshotStore {
    /// Opens the folder, removes what interrupted writes left, and loads the newest snapshot that is whole.
    ///
    /// # Errors
    /// What the system says; all snapshots being damaged is not one, but leaves none.
    pub(super) fn open(dir: &Path) -> Result<(Self, Option<Loaded>), StorageError> {
        create_dir_durable(dir)?;
        remove_leftovers(dir)?;
        let (mut current, mut loaded) = (None, None);
        for path in snapshot_files(dir)? {
            let read = SnapshotFile::open(&path).and_then(|file| {
                let contents = file.load(|_| Ok(()))?;
                Ok((Snapshot { meta: contents.meta(&path)?, snapshot: file }, contents))
            });
            match read {
                Ok((snapshot, contents)) => {
                    (current, loaded) = (Some(snapshot), Some(contents));
                    break;
                }
                Err(error @ StorageError::Damaged { .. }) => {
                    tracing::error!(%error, "a snapshot is damaged; trying the one before it");
                    fs::rename(&path, path.with_extension(DAMAGED_EXTENSION)).at("put aside", &path)?;
                    sync_dir(dir)?;
                }
                Err(error) => return Err(error),
            }
        }
        let shared = Shared { dir: dir.to_owned(), current: Mutex::new(current), received: AtomicU64::new(0) };
        Ok((Self { shared: Arc::new(shared) }, loaded))
    }

    /// The newest snapshot.
    pub fn current(&self) -> Option<Snapshot> {
        self.lock_current().clone()
    }

    /// Starts to write a snapshot of this peer's state, to be finished by [`publish`](Self::publish).
    pub(super) fn create(&self, head: HeadV1, state: State) -> Result<(SnapshotWriter, PathBuf), StorageError> {
        let path = self.path_of(head.last_log_id);
        let writer = SnapshotWriter::create(&temp_path(&path), head, state)?;
        Ok((writer, path))
    }

    /// Where a snapshot is written that somebody asked for: removed at the next start if this process dies meanwhile.
    pub(super) fn export_path(&self) -> PathBuf {
        let number = self.shared.received.fetch_add(1, Ordering::Relaxed);
        temp_path(&self.shared.dir.join(format!("export-{number}")))
    }

    /// Gives a finished snapshot its name and makes it the current one, unless a newer one came meanwhile.
    pub(super) fn publish(&self, meta: SnapshotMeta, path: &Path) -> Result<Snapshot, StorageError> {
        rename_durable(&temp_path(path), path)?;
        let snapshot = Snapshot { meta, snapshot: SnapshotFile::open(path)? };
        self.advance(snapshot.clone())?;
        Ok(snapshot)
    }

    /// Starts to receive a snapshot from another peer.
    ///
    /// # Errors
    /// What the system says.
    pub fn receive(&self) -> Result<SnapshotReceiver, StorageError> {
        let number = self.shared.received.fetch_add(1, Ordering::Relaxed);
        let path = temp_path(&self.shared.dir.join(format!("received-{number}")));
        let to = SyncedFile::create(&path)?;
        // Removed with the receiver if it is dropped half-way.
        Ok(SnapshotReceiver { to, file: SnapshotFile::open_unfinished(&path)?, bytes: 0 })
    }

    /// Makes a snapshot this peer's own and its current one. It is on disk, under its name, when this returns.
    pub(super) fn install(
        &self,
        meta: &SnapshotMeta,
        file: &SnapshotFile,
    ) -> Result<(Loaded, SnapshotFile), StorageError> {
        let contents = file.load(|_| Ok(()))?;
        if contents.meta(file.path())? != *meta {
            let what = format!("it covers {:?}, and {meta} was announced", contents.head.last_log_id);
            return Err(StorageError::damaged(file.path(), what));
        }
        let path = self.path_of(contents.head.last_log_id);
        if file.path() != path {
            // CRASH: until the rename the old state, and the log behind it, count; from then on the new state does, and
            // openraft cleans what the log holds below it.
            if file.path().parent() == Some(self.shared.dir.as_path()) {
                rename_durable(file.path(), &path)?;
            } else {
                let temp = temp_path(&path);
                fs::copy(file.path(), &temp).at("copy a snapshot to", &temp)?;
                File::open(&temp).and_then(|copy| copy.sync_all()).at("sync", &temp)?;
                rename_durable(&temp, &path)?;
            }
        }
        let installed = SnapshotFile::open(&path)?;
        self.advance(Snapshot { meta: meta.clone(), snapshot: installed.clone() })?;
        Ok((contents, installed))
    }

    fn advance(&self, snapshot: Snapshot) -> Result<(), StorageError> {
        let mut current = self.lock_current();
        if current.as_ref().is_none_or(|current| current.meta.last_log_id <= snapshot.meta.last_log_id) {
            *current = Some(snapshot);
        }
        let outdated = snapshot_files(&self.shared.dir)?;
        for path in outdated.iter().skip(KEPT_SNAPSHOTS) {
            fs::remove_file(path).at("remove", path)?;
        }
        sync_dir(&self.shared.dir)
    }

    fn path_of(&self, last: Option<LogIdV1>) -> PathBuf {
        let LogIdV1 { term, index } = last.unwrap_or(LogIdV1 { term: 0, index: 0 });
        // Padded, so that the order of names is that of the log.
        self.shared.dir.join(format!("{index:020}-{term:020}.{EXTENSION}"))
    }

    fn lock_current(&self) -> std::sync::MutexGuard<'_, Option<Snapshot>> {
        // What is stored under it is replaced as a whole.
        self.shared.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The snapshots in `dir`, newest first.
fn snapshot_files(dir: &Path) -> Result<Vec<PathBuf>, StorageError> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).at("read", dir)? {
        let path = entry.at("read", dir)?.path();
        if path.extension().is_some_and(|extension| extension == EXTENSION) {
            found.push(path);
        }
    }
    found.sort();
    found.reverse();
    Ok(found)
}

/// Takes a snapshot from another peer, chunk by chunk. Dropped before [`finish`](Self::finish) it leaves nothing.
#[derive(Debug)]
pub struct SnapshotReceiver {
    to: SyncedFile,
    file: SnapshotFile,
    bytes: u64,
}

impl SnapshotReceiver {
    /// How many bytes have come: the offset of the next chunk.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Writes the next chunk.
    ///
    /// # Errors
    /// What the system says.
    pub fn write_chunk(&mut self, chunk: &[u8]) -> Result<(), StorageError> {
        self.to.write_all(chunk).at("write", self.file.path())?;
        self.bytes += chunk.len() as u64;
        Ok(())
    }

    /// Syncs the file, reads all of it and checks it. What it returns can be installed.
    ///
    /// # Errors
    /// [`StorageError::Damaged`] if it isn't what was sent: ask for it again.
    pub fn finish(self) -> Result<Snapshot, StorageError> {
        let path = self.file.path();
        self.to.sync_all().at("sync", path)?;
        let file = self.file.reopened()?;
        let meta = file.load(|_| Ok(()))?.meta(path)?;
        Ok(Snapshot { meta, snapshot: file })
    }
}

/// What openraft calls from its tasks must not block them.
pub(super) async fn off_the_runtime<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StorageError> + Send + 'static,
) -> io::Result<T> {
    world::off_the_runtime(work).await.map_err(io::Error::other)?.map_err(io::Error::from)
}
