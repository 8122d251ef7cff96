//! The thread that owns the history's files, and heals them.
//!
//! sled blocks, and it panics on damage. So it runs here, away from the runtime, and everything it does is caught. After
//! any error the folder is put aside and an empty one begins behind what was recorded: readers are told that the rest is
//! compacted on this peer, and the next start fills it again from the snapshot.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rollcall_ident::Revision;
use rollcall_rollout::{ChainHead, ChainedRecord};
use tokio::sync::{mpsc, oneshot, watch};

use super::error::StorageError;
use super::history::{Command, History, HistoryBounds, HistoryError, HistoryPage, MAX_PAGE_RECORDS, QUEUED_COMMANDS};
use super::history_book::{Book, BookError};
use crate::world::simulated;

/// A crash loses at most this much from the files; it is recorded again while the log is re-applied.
const FLUSH_EVERY: u64 = 1024;

/// How long a folder that can't even be made anew is left alone: its disk is full or failing.
const RETRY_AFTER: Duration = Duration::from_secs(10);

impl History {
    /// Opens the history in `dir`, which keeps so many revisions, and starts its thread. Whatever is wrong with the files, it opens: empty if need be.
    ///
    /// # Errors
    /// Only if the thread can't be started.
    pub(super) fn open(dir: &Path, retained: u64) -> Result<Self, StorageError> {
        let (commands, queue) = mpsc::channel(QUEUED_COMMANDS);
        let (publish, bounds) = watch::channel(HistoryBounds::default());
        if simulated().is_some() {
            return Ok(Self::simulated(Keeper::open(dir.to_owned(), retained, publish), bounds));
        }
        let (opened, wait) = std::sync::mpsc::sync_channel(1);
        let path = dir.to_owned();
        let thread = std::thread::Builder::new()
            .name("rollcall-history".into())
            .spawn(move || {
                let keeper = Keeper::open(path, retained, publish);
                // The other side waits for it, or has given up.
                let _ = opened.send(());
                keeper.run(queue);
            })
            .map_err(|error| StorageError::io("start the thread of the history in", dir, error))?;
        // A thread that ended before it could answer has logged why; its handle reports it to every reader.
        let _ = wait.recv();
        Ok(Self::new(commands, bounds, thread))
    }
}

/// What is done with the history's files.
pub(super) struct Keeper {
    dir: PathBuf,
    retained: u64,
    /// The open files, or why there are none.
    book: Result<Book, String>,
    publish: watch::Sender<HistoryBounds>,
    /// Up to here it was flushed.
    flushed: Revision,
    /// What the state machine said last, heard while there are no files too: a history made anew begins behind it.
    last: (Revision, ChainHead),
    retry_at: Option<Instant>,
}

