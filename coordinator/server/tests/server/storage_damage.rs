//! Damage of any file: cut off anywhere, any bit flipped. It is detected or healed, and never served.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use openraft::RaftSnapshotBuilder as _;
use openraft::storage::{RaftLogReader as _, RaftLogStorage as _, RaftLogStorageExt as _, RaftStateMachine as _};
use rollcall_coordinator::storage::types::{Vote, log_id};
use rollcall_coordinator::storage::{DataDir, HistoryError, Identity, Sizes, Storage, StorageError, VoteV1};
use rollcall_ident::{ClusterId, PeerId, Revision};
use tempfile::TempDir;

use crate::storage_support::folder::{as_if_killed, files_with, sampled, scratch};
use crate::storage_support::sample::{command, entry};
use crate::storage_support::verify::apply_committed;

const CHUNK_BYTES: usize = 2048;
/// The last entry that is committed, and the end of the log.
const LAST: u64 = 60;
const END: u64 = 75;
const SNAPSHOTS_AT: [u64; 2] = [20, 40];

/// A peer that has run for a while: several files of the log, two snapshots, a history. With `purged`, the log begins
/// behind the first snapshot.
async fn a_peer(purged: bool) -> TempDir {
    let folder = scratch();
    let dir = DataDir::lock(folder.path()).unwrap();
    dir.store_identity(Identity { cluster: ClusterId([1; 16]), peer: PeerId(1) }).unwrap();
    let Storage { mut log, mut state_machine, history, .. } =
        Storage::open(&dir, Sizes { log_chunk_bytes: CHUNK_BYTES, ..Sizes::default() }).unwrap();
    log.save_vote(&Vote::from(VoteV1 { term: 1, node: 1, committed: true })).await.unwrap();
    let mut from = 0;
    for until in SNAPSHOTS_AT.into_iter().chain([LAST]) {
        let entries: Vec<_> = (from..=until).map(|index| entry(1, index)).collect();
        log.blocking_append(entries.clone()).await.unwrap();
        log.save_committed(Some(log_id(1, until))).await.unwrap();
        let stream = futures::stream::iter(entries.into_iter().map(|entry| Ok((entry, None))));
        state_machine.apply(stream).await.unwrap();
        if until < LAST {
            state_machine.get_snapshot_builder().await.build_snapshot().await.unwrap();
        }
        from = until + 1;
    }
    if purged {
        log.purge(log_id(1, SNAPSHOTS_AT[1] - 5)).await.unwrap();
    }
    log.save_vote(&Vote::from(VoteV1 { term: 2, node: 1, committed: false })).await.unwrap();
    // Not committed yet, and in several files: whatever is cut off the newest, entries go with it.
    for index in LAST + 1..=END {
        log.blocking_append([entry(1, index)]).await.unwrap();
    }
    history.flush().await;
    drop((log, state_machine, history));
    folder
}

/// What a peer with this folder would serve, checked against what was written; or why it refuses.
async fn served(folder: &Path) -> Result<u64, StorageError> {
    let dir = DataDir::lock(folder)?;
    dir.load_identity()?;
    let mut storage = Storage::open(&dir, Sizes { log_chunk_bytes: CHUNK_BYTES, ..Sizes::default() })?;
    let (purged, last) = storage.log.bounds().unwrap();
    let from = purged.map_or(0, |purged| purged.index + 1);
    let last = last.map_or(0, |last| last.index);
    if storage.log.bounds().unwrap().1.is_some() {
        let found = storage.log.try_get_log_entries(from..=last).await.unwrap();
        assert_eq!(found, (from..=last).map(|index| entry(1, index)).collect::<Vec<_>>());
    }
    apply_committed(&mut storage).await.unwrap();
    check_history(&storage).await;
    let applied = storage.applied.borrow().clone();
    let mut expected = rollcall_rollout::State::default();
    for index in 1..=applied.revision().0 {
        expected.apply(Revision(index), &command(1, index));
    }
    assert_eq!(*applied.state, expected);
    Ok(last)
}

