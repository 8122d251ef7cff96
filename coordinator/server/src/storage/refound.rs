//! A new cluster of what one peer, or a saved snapshot, has left of another one whose majority is lost for good.
//!
//! The new cluster begins with a snapshot: everything that is in the peer's snapshot and log, committed or not, and behind
//! it one change that says what was done ([`State::recover`](rollcall_rollout::State::recover)). That snapshot covers
//! everything up to a revision far above, so the log goes on above whatever the lost majority may have handed out.
//!
//! # Invariants
//! - Either the old data directory is there or the new one: see [`replace`].
//! - The new cluster has an id of its own, so every message of the old one's peers is refused, and the other way round.
//!
//! # Deliberately absent
//! The question whether the majority is really lost: only people can know.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use openraft::EntryPayload;
use openraft::storage::{RaftLogReader as _, RaftLogStorage as _};
use rollcall_ident::{ClusterId, FreezeId, PeerId, Revision, WallTime};
use rollcall_rollout::{Actor, ChainedRecord, Recovered, Recovery, State};

use super::disk::VoteV1;
use super::error::{IoContext as _, StorageError};
use super::files::create_dir_durable;
use super::identity::{DataDir, Identity};
use super::log_store::LogStore;
use super::recover::{LOG_DIR, SNAPSHOT_DIR, Sizes, Storage};
use super::replace::{self, Replacement};
use super::snapshot_build::SnapshotBuilder;
use super::snapshot_file::SnapshotFile;
use super::snapshot_store::SnapshotStore;
use super::state_machine::AppliedState;
use super::types::{Entry, LogId, Membership, PeerNode, StoredMembership, Vote, log_id};

/// Where a snapshot's file is opened as if it were a peer's.
const SOURCE_DIR: &str = "source";

/// What the new cluster is, and who makes it.
#[derive(Debug, Clone)]
pub struct Refounding {
    /// Its id.
    pub cluster: ClusterId,
    /// Where its peer is reached; none: where it was reached before.
    pub address: Option<String>,
    /// Who makes it.
    pub actor: Actor,
    /// Why.
    pub reason: Option<String>,
    /// When, by this machine's clock.
    pub wall_time: WallTime,
}

/// What there is to make a new cluster of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remains {
    /// The cluster that it was.
    pub cluster: Option<ClusterId>,
    /// The last entry that is there.
    pub revision: Revision,
    /// The term of the leader that proposed it.
    pub term: u64,
    /// The peers that vote there.
    pub voters: Vec<PeerId>,
}

/// The new cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refounded {
    /// It, and its only peer.
    pub identity: Identity,
    /// Where that peer is reached; empty where nobody has said so yet.
    pub address: String,
    /// Where it begins.
    pub revision: Revision,
    /// What it was made of.
    pub remains: Remains,
    /// The registered peers that aren't in it.
    pub given_up: Vec<PeerId>,
    /// What keeps every group as it is until it is lifted.
    pub freeze: FreezeId,
    /// Where the files of before are kept.
    pub former_files: Option<PathBuf>,
}

/// Why no new cluster was made. The data directory is as it was.
#[derive(Debug, thiserror::Error)]
pub enum RefoundError {
    /// The folder can't be used.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// There is no peer in it.
    #[error(
        "{} holds no peer: name the data directory of a stopped peer of the cluster, or make one of a saved snapshot with \
         `rollcall snapshot restore FILE --data-dir`",
        path.display()
    )]
    NoPeer {
        /// The folder.
        path: PathBuf,
    },
    /// There is something in it.
    #[error(
        "{} isn't empty (it holds {found:?}): a snapshot is restored into an empty data directory; name another one, or \
         move away what is there",
        path.display()
    )]
    NotEmpty {
        /// The folder.
        path: PathBuf,
        /// One of the things that are there.
        found: String,
    },
    /// The file isn't a whole snapshot.
    #[error("{}: not a whole snapshot: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What was found, in words.
        what: String,
    },
    /// The peer never heard of its cluster's beginning.
    #[error(
        "nothing was ever written in {}: there is nothing to recover; start it empty, and make a cluster with `rollcall \
         cluster init`",
        path.display()
    )]
    Nothing {
        /// The folder, or the file.
        path: PathBuf,
    },
}

/// Looks at what a stopped peer has, and changes nothing of it.
///
/// # Errors
/// [`RefoundError`] says why there is nothing to look at.
pub fn look_at_peer(path: &Path) -> Result<(Identity, Remains), RefoundError> {
    let (dir, identity) = peer_in(path)?;
    let source = Source::open(&dir, path)?;
    Ok((identity, source.remains))
}

