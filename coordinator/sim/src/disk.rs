//! The disk under a peer's log: real files, of which the simulator knows how much was synced. A power cut leaves that, and of
//! what was written behind it as much as chance will have it.
//!
//! As ext4 has it by default: a file that was synced keeps its name, bytes are lost from the end.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use rand::Rng as _;
use rand::rngs::StdRng;

/// What happens to the next syncs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mood {
    /// They succeed.
    #[default]
    Well,
    /// They succeed, slowly.
    Slow,
    /// They don't come to an end.
    Hangs,
    /// There is no space left.
    Full,
    /// The next one fails, and what it was to sync is lost from then on.
    Fails,
}

/// As good as for ever: longer than anybody waits for a peer.
const HANGS_MS: u64 = 30_000;

/// The disk of a peer.
pub struct Disk {
    log: PathBuf,
    synced: BTreeMap<PathBuf, u64>,
    /// How the disk is.
    pub mood: Mood,
    sync_ms: u64,
}

impl Disk {
    /// Of the peer whose data lies in `data_dir`. A sync takes so long at most.
    #[must_use]
    pub fn new(data_dir: &Path, sync_ms: u64) -> Self {
        Self { log: data_dir.join("log"), synced: BTreeMap::new(), mood: Mood::Well, sync_ms }
    }

    /// Whether the log in this folder lies on it.
    #[must_use]
    pub fn holds(&self, log: &Path) -> bool {
        self.log == log
    }

    /// A sync begins: how long it takes, and what comes of it.
    pub fn begin_sync(&mut self, rng: &mut StdRng) -> (u64, io::Result<()>) {
        let takes_ms = rng.random_range(0..=self.sync_ms);
        match self.mood {
            Mood::Well => (takes_ms, Ok(())),
            Mood::Slow => (takes_ms + rng.random_range(100..1_500), Ok(())),
            Mood::Hangs => (takes_ms + HANGS_MS, Ok(())),
            Mood::Full => (takes_ms, Err(io::ErrorKind::StorageFull.into())),
            Mood::Fails => {
                self.mood = Mood::Well;
                (takes_ms, Err(io::Error::from_raw_os_error(5)))
            }
        }
    }

    /// All that stands in the log's files is durable.
    pub fn synced(&mut self) {
        self.synced = sizes(&self.log);
    }

    /// It is another disk, and empty.
    pub fn synced_nothing(&mut self) {
        self.synced.clear();
    }

    /// The power is gone. What is said about it is for the trace.
    ///
    /// # Errors
    /// The real disk fails.
    pub fn cut_power(&mut self, rng: &mut StdRng) -> io::Result<String> {
        let (mut lost, mut is_torn) = (0, false);
        for (path, size) in sizes(&self.log) {
            let durable = self.synced.get(&path).copied().unwrap_or(0).min(size);
            // What was written last is lost first: nothing behind a torn end is left.
            let kept = if is_torn { durable } else { rng.random_range(durable..=size) };
            is_torn |= kept < size;
            lost += size - kept;
            if kept == 0 && !self.synced.contains_key(&path) {
                fs::remove_file(&path)?;
            } else if kept < size {
                OpenOptions::new().write(true).open(&path)?.set_len(kept)?;
            }
        }
        Ok(format!("{lost} unsynced bytes are lost"))
    }
}

fn sizes(log: &Path) -> BTreeMap<PathBuf, u64> {
    let Ok(entries) = fs::read_dir(log) else { return BTreeMap::new() };
    let files = entries.filter_map(Result::ok).map(|entry| entry.path());
    let logs = files.filter(|path| path.extension().is_some_and(|extension| extension == "wal"));
    logs.filter_map(|path| Some((path.clone(), fs::metadata(&path).ok()?.len()))).collect()
}
