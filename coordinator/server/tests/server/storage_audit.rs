//! The audit chain over the history: it is whole after whatever happens to a peer, and it shows what was changed.

use std::path::Path;

use openraft::RaftSnapshotBuilder as _;
use openraft::storage::{RaftLogStorage as _, RaftLogStorageExt as _, RaftStateMachine as _};
use rollcall_coordinator::storage::types::{Entry, log_id};
use rollcall_coordinator::storage::{DataDir, Sizes, Storage, StorageError, VoteV1, inspect_snapshot};
use rollcall_ident::Revision;
use rollcall_rollout::{ChainHead, ChainedRecord};

use crate::storage_support::folder::scratch;
use crate::storage_support::sample::entry;
use crate::storage_support::tamper::{change_reason, change_reason_in_snapshot};
use crate::storage_support::verify::apply_committed;

struct Peer {
    storage: Storage,
    // Dropped last: the lock of the folder.
    _dir: DataDir,
}

impl Peer {
    fn open(folder: &Path, history_revisions: u64) -> Self {
        let dir = DataDir::lock(folder).unwrap();
        let storage = Storage::open(&dir, Sizes { history_revisions, ..Sizes::default() }).unwrap();
        Self { storage, _dir: dir }
    }

    /// As [`open`](Self::open), with what the log holds behind the snapshot applied.
    async fn reopen(folder: &Path) -> Self {
        let mut peer = Self::open(folder, 100_000);
        apply_committed(&mut peer.storage).await.unwrap();
        peer
    }

    async fn append_and_apply(&mut self, from: u64, last: u64) {
        let entries: Vec<Entry> = (from..=last).map(|index| entry(1, index)).collect();
        self.storage.log.blocking_append(entries.clone()).await.unwrap();
        self.storage.log.save_committed(Some(log_id(1, last))).await.unwrap();
        self.storage.log.save_vote(&VoteV1 { term: 1, node: 1, committed: true }.into()).await.unwrap();
        let stream = futures::stream::iter(entries.into_iter().map(|entry| Ok((entry, None))));
        self.storage.state_machine.apply(stream).await.unwrap();
    }

    fn head(&self) -> ChainHead {
        self.storage.applied.borrow().state.audit_head()
    }

    /// All that is kept.
    async fn records(&self) -> Vec<ChainedRecord> {
        let history = &self.storage.history;
        history.flush().await;
        let (mut found, mut next) = (Vec::new(), Revision(history.bounds().floor.0 + 1));
        while next <= history.applied() {
            let page = history.read(next, 700).await.unwrap();
            found.extend(page.records);
            next = page.next;
        }
        found
    }

    /// Where the retained chain begins, or the first revision at which it is broken.
    async fn verify(&self) -> Result<Revision, Revision> {
        let records = self.records().await;
        let anchor = records.first().map_or(self.head(), |first| first.previous);
        let mut head = anchor;
        for record in records {
            let extended = head.extended_by(&record.record);
            if record.previous != head || record.head() != extended {
                return Err(record.record.revision);
            }
            head = extended;
        }
        if head == self.head() { Ok(anchor.revision) } else { Err(head.revision) }
    }
}

#[tokio::test]
async fn the_chain_is_whole_after_restarts_snapshots_and_trimming() {
    let folder = scratch();
    let mut peer = Peer::open(folder.path(), 100_000);
    peer.append_and_apply(0, 700).await;
    assert_eq!(peer.verify().await, Ok(Revision(0)));
    let head = peer.head();
    let snapshot = peer.storage.state_machine.get_snapshot_builder().await.build_snapshot().await.unwrap();
    peer.append_and_apply(701, 800).await;
    drop(peer);
    // The history lost: filled from the snapshot, and from the log behind it.
    std::fs::remove_dir_all(folder.path().join("history")).unwrap();
    let peer = Peer::reopen(folder.path()).await;
    assert_eq!(peer.records().await.len(), 800);
    assert_eq!(peer.verify().await, Ok(Revision(0)));

    // A peer that keeps less, given the snapshot: its chain has an anchor, and ends where all others do.
    let other_folder = scratch();
    let mut other = Peer::open(other_folder.path(), 100);
    other.storage.state_machine.install_snapshot(&snapshot.meta, snapshot.snapshot).await.unwrap();
    other.append_and_apply(701, 1000).await;
    let begins = other.verify().await.unwrap();
    assert!(begins >= Revision(600) && begins <= Revision(900), "{begins}");
    assert_eq!(other.storage.history.bounds().floor, begins);
    // Its snapshot carries the anchor on.
    let snapshot = other.storage.state_machine.get_snapshot_builder().await.build_snapshot().await.unwrap();
    let third_folder = scratch();
    let mut third = Peer::open(third_folder.path(), 100_000);
    third.storage.state_machine.install_snapshot(&snapshot.meta, snapshot.snapshot).await.unwrap();
    assert_eq!(third.verify().await, Ok(begins));
    assert_ne!(third.head(), head);
}

#[tokio::test]
async fn a_changed_record_is_named_and_travels_no_further() {
    let folder = scratch();
    let mut peer = Peer::open(folder.path(), 100_000);
    peer.append_and_apply(0, 500).await;
    drop(peer);
    change_reason(folder.path(), 321, "nothing to see here");
    let mut peer = Peer::reopen(folder.path()).await;
    assert_eq!(peer.records().await[320].record.reason.as_deref(), Some("nothing to see here"));
    assert_eq!(peer.verify().await, Err(Revision(321)));

    let snapshot = peer.storage.state_machine.get_snapshot_builder().await.build_snapshot().await.unwrap();
    let other_folder = scratch();
    let mut other = Peer::open(other_folder.path(), 100_000);
    other.storage.state_machine.install_snapshot(&snapshot.meta, snapshot.snapshot).await.unwrap();
    assert_eq!(other.verify().await, Ok(Revision(321)));
    assert_eq!(other.storage.history.bounds().floor, Revision(321));
}

#[tokio::test]
async fn a_snapshot_tells_what_is_in_it_and_where_its_chain_is_broken() {
    let folder = scratch();
    let mut peer = Peer::open(folder.path(), 100);
    peer.append_and_apply(0, 700).await;
    let begins = peer.verify().await.unwrap();
    let snapshot = peer.storage.state_machine.get_snapshot_builder().await.build_snapshot().await.unwrap();
    let found = inspect_snapshot(snapshot.snapshot.path()).unwrap();
    assert_eq!((found.revision, found.term, found.bytes), (Revision(700), 1, snapshot.snapshot.bytes()));
    assert_eq!(found.counts.channels, peer.storage.applied.borrow().state.channels().len());
    assert_eq!(found.history.floor, begins);
    assert_eq!(found.history.span, Some((Revision(begins.0 + 1), Revision(700))));
    assert_eq!(found.history.records, 700 - begins.0);
    assert_eq!(found.audit_head, peer.head());
    assert_eq!(found.audit_anchor.map(|anchor| anchor.revision), Ok(begins));

    let changed = folder.path().join("changed.snap");
    change_reason_in_snapshot(snapshot.snapshot.path(), &changed, 650, "nothing to see here");
    assert_eq!(inspect_snapshot(&changed).unwrap().audit_anchor, Err(Revision(650)));
    let whole = std::fs::read(snapshot.snapshot.path()).unwrap();
    for keep in [0, 5, whole.len() / 2, whole.len() - 1] {
        std::fs::write(&changed, &whole[..keep]).unwrap();
        let error = inspect_snapshot(&changed).unwrap_err();
        assert!(matches!(error, StorageError::Damaged { .. }) && error.to_string().contains("changed.snap"), "{error}");
    }
}