/// Makes a new cluster of a stopped peer's data directory; the peer keeps its id. Blocks.
///
/// # Errors
/// [`RefoundError`] names what stands in the way.
pub fn refound_peer(path: &Path, refounding: &Refounding) -> Result<Refounded, RefoundError> {
    let (dir, identity) = peer_in(path)?;
    let replacement = Replacement::begin(&dir)?;
    let source = Source::open(&dir, path)?;
    let address = refounding.address.clone().unwrap_or_else(|| source.address_of(identity.peer));
    let refounded = source.refound(replacement.path(), Some(identity.peer), address, refounding)?;
    let former_files = replacement.commit()?;
    Ok(Refounded { former_files, ..refounded })
}

/// Makes a new cluster of a saved snapshot in an empty data directory; its peer gets a new id. Blocks.
///
/// # Errors
/// [`RefoundError`] names what stands in the way.
pub fn refound_snapshot(file: &Path, path: &Path, refounding: &Refounding) -> Result<Refounded, RefoundError> {
    let snapshot = SnapshotFile::open(file)?;
    let damaged = |error| match error {
        // What a peer says of its own disk isn't the advice for any file.
        StorageError::Damaged { path, what } => RefoundError::Damaged { path, what },
        error => RefoundError::Storage(error),
    };
    let meta = snapshot.load(|_| Ok(())).and_then(|loaded| loaded.meta(file)).map_err(damaged)?;
    let dir = DataDir::lock(path)?;
    if let Some(found) = replace::first_in(&dir)? {
        return Err(RefoundError::NotEmpty { path: path.to_owned(), found });
    }
    let replacement = Replacement::begin(&dir)?;
    let source_path = replacement.path().join(SOURCE_DIR);
    let source_dir = DataDir::lock(&source_path)?;
    SnapshotStore::open(&source_path.join(SNAPSHOT_DIR))?.0.install(&meta, &snapshot)?;
    let source = Source::open(&source_dir, file)?;
    let address = refounding.address.clone().unwrap_or_default();
    let refounded = source.refound(replacement.path(), None, address, refounding)?;
    drop(source_dir);
    fs::remove_dir_all(&source_path).at("remove", &source_path)?;
    replacement.commit()?;
    Ok(refounded)
}

fn peer_in(path: &Path) -> Result<(DataDir, Identity), RefoundError> {
    let no_peer = || RefoundError::NoPeer { path: path.to_owned() };
    if !path.is_dir() {
        return Err(no_peer());
    }
    let dir = DataDir::lock(path)?;
    let identity = dir.load_identity()?.ok_or_else(no_peer)?;
    Ok((dir, identity))
}

/// Everything that a data directory holds, the tail of its log too.
///
/// Nothing of it is changed. The tail of the log isn't known to be committed, so above all it must not get into the
/// history of a peer that may go on in its old cluster.
struct Source {
    storage: Storage,
    /// What the newest snapshot holds, where the log is gone on with.
    start: AppliedState,
    /// What follows it in the log.
    tail: Tail,
    last: LogId,
    vote: Option<Vote>,
    remains: Remains,
}

impl Source {
    fn open(dir: &DataDir, named: &Path) -> Result<Self, RefoundError> {
        let mut storage = Storage::open(dir, Sizes { history_revisions: u64::MAX, ..Sizes::default() })?;
        let failed = |error: io::Error| StorageError::io("read the Raft log in", dir.path(), error);
        let start = storage.applied.borrow().clone();
        let mut tail = Tail::behind(&start);
        let vote = block_on(async {
            let (_, last) = storage.log.bounds()?;
            let to = last.map_or(0, |last| last.index + 1);
            let mut next = start.last_applied.map_or(0, |applied| applied.index + 1);
            while next < to {
                let entries = storage.log.limited_get_log_entries(next, to).await?;
                let Some(last) = entries.last() else { break };
                next = last.log_id.index + 1;
                entries.into_iter().for_each(|entry| tail.take(entry));
            }
            storage.log.read_vote().await
        });
        let vote = vote.map_err(failed)?;
        let cluster = tail.state.cluster_id();
        let nothing = RefoundError::Nothing { path: named.to_owned() };
        let Some(last) = tail.last.filter(|_| cluster.is_some()) else { return Err(nothing) };
        let remains = Remains {
            cluster,
            revision: Revision(last.index),
            term: last.leader_id.term,
            voters: tail.membership.voter_ids().map(PeerId).collect(),
        };
        Ok(Self { storage, start, tail, last, vote, remains })
    }

