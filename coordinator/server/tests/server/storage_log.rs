//! The Raft log: what it acknowledges it keeps, wherever it is interrupted.

use openraft::storage::{IOFlushed, RaftLogReader as _, RaftLogStorage as _, RaftLogStorageExt as _};
use openraft::type_config::TypeConfigExt as _;
use proptest::prelude::*;
use rollcall_coordinator::storage::types::{Entry, LogId, TypeConfig, Vote, log_id};
use rollcall_coordinator::storage::{LogStore, StorageError, VoteV1};
use tempfile::TempDir;

use crate::storage_support::folder::{as_if_killed, files_with, scratch};
use crate::storage_support::sample::entry;

const CHUNK_BYTES: usize = 2048;

fn vote(term: u64, node: u64) -> Vote {
    Vote::from(VoteV1 { term, node, committed: false })
}

fn entries(term: u64, indexes: std::ops::Range<u64>) -> Vec<Entry> {
    indexes.map(|index| entry(term, index)).collect()
}

fn open(folder: &TempDir) -> LogStore {
    LogStore::open_chunked(folder.path(), CHUNK_BYTES).unwrap()
}

#[derive(Debug, Clone)]
enum Step {
    Append { count: u64 },
    Overrule { keep: u64, count: u64 },
    Purge { part: u64 },
    Commit { part: u64 },
    Vote,
    Reopen,
    Crash,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (1..20u64).prop_map(|count| Step::Append { count }),
        2 => (0..10u64, 1..5u64).prop_map(|(keep, count)| Step::Overrule { keep, count }),
        1 => (0..100u64).prop_map(|part| Step::Purge { part }),
        1 => (0..100u64).prop_map(|part| Step::Commit { part }),
        1 => Just(Step::Vote),
        1 => Just(Step::Reopen),
        2 => Just(Step::Crash),
    ]
}

/// What must be in the log.
#[derive(Debug, Clone, Default)]
struct Model {
    entries: Vec<Entry>,
    purged: Option<LogId>,
    committed: Option<LogId>,
    vote: Option<Vote>,
    term: u64,
}

impl Model {
    fn last(&self) -> Option<LogId> {
        self.entries.last().map(|entry| entry.log_id).or(self.purged)
    }

    fn next(&self) -> u64 {
        self.last().map_or(0, |last| last.index + 1)
    }

    async fn take(&mut self, log: &mut LogStore, step: Step) {
        match step {
            Step::Append { count } => {
                let new = entries(self.term, self.next()..self.next() + count);
                log.blocking_append(new.clone()).await.unwrap();
                self.entries.extend(new);
            }
            Step::Overrule { keep, count } => {
                // Never below what is committed: Raft doesn't either.
                let uncommitted = self.entries.iter().filter(|entry| Some(entry.log_id) > self.committed).count();
                let kept = self.entries.len() - usize::try_from(keep).unwrap().min(uncommitted);
                self.entries.truncate(kept);
                self.term += 1;
                log.truncate_after(self.last()).await.unwrap();
                let new = entries(self.term, self.next()..self.next() + count);
                log.blocking_append(new.clone()).await.unwrap();
                self.entries.extend(new);
            }
            Step::Commit { part } => {
                let Some(last) = self.entries.get(self.entries.len() * part as usize / 100) else { return };
                self.committed = self.committed.max(Some(last.log_id));
                log.save_committed(self.committed).await.unwrap();
            }
            Step::Purge { part } => {
                let committed = self.entries.iter().filter(|entry| Some(entry.log_id) <= self.committed).count();
                let count = committed * part as usize / 100;
                let Some(last) = self.entries.drain(..count).next_back() else { return };
                self.purged = Some(last.log_id);
                log.purge(last.log_id).await.unwrap();
            }
            Step::Vote => {
                self.term += 1;
                self.vote = Some(vote(self.term, 3));
                log.save_vote(&vote(self.term, 3)).await.unwrap();
            }
            Step::Reopen | Step::Crash => unreachable!("handled by the caller"),
        }
    }