async fn check_history(storage: &Storage) {
    let mut next = Revision(storage.history.bounds().floor.0 + 1);
    let applied = storage.history.applied();
    while next <= applied {
        match storage.history.read(next, 100).await {
            Ok(page) => {
                let revisions: Vec<_> = page.records.iter().map(|record| record.record.revision.0).collect();
                assert_eq!(revisions, (next.0..page.next.0).collect::<Vec<_>>());
                next = page.next;
            }
            // Found while it was read, and put aside.
            Err(HistoryError::Compacted { .. } | HistoryError::Unavailable { .. }) => return,
        }
    }
}

/// Damages one file of a copy.
fn damaged(whole: &Path, file: &Path, damage: impl FnOnce(&mut Vec<u8>)) -> TempDir {
    let copy = as_if_killed(whole);
    let path = copy.path().join(file.strip_prefix(whole).unwrap());
    let mut bytes = fs::read(&path).unwrap();
    damage(&mut bytes);
    fs::write(&path, bytes).unwrap();
    copy
}

/// It must name the file, or its folder, and the way out.
fn check_message(error: &StorageError, file: &Path) {
    let text = error.to_string();
    let name = file.file_name().unwrap().to_string_lossy().into_owned();
    let folder = file.parent().unwrap().file_name().unwrap().to_string_lossy().into_owned();
    assert!(text.contains(&name) || text.contains(&folder), "{text}");
    assert!(text.contains("add-peer") || text.contains("format version"), "{text}");
}

fn log_files(folder: &Path) -> Vec<PathBuf> {
    files_with(&folder.join("log"), "wal")
}

#[tokio::test]
async fn a_log_file_with_a_flipped_bit_is_refused() {
    let whole = a_peer(true).await;
    for file in log_files(whole.path()) {
        let bits = fs::metadata(&file).unwrap().len() * 8;
        for bit in sampled(bits, 61, 7) {
            let copy = damaged(whole.path(), &file, |bytes| bytes[(bit / 8) as usize] ^= 1 << (bit % 8));
            match served(copy.path()).await {
                Err(error) => check_message(&error, &file),
                Ok(last) => panic!("bit {bit} of {} was flipped, and {last} was served", file.display()),
            }
        }
    }
}

#[tokio::test]
async fn a_log_file_that_is_cut_off_is_refused_or_ends_there() {
    let whole = a_peer(true).await;
    let files = log_files(whole.path());
    let (newest, older) = files.split_last().unwrap();
    let mut ends = BTreeSet::new();
    for length in sampled(fs::metadata(newest).unwrap().len(), 13, 1) {
        // The newest file without its end is what a crash in the middle of a write leaves.
        let copy = damaged(whole.path(), newest, |bytes| bytes.truncate(length as usize));
        match served(copy.path()).await {
            Ok(last) => drop(ends.insert(last)),
            // So much is gone that even the purge is, whose files were removed behind it: no crash leaves that.
            Err(error) => check_message(&error, newest),
        }
    }
    assert!(ends.len() > 1, "{ends:?}");
    for file in older {
        for length in sampled(fs::metadata(file).unwrap().len(), 97, 1) {
            let copy = damaged(whole.path(), file, |bytes| bytes.truncate(length as usize));
            check_message(&served(copy.path()).await.unwrap_err(), file);
        }
    }
}

#[tokio::test]
async fn a_damaged_snapshot_gives_way_to_the_one_before_it() {
    let whole = a_peer(false).await;
    for file in files_with(&whole.path().join("snapshots"), "snap") {
        let bytes = fs::metadata(&file).unwrap().len();
        for bit in sampled(bytes * 8, 1361, 7) {
            let copy = damaged(whole.path(), &file, |bytes| bytes[(bit / 8) as usize] ^= 1 << (bit % 8));
            match served(copy.path()).await {
                Ok(last) => assert_eq!(last, END),
                Err(error) => check_message(&error, &file),
            }
        }
        for length in sampled(bytes, 487, 1) {
            let copy = damaged(whole.path(), &file, |bytes| bytes.truncate(length as usize));
            assert_eq!(served(copy.path()).await.unwrap(), END);
        }
    }
}

