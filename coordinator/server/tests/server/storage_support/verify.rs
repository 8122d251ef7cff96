//! What must be true of a data directory after a crash.

use std::path::Path;

use anyhow::{Context as _, ensure};
use openraft::storage::{RaftLogReader as _, RaftLogStorage as _, RaftStateMachine as _};
use rollcall_coordinator::storage::{DataDir, Sizes, Storage};
use rollcall_ident::Revision;

use super::child::CHUNK_BYTES;
use super::sample::entry;

/// Opens the directory and checks all of it: `acked` entries were durable, and a purge up to `purged` may have begun.
pub fn run(dir: &Path, acked: u64, purged: u64) -> anyhow::Result<()> {
    tokio::runtime::Builder::new_current_thread().build()?.block_on(check(dir, acked, purged))
}

async fn check(dir: &Path, acked: u64, purged: u64) -> anyhow::Result<()> {
    let dir = DataDir::lock(dir)?;
    let mut storage = Storage::open(&dir, Sizes { log_chunk_bytes: CHUNK_BYTES, ..Sizes::default() })?;
    let (first_gone, last) = storage.log.bounds()?;
    let last_index = last.map_or(0, |last| last.index);
    ensure!(last_index >= acked, "the log ends at {last_index}, and {acked} was acknowledged");
    let gone = first_gone.map_or(0, |gone| gone.index);
    ensure!(gone <= purged, "purged up to {gone}, and only {purged} was asked for");
    check_entries(&mut storage, first_gone.map_or(0, |gone| gone.index + 1), last_index).await?;
    check_vote(&mut storage).await?;

    apply_committed(&mut storage).await?;
    check_history(&storage).await
}

async fn check_entries(storage: &mut Storage, from: u64, last: u64) -> anyhow::Result<()> {
    if storage.log.bounds()?.1.is_none() {
        return Ok(());
    }
    let entries = storage.log.try_get_log_entries(from..=last).await?;
    ensure!(entries.len() as u64 == last + 1 - from, "{} entries between {from} and {last}", entries.len());
    let mut term = 0;
    for (found, index) in entries.into_iter().zip(from..) {
        let id = found.log_id;
        ensure!(id.index == index, "entry {} where {index} must be", id.index);
        ensure!(id.leader_id.term >= term, "entry {index} goes back to term {}", id.leader_id.term);
        term = id.leader_id.term;
        ensure!(found.payload == entry(term, index).payload, "entry {index} has the content of another");
    }
    Ok(())
}

async fn check_vote(storage: &mut Storage) -> anyhow::Result<()> {
    let Some(last) = storage.log.bounds()?.1 else { return Ok(()) };
    let vote = storage.log.read_vote().await?.context("entries without a vote")?;
    let (voted, term) = (vote.leader_id.term, last.leader_id.term);
    ensure!(voted >= term, "the vote is for term {voted}, and an entry of term {term} is there");
    Ok(())
}

/// What openraft does at a start: the log behind the snapshot, up to the committed index.
pub async fn apply_committed(storage: &mut Storage) -> anyhow::Result<()> {
    let applied = storage.state_machine.applied_state().await?.0;
    let committed = storage.log.read_committed().await?;
    let from = applied.map_or(0, |applied| applied.index + 1);
    let Some(committed) = committed.filter(|committed| committed.index >= from) else { return Ok(()) };
    let entries = storage.log.try_get_log_entries(from..=committed.index).await?;
    ensure!(
        entries.first().is_some_and(|first| first.log_id.index == from)
            && entries.last().is_some_and(|last| last.log_id == committed),
        "committed entries {from} to {} can't be read",
        committed.index
    );
    let stream = futures::stream::iter(entries.into_iter().map(|entry| Ok((entry, None))));
    Ok(storage.state_machine.apply(stream).await?)
}

/// The history must be that of the commands, without a gap, from its floor to what was applied.
async fn check_history(storage: &Storage) -> anyhow::Result<()> {
    let applied = storage.applied.borrow().revision();
    let mut next = Revision(storage.history.bounds().floor.0 + 1);
    while next <= applied {
        let page = storage.history.read(next, 500).await?;
        ensure!(page.applied >= applied, "the history ends at {}, and {applied} was applied", page.applied);
        let expected = page.records.iter().map(|record| record.record.revision.0).zip(next.0..);
        for (found, expected) in expected {
            ensure!(found == expected, "the history has {found} where {expected} must be");
        }
        ensure!(!page.records.is_empty(), "the history has nothing from {next} to {applied}");
        next = page.next;
    }
    Ok(())
}