impl std::fmt::Debug for Keeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keeper").field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl Keeper {
    fn open(dir: PathBuf, retained: u64, publish: watch::Sender<HistoryBounds>) -> Self {
        let book = guarded(|| Book::open(&dir, retained));
        let (flushed, last) = (Revision(0), (Revision(0), ChainHead::default()));
        let mut keeper =
            Self { dir, retained, book: Err("not opened yet".into()), publish, flushed, last, retry_at: None };
        match book {
            Ok(book) => {
                let HistoryBounds { applied, head, .. } = book.bounds();
                keeper.last = (applied, head);
                keeper.book = Ok(book);
            }
            Err(reason) => keeper.begin_again(&reason),
        }
        keeper.publish_bounds();
        keeper.flushed = keeper.publish.borrow().applied;
        keeper
    }

    fn run(mut self, mut queue: mpsc::Receiver<Command>) {
        while let Some(command) = queue.blocking_recv() {
            self.obey(command);
        }
        self.flush();
        self.close();
    }

    pub(super) fn obey(&mut self, command: Command) {
        match command {
            Command::Append { records, applied, head } => self.append(&records, applied, head),
            Command::Read { from, limit, reply } => self.answer(from, limit, reply),
            Command::Reset { floor, anchor } => self.reset(floor, anchor),
            Command::Flush { reply } => {
                self.flush();
                let _ = reply.send(());
            }
        }
        let applied = self.publish.borrow().applied;
        if applied.0 >= self.flushed.0 + FLUSH_EVERY || applied < self.flushed {
            self.flush();
            self.flushed = applied;
        }
    }

    fn append(&mut self, records: &[ChainedRecord], applied: Revision, head: ChainHead) {
        self.last = (applied, head);
        self.retry();
        let Ok(book) = &mut self.book else { return };
        if let Err(reason) = guarded(|| book.append(records, applied)) {
            self.begin_again(&reason);
        }
        self.publish_bounds();
    }

    /// Once more, where there are no files because the disk had no room for them a while ago.
    fn retry(&mut self) {
        if self.book.is_err() && self.retry_at.is_some_and(|at| Instant::now() >= at) {
            self.begin_again("it couldn't be made anew before");
            self.publish_bounds();
        }
    }

    fn answer(&mut self, from: Revision, limit: usize, reply: oneshot::Sender<Result<HistoryPage, HistoryError>>) {
        let result = self.read(from, limit);
        // Whoever asked may have gone.
        let _ = reply.send(result);
    }

    pub(super) fn read(&mut self, from: Revision, limit: usize) -> Result<HistoryPage, HistoryError> {
        self.retry();
        let book = self.book.as_ref().map_err(|reason| HistoryError::Unavailable { reason: reason.clone() })?;
        let HistoryBounds { floor, .. } = book.bounds();
        // The entry at index 0 sets the first membership and has no events: who asks for everything starts at 1.
        let from = Revision(from.0.max(1));
        if from <= floor {
            return Err(HistoryError::Compacted { floor });
        }
        match guarded(|| book.read(from, limit.clamp(1, MAX_PAGE_RECORDS))) {
            Ok(page) => Ok(page),
            Err(reason) => {
                self.begin_again(&reason);
                self.publish_bounds();
                Err(HistoryError::Unavailable { reason })
            }
        }
    }

    fn reset(&mut self, floor: Revision, anchor: ChainHead) {
        self.last = (floor, anchor);
        self.close();
        self.create(floor, anchor);
        self.publish_bounds();
    }

    fn flush(&mut self) {
        let Ok(book) = &self.book else { return };
        if let Err(reason) = guarded(|| book.flush()) {
            self.begin_again(&reason);
            self.publish_bounds();
        }
    }

    /// Puts the folder aside and starts an empty one behind what was heard last.
    fn begin_again(&mut self, reason: &str) {
        let (floor, anchor) = self.last;
        tracing::warn!(
            folder = %self.dir.display(), reason, floor = floor.0,
            "the event history on this disk can't be used: it is put aside and begins anew; what was recorded before \
             is filled in from the snapshot at the next start"
        );
        self.close();
        let aside = self.dir.with_extension("damaged");
        // BOUND: one folder is kept for whoever looks into it.
        let moved = if aside.exists() { fs::remove_dir_all(&aside) } else { Ok(()) };
        if let Err(error) = moved.and_then(|()| if self.dir.exists() { fs::rename(&self.dir, &aside) } else { Ok(()) })
        {
            tracing::warn!(folder = %self.dir.display(), %error, "the damaged history can't be put aside");
        }
        self.create(floor, anchor);
    }

    fn create(&mut self, floor: Revision, anchor: ChainHead) {
        self.book = guarded(|| Book::create(&self.dir, self.retained, floor, anchor));
        self.retry_at = None;
        if let Err(reason) = &self.book {
            tracing::error!(
                folder = %self.dir.display(), reason,
                "no event history is kept on this peer; free or repair its disk"
            );
            self.retry_at = Some(Instant::now() + RETRY_AFTER);
        }
    }

    fn close(&mut self) {
        let book = std::mem::replace(&mut self.book, Err("it is being rebuilt".into()));
        // sled works on the files once more while it is dropped.
        if let Err(reason) = guarded(move || {
            drop(book);
            Ok(())
        }) {
            tracing::warn!(folder = %self.dir.display(), reason, "the event history wasn't closed cleanly");
        }
    }

    fn publish_bounds(&self) {
        let Ok(book) = &self.book else { return };
        let bounds = book.bounds();
        self.publish.send_if_modified(|known| std::mem::replace(known, bounds) != bounds);
    }
}

/// Runs what sled does and makes its panics errors. What it leaves behind is dropped, never used again.
fn guarded<T>(work: impl FnOnce() -> Result<T, BookError>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(panic) => Err(panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("sled panicked")
            .to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_reads_finds_a_history_again_once_the_disk_has_room() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("disk/history");
        // As good as a full disk: nothing can be made there.
        fs::write(parent.path().join("disk"), "").unwrap();
        let (publish, bounds) = watch::channel(HistoryBounds::default());
        let mut keeper = Keeper::open(dir, 1_000, publish);
        let head = ChainHead { revision: Revision(7), ..ChainHead::default() };
        keeper.append(&[], Revision(7), head);
        fs::remove_file(parent.path().join("disk")).unwrap();
        let unavailable = |found| matches!(found, Err(HistoryError::Unavailable { .. }));
        assert!(unavailable(keeper.read(Revision(8), 10)), "it isn't tried all the time");
        keeper.retry_at = Some(Instant::now());
        assert!(keeper.read(Revision(8), 10).is_ok());
        let HistoryBounds { floor, applied, .. } = *bounds.borrow();
        assert_eq!((floor, applied), (Revision(7), Revision(7)), "what came before isn't there, and that is said");
        let before = keeper.read(Revision(7), 10);
        assert!(matches!(before, Err(HistoryError::Compacted { floor: Revision(7) })), "{before:?}");
    }
}