#[tokio::test]
async fn a_damaged_snapshot_that_the_log_needs_is_refused() {
    let whole = a_peer(true).await;
    let file = files_with(&whole.path().join("snapshots"), "snap").pop().unwrap();
    let bytes = fs::metadata(&file).unwrap().len();
    for bit in sampled(bytes * 8, 1361, 7) {
        let copy = damaged(whole.path(), &file, |bytes| bytes[(bit / 8) as usize] ^= 1 << (bit % 8));
        check_message(&served(copy.path()).await.unwrap_err(), &file);
    }
}

#[tokio::test]
async fn a_damaged_history_is_put_aside_and_filled_again() {
    let whole = a_peer(true).await;
    let db = whole.path().join("history/db");
    let bytes = fs::metadata(&db).unwrap().len();
    // Most of the file is empty yet; what is written stands in front.
    for bit in sampled(bytes.min(64 << 10) * 8, 9_001, 101) {
        let copy = damaged(whole.path(), &db, |bytes| bytes[(bit / 8) as usize] ^= 1 << (bit % 8));
        assert_eq!(served(copy.path()).await.unwrap(), END);
    }
    for length in sampled(bytes, 31_013, 499) {
        let copy = damaged(whole.path(), &db, |bytes| bytes.truncate(length as usize));
        assert_eq!(served(copy.path()).await.unwrap(), END);
    }
    let others = ["history/conf"].map(|name| whole.path().join(name));
    for file in files_with(&whole.path().join("history"), "").into_iter().chain(others) {
        for bit in sampled(fs::metadata(&file).unwrap().len() * 8, 37, 1) {
            let copy = damaged(whole.path(), &file, |bytes| bytes[(bit / 8) as usize] ^= 1 << (bit % 8));
            assert_eq!(served(copy.path()).await.unwrap(), END);
        }
    }
}

#[tokio::test]
async fn a_lost_history_is_filled_from_the_snapshot_and_the_log() {
    let whole = a_peer(true).await;
    fs::remove_dir_all(whole.path().join("history")).unwrap();
    let dir = DataDir::lock(whole.path()).unwrap();
    let mut storage = Storage::open(&dir, Sizes { log_chunk_bytes: CHUNK_BYTES, ..Sizes::default() }).unwrap();
    apply_committed(&mut storage).await.unwrap();
    let page = storage.history.read(Revision(1), 1000).await.unwrap();
    let revisions: Vec<_> = page.records.iter().map(|record| record.record.revision.0).collect();
    assert_eq!(revisions, (1..=LAST).collect::<Vec<_>>());
    assert_eq!((page.floor, page.applied, page.next), (Revision(0), Revision(LAST), Revision(LAST + 1)));
}

#[tokio::test]
async fn a_record_that_is_gone_from_the_history_is_noticed() {
    for lost in [1, LAST / 2, LAST] {
        let whole = a_peer(true).await;
        let db = sled::open(whole.path().join("history")).unwrap();
        let mut key = vec![b'r'];
        key.extend(lost.to_be_bytes());
        key.extend([0, 0]);
        assert!(db.remove(key).unwrap().is_some(), "there was no record {lost}");
        db.flush().unwrap();
        drop(db);
        let dir = DataDir::lock(whole.path()).unwrap();
        let storage = Storage::open(&dir, Sizes { log_chunk_bytes: CHUNK_BYTES, ..Sizes::default() }).unwrap();
        let error = storage.history.read(Revision(1), 1000).await.unwrap_err();
        assert!(matches!(error, HistoryError::Unavailable { .. }), "{error}");
        // From then on it says what it doesn't have, and the next start fills it again.
        let error = storage.history.read(Revision(1), 1000).await.unwrap_err();
        assert_eq!(error, HistoryError::Compacted { floor: Revision(LAST) });
        drop((storage, dir));
        assert_eq!(served(whole.path()).await.unwrap(), END);
        let dir = DataDir::lock(whole.path()).unwrap();
        let mut storage = Storage::open(&dir, Sizes { log_chunk_bytes: CHUNK_BYTES, ..Sizes::default() }).unwrap();
        apply_committed(&mut storage).await.unwrap();
        assert_eq!(storage.history.read(Revision(1), 1000).await.unwrap().records.len() as u64, LAST);
    }
}
