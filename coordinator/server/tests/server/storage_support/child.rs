//! A peer's storage under load, to be killed: what openraft would do to it, in a random order.
//!
//! It prints `A <n>` once entry n is durable, and `Q <n>` before it purges up to n. Now and then it replaces itself, in the
//! middle of an append, by a new process: whatever that one recovers counts as durable too, and is acknowledged again.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;

use openraft::RaftSnapshotBuilder as _;
use openraft::storage::{IOFlushed, RaftLogStorage, RaftLogStorageExt as _, RaftStateMachine};
use openraft::type_config::TypeConfigExt as _;
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use rollcall_coordinator::storage::types::{Entry, TypeConfig, Vote, log_id};
use rollcall_coordinator::storage::{DataDir, LogStore, Sizes, Storage, VoteV1};

use super::sample::entry;

/// Small, so that files are rotated and removed all the time.
pub const CHUNK_BYTES: usize = 64 << 10;

/// How many entries a snapshot is behind, at most.
const SNAPSHOT_EVERY: u64 = 150;

/// Tells the process that follows how many came before it.
const GENERATION: &str = "LOGTOOL_GENERATION";

/// Runs until it is killed.
pub fn run(dir: &Path, seed: u64) -> anyhow::Result<()> {
    let generation: u64 = std::env::var(GENERATION).ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    runtime.block_on(async {
        let dir = DataDir::lock(dir)?;
        let storage = Storage::open(&dir, Sizes { log_chunk_bytes: CHUNK_BYTES, ..Sizes::default() })?;
        let rng = SmallRng::seed_from_u64(seed.wrapping_add(generation));
        Child { storage, dir, rng, term: 1, next: 0, snapshot_at: 0 }.run(generation).await
    })
}

struct Child {
    storage: Storage,
    /// Behind the storage: its lock goes last.
    dir: DataDir,
    rng: SmallRng,
    term: u64,
    next: u64,
    snapshot_at: u64,
}

impl Child {
    async fn run(mut self, generation: u64) -> anyhow::Result<()> {
        let (_, last) = self.storage.log.bounds()?;
        if let Some(last) = last {
            self.next = last.index + 1;
            // Recovered, so it counts: a leader that hears of it takes it for durable, and commits it.
            say("A", last.index);
            // As a peer that waits for an election: nothing else makes the recovered tail durable meanwhile.
            tokio::time::sleep(Duration::from_millis(self.rng.random_range(0..20))).await;
            self.storage.log.save_committed(Some(last)).await?;
        }
        super::verify::apply_committed(&mut self.storage).await?;
        let vote = openraft::storage::RaftLogReader::read_vote(&mut self.storage.log).await?;
        self.term = vote.map_or(1, |vote| vote.leader_id.term + 1);
        self.save_vote().await?;
        loop {
            match self.rng.random_range(0..100) {
                0..=2 => self.change_term().await?,
                3..=5 => self.append_and_truncate().await?,
                6 => return self.restart(generation).await,
                _ => self.append().await?,
            }
            if self.next > self.snapshot_at + SNAPSHOT_EVERY {
                self.snapshot_and_purge().await?;
            }
        }
    }

    async fn append(&mut self) -> anyhow::Result<()> {
        let count = self.rng.random_range(1..20);
        let entries: Vec<_> = (self.next..self.next + count).map(|index| entry(self.term, index)).collect();
        // Two appends in flight, as from a leader that pipelines.
        let (first, second) = entries.split_at(entries.len() / 2);
        let (done, flushed) = TypeConfig::oneshot();
        self.storage.log.append(first.to_vec(), IOFlushed::noop()).await?;
        self.storage.log.append(second.to_vec(), IOFlushed::signal(done)).await?;
        flushed.await??;
        self.next += count;
        say("A", self.next - 1);
        self.commit_and_apply(entries).await
    }

