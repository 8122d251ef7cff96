//! Opening the Raft log: what is read back must be what is on the device, and all of it must make sense.

use std::fs::{self, File};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use raft_log::RaftLog;
use rollcall_rollout::{Planted, is_planted};
use rustix::fs::{Advice, fadvise};

use super::error::{IoContext as _, StorageError};
use super::files::{create_dir_durable, sync_dir};
use super::log_sync;
use super::log_torn;
use super::wal::Wal;
use crate::world::simulated;

/// BOUND: a file of the log. Purging removes whole files, so this is also what a purge leaves behind at most.
pub(super) const CHUNK_BYTES: usize = 4 << 20;

/// BOUND: payloads of entries kept in memory for followers that are nearly caught up; others are read from disk.
const CACHE_BYTES: usize = 16 << 20;

/// BOUND: what is read at once when a file is replayed (the crate's default is 64 MiB, for files of 4).
const READ_BYTES: usize = 1 << 20;

/// Opens the log in `dir`, or makes an empty one.
///
/// When it returns, everything that can be read from the log is on disk.
pub(super) fn open(dir: &Path, chunk_bytes: usize) -> Result<Arc<RwLock<RaftLog<Wal>>>, StorageError> {
    create_dir_durable(dir)?;
    let files = chunk_files(dir)?;
    reread_from_device(&files)?;
    check_none_empty(&files)?;
    let config = Arc::new(config(dir, chunk_bytes)?);
    let log = match replay(dir, &config) {
        Err(StorageError::Damaged { .. }) if cut_off_if_torn(&config)? => replay(dir, &config)?,
        result => result?,
    };
    check_complete(dir, &log)?;
    let log = Arc::new(RwLock::new(log));
    // CRASH: until here nobody was told about the recovered tail. A tail that was only in the page cache when the
    // process died must not count before it is synced: acknowledged again and then lost, it would break a promise.
    if !is_planted(Planted::TailNotSynced) {
        log_sync::sync_now(&log).at("sync the Raft log in", dir)?;
        if let Some(world) = simulated() {
            world.synced(dir);
        }
    }
    sync_dir(dir)?;
    Ok(log)
}

fn config(dir: &Path, chunk_bytes: usize) -> Result<raft_log::Config, StorageError> {
    let text = dir.to_str().ok_or_else(|| {
        let source = io::Error::new(io::ErrorKind::InvalidInput, "the path isn't UTF-8: choose another `data_dir`");
        StorageError::io("open the Raft log in", dir, source)
    })?;
    let mut config = raft_log::Config::new(text);
    config.wal.chunk_max_size = Some(chunk_bytes);
    config.wal.read_buffer_size = Some(READ_BYTES);
    // Group commit is ours (`log_sync`): the crate's wait would only add to every append.
    config.wal.flush_batch_wait = Some(Duration::ZERO);
    config.log_cache_capacity = Some(CACHE_BYTES);
    Ok(config)
}

/// Syncs the files of the log and drops them from the page cache.
///
/// After a failed fsync the cache holds pages that the disk never got and that count as clean, so that a later fsync
/// succeeds: read from there, the log would look whole until the next power cut. Dropped, they are read from the device
/// and a loss is seen now, while it can be healed from the other peers.
fn reread_from_device(files: &[PathBuf]) -> Result<(), StorageError> {
    for path in files {
        let file = File::open(path).at("open", path)?;
        if !is_planted(Planted::TailNotSynced) {
            file.sync_data().at("sync", path)?;
        }
        fadvise(&file, 0, None, Advice::DontNeed).map_err(io::Error::from).at("read", path)?;
    }
    Ok(())
}

/// A file that is empty is one whose first write was interrupted, and so nothing can stand in those behind it.
fn check_none_empty(files: &[PathBuf]) -> Result<(), StorageError> {
    let mut empty = None;
    for path in files {
        let is_empty = fs::metadata(path).at("read", path)?.len() == 0;
        match empty {
            Some(empty) if !is_empty => return Err(StorageError::damaged(empty, "it is empty, and others follow it")),
            None if is_empty => empty = Some(path),
            _ => {}
        }
    }
    Ok(())
}

fn chunk_files(dir: &Path) -> Result<Vec<PathBuf>, StorageError> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).at("read", dir)? {
        let path = entry.at("read", dir)?.path();
        if path.extension().is_some_and(|extension| extension == "wal") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// INVARIANT: the log holds exactly the entries behind the purged one up to the last. The crate checks that what it
/// replays has no gap; that the first file is missing can only be seen here.
fn check_complete(dir: &Path, log: &RaftLog<Wal>) -> Result<(), StorageError> {
    let state = log.log_state();
    let Some(last) = state.last().copied() else { return Ok(()) };
    let first = state.purged().map_or(0, |purged| purged.index + 1);
    if first > last.index {
        return Ok(());
    }
    match log.read(first, first + 1).next() {
        Some(Ok(_)) => Ok(()),
        Some(Err(error)) => Err(StorageError::damaged(dir, format!("entry {first} can't be read: {error}"))),
        None => Err(StorageError::damaged(
            dir,
            format!("entry {first} is missing, though the log was purged only before it: a file was removed"),
        )),
    }
}

fn replay(dir: &Path, config: &Arc<raft_log::Config>) -> Result<RaftLog<Wal>, StorageError> {
    // The crate panicked on one kind of damage (see `check_none_empty`); should there be another, it is damage too.
    catch_unwind(AssertUnwindSafe(|| RaftLog::open(config.clone())))
        .map_err(|_| StorageError::damaged(dir, "reading it made the log's engine panic (see the message above)"))?
        .map_err(|error| explain(dir, config, error))
}

fn cut_off_if_torn(config: &raft_log::Config) -> Result<bool, StorageError> {
    log_torn::find_bad_record(config).map_or(Ok(false), |bad| log_torn::cut_off_if_torn(&bad))
}

/// Makes the crate's error one that names the file and the way out.
fn explain(dir: &Path, config: &raft_log::Config, error: io::Error) -> StorageError {
    match error.kind() {
        io::ErrorKind::WouldBlock => StorageError::Locked { path: dir.to_owned() },
        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof | io::ErrorKind::Other
            if error.raw_os_error().is_none() =>
        {
            let path = log_torn::find_bad_record(config).map_or_else(|| dir.to_owned(), |bad| bad.path);
            StorageError::damaged(path, error.to_string())
        }
        _ => StorageError::io("open the Raft log in", dir, error),
    }
}