    async fn check(&self, log: &mut LogStore, exact: bool) {
        let state = log.get_log_state().await.unwrap();
        assert_eq!(state.last_log_id, self.last());
        assert_eq!(log.read_vote().await.unwrap(), self.vote);
        assert_eq!(log.try_get_log_entries(self.purged.map_or(0, |id| id.index + 1)..).await.unwrap(), self.entries);
        let committed = log.read_committed().await.unwrap();
        if exact {
            assert_eq!(state.last_purged_log_id, self.purged);
            assert_eq!(committed, self.committed);
        } else {
            assert!(state.last_purged_log_id <= self.purged && committed <= self.committed);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn what_was_acknowledged_is_there_wherever_it_is_reopened(steps in prop::collection::vec(step(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut folder = scratch();
            let (mut log, mut model) = (open(&folder), Model::default());
            for step in steps {
                match step {
                    Step::Reopen => {
                        drop(log);
                        log = open(&folder);
                        model.check(&mut log, true).await;
                    }
                    Step::Crash => {
                        let left = as_if_killed(folder.path());
                        drop(log);
                        folder = left;
                        log = open(&folder);
                        model.check(&mut log, false).await;
                        // What was not promised may be older now.
                        model.committed = log.read_committed().await.unwrap();
                        let purged = log.get_log_state().await.unwrap().last_purged_log_id;
                        if purged < model.purged {
                            log.purge(model.purged.unwrap()).await.unwrap();
                        }
                    }
                    step => model.take(&mut log, step).await,
                }
                model.check(&mut log, true).await;
            }
        });
    }
}

#[tokio::test]
async fn appends_that_wait_together_share_a_sync() {
    // On a disk: in memory a sync takes no time, and nobody has to wait.
    let folder = tempfile::tempdir().unwrap();
    let mut log = LogStore::open(folder.path()).unwrap();
    let before = log.metrics().sync_count;
    let mut waiting = Vec::new();
    for index in 0..2000 {
        let (done, flushed) = TypeConfig::oneshot();
        log.append([entry(1, index)], IOFlushed::signal(done)).await.unwrap();
        waiting.push(flushed);
    }
    for flushed in waiting {
        flushed.await.unwrap().unwrap();
    }
    let syncs = log.metrics().sync_count - before;
    assert!((1..1500).contains(&syncs), "2000 appends took {syncs} syncs");
}

#[tokio::test]
async fn nothing_is_answered_before_a_sync() {
    let folder = scratch();
    let mut log = LogStore::open(folder.path()).unwrap();
    for round in 0..50 {
        let before = log.metrics().sync_count;
        log.save_vote(&vote(round + 1, 1)).await.unwrap();
        assert!(log.metrics().sync_count > before, "a vote was answered before its sync");
        let before = log.metrics().sync_count;
        log.blocking_append([entry(1, round)]).await.unwrap();
        assert!(log.metrics().sync_count > before, "an append was answered before its sync");
    }
}

#[tokio::test]
async fn entries_are_readable_when_append_returns() {
    let folder = scratch();
    let mut log = open(&folder);
    let mut reader = log.get_log_reader().await;
    for index in 0..500 {
        log.append([entry(1, index)], IOFlushed::noop()).await.unwrap();
        assert_eq!(reader.try_get_log_entries(index..=index).await.unwrap(), [entry(1, index)]);
    }
    // Most of them are in closed files by now, and out of the cache or not: all are read.
    assert_eq!(reader.try_get_log_entries(..).await.unwrap(), entries(1, 0..500));
}

#[tokio::test]
async fn a_read_for_a_follower_is_limited_and_never_empty() {
    let folder = scratch();
    let mut log = LogStore::open(folder.path()).unwrap();
    log.blocking_append(entries(1, 0..20_000)).await.unwrap();
    let first = log.limited_get_log_entries(0, 20_000).await.unwrap();
    assert!(!first.is_empty() && first.len() < 20_000, "{} entries at once", first.len());
    assert_eq!(log.limited_get_log_entries(19_999, 20_000).await.unwrap(), [entry(1, 19_999)]);
}

#[tokio::test]
async fn a_purge_removes_files_only_once_it_is_recorded() {
    let folder = scratch();
    let mut log = open(&folder);
    log.blocking_append(entries(1, 0..200)).await.unwrap();
    let files = files_with(folder.path(), "wal");
    log.purge(log_id(1, 150)).await.unwrap();
    // A sync behind the purge has unlinked by the time the next one is answered.
    log.blocking_append(entries(1, 200..201)).await.unwrap();
    log.save_vote(&vote(2, 1)).await.unwrap();
    assert!(!files[0].exists(), "{} is still there", files[0].display());
    drop(log);
    let mut log = open(&folder);
    assert_eq!(log.get_log_state().await.unwrap().last_purged_log_id, Some(log_id(1, 150)));
    assert_eq!(log.try_get_log_entries(..).await.unwrap(), entries(1, 151..201));
}

#[tokio::test]
async fn a_snapshot_beyond_the_log_moves_its_start() {
    let folder = scratch();
    let mut log = open(&folder);
    log.blocking_append(entries(1, 0..10)).await.unwrap();
    log.purge(log_id(3, 5000)).await.unwrap();
    log.save_committed(Some(log_id(3, 4999))).await.unwrap();
    log.blocking_append(entries(3, 5001..5010)).await.unwrap();
    drop(log);
    let mut log = open(&folder);
    assert_eq!(log.try_get_log_entries(..).await.unwrap(), entries(3, 5001..5010));
    assert_eq!(log.get_log_state().await.unwrap().last_purged_log_id, Some(log_id(3, 5000)));
}

#[tokio::test]
async fn a_tail_whose_first_block_never_reached_the_disk_is_cut_off() {
    const BLOCK: usize = 4096;
    for synced in 1..40 {
        let folder = scratch();
        let mut log = LogStore::open(folder.path()).unwrap();
        log.blocking_append(entries(1, 0..synced)).await.unwrap();
        let file = files_with(folder.path(), "wal").pop().unwrap();
        let end = std::fs::metadata(&file).unwrap().len() as usize;
        log.blocking_append(entries(1, synced..synced + 60)).await.unwrap();
        drop(log);
        let mut bytes = std::fs::read(&file).unwrap();
        // What a power cut leaves when the length and the new blocks are on disk, and the block before them isn't.
        bytes[end..end.next_multiple_of(BLOCK)].fill(0);
        std::fs::write(&file, &bytes).unwrap();
        let mut log = LogStore::open(folder.path()).unwrap();
        assert_eq!(log.try_get_log_entries(..).await.unwrap(), entries(1, 0..synced));
        log.blocking_append(entries(2, synced..synced + 3)).await.unwrap();
        drop(log);
        assert_eq!(LogStore::open(folder.path()).unwrap().bounds().unwrap().1, Some(log_id(2, synced + 2)));

        // Anything else in its place is damage.
        let last = end.next_multiple_of(BLOCK) - 1;
        for (at, value) in [(last, 1), (end, 1), (end + 7, 1)] {
            let mut other = bytes.clone();
            other[at] = value;
            std::fs::write(&file, &other).unwrap();
            for newer in files_with(folder.path(), "wal").iter().filter(|path| **path != file) {
                std::fs::remove_file(newer).unwrap();
            }
            let error = LogStore::open(folder.path()).map(|_| ()).unwrap_err();
            assert!(matches!(error, StorageError::Damaged { .. }), "{error}");
        }
    }
}

#[tokio::test]
async fn a_removed_file_is_noticed() {
    let folder = scratch();
    let mut log = open(&folder);
    log.blocking_append(entries(1, 0..200)).await.unwrap();
    drop(log);
    let files = files_with(folder.path(), "wal");
    assert!(files.len() > 4);
    for removed in &files[..files.len() - 1] {
        let left = as_if_killed(folder.path());
        std::fs::remove_file(left.path().join(removed.file_name().unwrap())).unwrap();
        let error = LogStore::open_chunked(left.path(), CHUNK_BYTES).map(|_| ()).unwrap_err();
        assert!(matches!(error, StorageError::Damaged { .. }), "{error}");
    }
}

#[tokio::test]
async fn a_folder_in_use_is_refused() {
    let folder = scratch();
    let _log = open(&folder);
    let error = LogStore::open(folder.path()).map(|_| ()).unwrap_err();
    assert!(matches!(error, StorageError::Locked { .. }), "{error}");
}

#[test]
fn a_folder_that_cannot_be_written_says_so() {
    // Nobody may create a folder there, root included.
    let error = LogStore::open("/sys/rollcall".as_ref()).map(|_| ()).unwrap_err();
    assert!(matches!(error, StorageError::ReadOnly { .. }), "{error}");
    assert!(error.to_string().contains("/sys/rollcall"), "{error}");
}