    async fn commit_and_apply(&mut self, entries: Vec<Entry>) -> anyhow::Result<()> {
        let committed = entries.last().map(|entry| entry.log_id);
        self.storage.log.save_committed(committed).await?;
        let stream = futures::stream::iter(entries.into_iter().map(|entry| Ok((entry, None))));
        Ok(self.storage.state_machine.apply(stream).await?)
    }

    async fn change_term(&mut self) -> anyhow::Result<()> {
        self.term += 1;
        self.save_vote().await
    }

    async fn save_vote(&mut self) -> anyhow::Result<()> {
        let vote = Vote::from(VoteV1 { term: self.term, node: 1, committed: true });
        Ok(self.storage.log.save_vote(&vote).await?)
    }

    /// Entries that a new leader overrules.
    async fn append_and_truncate(&mut self) -> anyhow::Result<()> {
        let before = self.storage.log.bounds()?.1;
        let count = self.rng.random_range(1..8);
        let overruled: Vec<_> = (self.next..self.next + count).map(|index| entry(self.term, index)).collect();
        if self.rng.random() {
            self.storage.log.blocking_append(overruled).await?;
        } else {
            self.storage.log.append(overruled, IOFlushed::noop()).await?;
        }
        self.change_term().await?;
        self.storage.log.truncate_after(before).await?;
        self.append().await
    }

    async fn snapshot_and_purge(&mut self) -> anyhow::Result<()> {
        let mut builder = self.storage.state_machine.get_snapshot_builder().await;
        let snapshot = builder.build_snapshot().await?;
        self.snapshot_at = self.next;
        let keep = self.rng.random_range(0..60);
        if let Some(last) = snapshot.meta.last_log_id
            && last.index > keep
        {
            let upto = last.index - keep;
            let found =
                openraft::storage::RaftLogReader::try_get_log_entries(&mut self.storage.log, upto..=upto).await?;
            if let Some(found) = found.first() {
                say("Q", upto);
                self.storage.log.purge(log_id(found.log_id.leader_id.term, upto)).await?;
            }
        }
        Ok(())
    }

    /// Makes way for a new process, with writes that nobody has waited for.
    async fn restart(mut self, generation: u64) -> anyhow::Result<()> {
        let count = self.rng.random_range(1..200);
        let entries: Vec<_> = (self.next..self.next + count).map(|index| entry(self.term, index)).collect();
        if self.rng.random() {
            // Killed at any step of a write.
            self.storage.log.append(entries, IOFlushed::noop()).await?;
        } else {
            // Killed between a write and its sync.
            let dir = self.dir.path().to_owned();
            drop(self.storage);
            write_unsynced(&dir, entries).await?;
        }
        let mut arguments = std::env::args_os();
        let program = arguments.next().context("no program name")?;
        let command = &mut std::process::Command::new(program);
        Err(command.args(arguments).env(GENERATION, (generation + 1).to_string()).exec().into())
    }
}

/// Appends entries to the newest file of the log as a process does that dies before it can sync them: they are in the page
/// cache and nowhere else.
async fn write_unsynced(dir: &Path, entries: Vec<Entry>) -> anyhow::Result<()> {
    // Another log turns them into records; the same bytes may stand in any file.
    let scratch = dir.join("scratch");
    let mut log = LogStore::open(&scratch)?;
    let newest = |dir: &Path| -> anyhow::Result<PathBuf> {
        let files = std::fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
        files.into_iter().filter(|path| path.extension().is_some()).max().context("a log without files")
    };
    let before = usize::try_from(std::fs::metadata(newest(&scratch)?)?.len())?;
    log.blocking_append(entries).await?;
    let records = std::fs::read(newest(&scratch)?)?.split_off(before);
    drop(log);
    std::fs::remove_dir_all(&scratch)?;
    std::fs::OpenOptions::new().append(true).open(newest(&dir.join("log"))?)?.write_all(&records)?;
    Ok(())
}

fn say(what: &str, index: u64) {
    let mut out = std::io::stdout().lock();
    // Whoever listened may be gone.
    let _ = writeln!(out, "{what} {index}").and_then(|()| out.flush());
}
