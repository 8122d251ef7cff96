//! State machine, snapshots and history: what a restart, a snapshot and another peer see.

use std::fs;
use std::path::Path;

use openraft::RaftSnapshotBuilder as _;
use openraft::storage::{RaftLogStorage as _, RaftLogStorageExt as _, RaftStateMachine as _};
use rollcall_coordinator::storage::types::{Snapshot, log_id};
use rollcall_coordinator::storage::{DataDir, HistoryError, RETAINED_REVISIONS, Sizes, Storage, StorageError, VoteV1};
use rollcall_ident::Revision;
use tempfile::TempDir;

use crate::storage_support::folder::{as_if_killed, files_with, scratch};
use crate::storage_support::sample::entry;
use crate::storage_support::verify::apply_committed;

struct Peer {
    storage: Storage,
    // Dropped last: the lock of the folder.
    dir: DataDir,
}

impl Peer {
    fn open(folder: &Path) -> Self {
        let dir = DataDir::lock(folder).unwrap();
        Self { storage: Storage::open(&dir, Sizes::default()).unwrap(), dir }
    }

    /// A new peer with entries up to `last` applied.
    async fn with_entries(last: u64) -> (Self, TempDir) {
        let folder = scratch();
        let mut peer = Self::open(folder.path());
        peer.append_and_apply(0, last).await;
        (peer, folder)
    }

    async fn append_and_apply(&mut self, from: u64, last: u64) {
        let entries: Vec<_> = (from..=last).map(|index| entry(1, index)).collect();
        self.storage.log.blocking_append(entries.clone()).await.unwrap();
        self.storage.log.save_committed(Some(log_id(1, last))).await.unwrap();
        // Written behind it and synced, so that the committed index is there after a crash.
        self.storage.log.save_vote(&VoteV1 { term: 1, node: 1, committed: true }.into()).await.unwrap();
        let stream = futures::stream::iter(entries.into_iter().map(|entry| Ok((entry, None))));
        self.storage.state_machine.apply(stream).await.unwrap();
    }

    async fn snapshot(&mut self) -> Snapshot {
        self.storage.state_machine.get_snapshot_builder().await.build_snapshot().await.unwrap()
    }

    fn applied(&self) -> rollcall_coordinator::storage::AppliedState {
        self.storage.applied.borrow().clone()
    }

    async fn revisions_from(&self, from: u64) -> Vec<u64> {
        // The history follows the state at its own pace.
        self.storage.history.flush().await;
        let mut found = Vec::new();
        let mut next = Revision(from);
        while next <= self.storage.history.applied() {
            let page = self.storage.history.read(next, 700).await.unwrap();
            found.extend(page.records.iter().map(|record| record.record.revision.0));
            next = page.next;
        }
        found
    }
}

fn snapshots(dir: &Path) -> usize {
    files_with(&dir.join("snapshots"), "snap").len()
}