    fn address_of(&self, peer: PeerId) -> String {
        let member = self.tail.membership.membership().get_node(&peer.0).map(|node| node.grpc_addr.clone());
        let registered = || self.tail.state.peers().get(&peer).map(|peer| peer.address.clone());
        member.or_else(registered).unwrap_or_default()
    }

    /// Writes the new cluster's files into `target`.
    fn refound(
        self,
        target: &Path,
        peer: Option<PeerId>,
        address: String,
        refounding: &Refounding,
    ) -> Result<Refounded, RefoundError> {
        let Refounding { cluster, actor, reason, wall_time, .. } = refounding;
        let Tail { mut state, mut records, .. } = self.tail;
        let before = state.audit_head();
        let recovery = Recovery { cluster_id: *cluster, peer, address: address.clone() };
        let Recovered { revision, peer, given_up, freeze, record } =
            state.recover(Revision(self.last.index), *wall_time, actor, reason.as_deref(), &recovery);
        records.push(ChainedRecord::new(before, record));
        // No leader of the old cluster is taken for a later one than the new cluster's first.
        let term = self.vote.map_or(0, |vote| vote.leader_id.term).max(self.last.leader_id.term) + 1;
        let begins = log_id(term, revision.0);
        let begun = AppliedState {
            state: state.into(),
            last_applied: Some(begins),
            membership: only_voter(peer, &address, begins),
        };
        let identity = Identity { cluster: *cluster, peer };
        let dir = DataDir::lock(target)?;
        let (snapshots, _) = SnapshotStore::open(&target.join(SNAPSHOT_DIR))?;
        let Self { storage: Storage { history, snapshots: old_snapshots, .. }, start, remains, .. } = self;
        SnapshotBuilder::new(start, history, old_snapshots).build_successor(&snapshots, &begun, records)?;
        begin_log(&target.join(LOG_DIR), begins, peer)?;
        dir.store_identity(identity)?;
        Ok(Refounded { identity, address, revision, remains, given_up, freeze, former_files: None })
    }
}

/// What the log says behind a state.
struct Tail {
    state: State,
    last: Option<LogId>,
    membership: StoredMembership,
    /// What has happened in it. BOUND: a log is purged behind each snapshot.
    records: Vec<ChainedRecord>,
}

impl Tail {
    fn behind(start: &AppliedState) -> Self {
        let AppliedState { state, last_applied, membership } = start.clone();
        Self { state: State::clone(&state), last: last_applied, membership, records: Vec::new() }
    }

    fn take(&mut self, entry: Entry) {
        self.last = Some(entry.log_id);
        match entry.payload {
            EntryPayload::Blank => {}
            EntryPayload::Membership(new) => self.membership = StoredMembership::new(Some(entry.log_id), new),
            EntryPayload::Normal(proposal) => {
                let previous = self.state.audit_head();
                let applied = self.state.apply(Revision(entry.log_id.index), &proposal.0);
                if self.state.audit_head() != previous {
                    let hash = self.state.audit_head().hash;
                    self.records.push(ChainedRecord { previous, record: applied.record, hash });
                }
            }
        }
    }
}

fn only_voter(peer: PeerId, address: &str, since: LogId) -> StoredMembership {
    let nodes = BTreeMap::from([(peer.0, PeerNode { grpc_addr: address.to_owned() })]);
    let membership = Membership::new(vec![BTreeSet::from([peer.0])], nodes);
    StoredMembership::new(Some(since), membership.expect("one voter, which is among the nodes"))
}

/// An empty log that goes on behind `begins`.
fn begin_log(dir: &Path, begins: LogId, peer: PeerId) -> Result<(), StorageError> {
    create_dir_durable(dir)?;
    let mut log = LogStore::open(dir)?;
    let vote = Vote::from(VoteV1 { term: begins.leader_id.term, node: peer.0, committed: true });
    let begun = block_on(async {
        log.save_vote(&vote).await?;
        log.purge(begins).await?;
        // ORDER: saved once more, synced: what was written before it is on the disk too.
        log.save_vote(&vote).await
    });
    begun.at("begin the Raft log in", dir)
}

/// Offline there is no runtime, and what openraft's traits do here waits for a disk alone.
fn block_on<T>(work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}