#[tokio::test]
async fn a_restart_is_the_snapshot_and_the_log_behind_it() {
    let (mut peer, folder) = Peer::with_entries(100).await;
    let snapshot = peer.snapshot().await;
    assert_eq!(snapshot.meta.last_log_id, Some(log_id(1, 100)));
    peer.append_and_apply(101, 150).await;
    peer.storage.log.purge(log_id(1, 90)).await.unwrap();
    let before = peer.applied();
    drop(peer);

    let mut peer = Peer::open(folder.path());
    assert_eq!(peer.applied().revision(), Revision(100));
    apply_committed(&mut peer.storage).await.unwrap();
    assert_eq!(peer.applied().last_applied, before.last_applied);
    assert_eq!(peer.applied().state, before.state);
    assert_eq!(peer.revisions_from(1).await, (1..=150).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_snapshot_travels_with_its_history() {
    let (mut leader, _leader_folder) = Peer::with_entries(3000).await;
    let sent = leader.snapshot().await;
    let (mut follower, folder) = Peer::with_entries(10).await;

    let mut receiver = follower.storage.snapshots.receive().unwrap();
    loop {
        let chunk = sent.snapshot.read_chunk(receiver.bytes(), 10_000).await.unwrap();
        if chunk.is_empty() {
            break;
        }
        receiver.write_chunk(&chunk).unwrap();
    }
    let received = receiver.finish().unwrap();
    assert_eq!(received.meta, sent.meta);
    follower.storage.state_machine.install_snapshot(&received.meta, received.snapshot).await.unwrap();

    assert_eq!(follower.applied().state, leader.applied().state);
    assert_eq!(follower.applied().last_applied, Some(log_id(1, 3000)));
    assert_eq!(follower.revisions_from(1).await, (1..=3000).collect::<Vec<_>>());
    assert_eq!(follower.storage.snapshots.current().unwrap().meta, sent.meta);
    drop(follower);
    let follower = Peer::open(folder.path());
    assert_eq!(follower.applied().state, leader.applied().state);
    assert_eq!(follower.revisions_from(1).await, (1..=3000).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_snapshot_that_was_damaged_on_its_way_is_refused_and_leaves_nothing() {
    let (mut leader, folder) = Peer::with_entries(50).await;
    let sent = leader.snapshot().await;
    let size = usize::try_from(sent.snapshot.bytes()).unwrap();
    let whole = sent.snapshot.read_chunk(0, size).await.unwrap();
    for (at, keep) in [(0, size), (size / 2, size), (size - 1, size), (0, size - 1), (0, size / 2), (0, 0)] {
        let mut bytes = whole[..keep].to_vec();
        if keep == size {
            bytes[at] ^= 4;
        }
        let mut receiver = leader.storage.snapshots.receive().unwrap();
        receiver.write_chunk(&bytes).unwrap();
        let error = receiver.finish().unwrap_err();
        assert!(matches!(error, StorageError::Damaged { .. } | StorageError::Newer { .. }), "{error}");
    }
    drop(leader.storage.snapshots.receive().unwrap());
    assert_eq!(files_with(&folder.path().join("snapshots"), "tmp"), Vec::<std::path::PathBuf>::new());
}

#[tokio::test]
async fn a_snapshot_of_something_else_is_not_installed() {
    let (mut leader, _leader_folder) = Peer::with_entries(50).await;
    let mut sent = leader.snapshot().await;
    sent.meta.last_log_id = Some(log_id(1, 49));
    let (mut follower, _folder) = Peer::with_entries(10).await;
    let before = follower.applied().last_applied;
    follower.storage.state_machine.install_snapshot(&sent.meta, sent.snapshot).await.unwrap_err();
    assert_eq!(follower.applied().last_applied, before);
    assert!(follower.storage.snapshots.current().is_none());
}

#[tokio::test]
async fn the_newest_two_snapshots_are_kept_and_leftovers_are_not() {
    let (mut peer, folder) = Peer::with_entries(10).await;
    for round in 1..6 {
        peer.append_and_apply(round * 10 + 1, round * 10 + 10).await;
        peer.snapshot().await;
    }
    assert_eq!(snapshots(folder.path()), 2);
    drop(peer);
    let leftover = folder.path().join("snapshots/00000000000000000099-00000000000000000001.snap.tmp");
    fs::write(&leftover, b"half a snapshot").unwrap();
    let peer = Peer::open(folder.path());
    assert_eq!(peer.applied().revision(), Revision(60));
    assert!(!leftover.exists());
}

#[tokio::test]
async fn a_snapshot_being_sent_is_read_to_its_end_whatever_is_removed() {
    let (mut peer, folder) = Peer::with_entries(10).await;
    let sent = peer.snapshot().await;
    for round in 1..4 {
        peer.append_and_apply(round * 10 + 1, round * 10 + 10).await;
        peer.snapshot().await;
    }
    assert!(!sent.snapshot.path().exists());
    let size = usize::try_from(sent.snapshot.bytes()).unwrap();
    assert_eq!(sent.snapshot.read_chunk(0, size).await.unwrap().len(), size);
    assert_eq!(snapshots(folder.path()), 2);
}

#[tokio::test]
async fn a_crash_while_a_snapshot_is_installed_leaves_the_old_or_the_new_state() {
    let (mut leader, _leader_folder) = Peer::with_entries(400).await;
    let sent = leader.snapshot().await;
    let (mut follower, folder) = Peer::with_entries(10).await;
    let old = follower.applied().last_applied;
    let installing = follower.storage.state_machine.install_snapshot(&sent.meta, sent.snapshot);
    tokio::pin!(installing);
    // Whatever the folder looks like while it runs is what a crash at that moment leaves.
    loop {
        let left = as_if_killed(folder.path());
        let mut peer = Peer::open(left.path());
        apply_committed(&mut peer.storage).await.unwrap();
        let found = peer.applied().last_applied;
        assert!(found == old || found == sent.meta.last_log_id, "{found:?}");
        let expected = found.unwrap().index;
        assert_eq!(peer.revisions_from(1).await, (1..=expected).collect::<Vec<_>>());
        if futures::poll!(&mut installing).is_ready() {
            break;
        }
    }
    assert_eq!(Peer::open(as_if_killed(folder.path()).path()).applied().last_applied, sent.meta.last_log_id);
}

#[tokio::test]
async fn the_history_answers_from_any_revision_and_says_what_is_compacted() {
    let (peer, _folder) = Peer::with_entries(500).await;
    let page = peer.storage.history.read(Revision(100), 10).await.unwrap();
    let found: Vec<_> = page.records.iter().map(|record| record.record.revision.0).collect();
    assert_eq!(found, (100..110).collect::<Vec<_>>());
    assert_eq!(page.next, Revision(110));
    let end = peer.storage.history.read(Revision(501), 10).await.unwrap();
    assert_eq!((end.records.len(), end.next), (0, Revision(501)));
    // Far ahead of what there is: nothing yet.
    assert_eq!(peer.storage.history.read(Revision(9_000), 10).await.unwrap().next, Revision(9_000));
}

#[tokio::test]
async fn the_history_keeps_what_it_promises_and_no_more() {
    let (mut peer, folder) = Peer::with_entries(2000).await;
    // Nothing happened for a long time: only the end of the history moves.
    let far = RETAINED_REVISIONS + 1500;
    let blank = openraft::EntryPayload::Blank;
    for index in (far..far + 5).chain([far + 5]) {
        let entry = rollcall_coordinator::storage::types::Entry { log_id: log_id(2, index), payload: blank.clone() };
        peer.storage.state_machine.apply(futures::stream::iter([Ok((entry, None))])).await.unwrap();
    }
    peer.storage.history.flush().await;
    let floor = peer.storage.history.bounds().floor;
    assert!(floor >= Revision(1000) && floor <= Revision(1505), "{floor}");
    let error = peer.storage.history.read(Revision(1), 10).await.unwrap_err();
    assert_eq!(error, HistoryError::Compacted { floor });
    assert_eq!(peer.revisions_from(floor.0 + 1).await, (floor.0 + 1..=2000).collect::<Vec<_>>());
    // A snapshot says the same.
    let sent = peer.snapshot().await;
    let (mut follower, _other) = Peer::with_entries(10).await;
    follower.storage.state_machine.install_snapshot(&sent.meta, sent.snapshot).await.unwrap();
    follower.storage.history.flush().await;
    assert_eq!(follower.storage.history.bounds().floor, floor);
    assert_eq!(follower.storage.history.applied(), Revision(far + 5));
    drop(folder);
    drop(peer.dir);
}
