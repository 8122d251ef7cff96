//! What is in a snapshot's file, for people: read as a peer would read it, on any machine.

use std::path::Path;

use rollcall_ident::{ClusterId, PeerId, Revision};
use rollcall_rollout::{ChainHead, Stamp, State};

use super::chain::ChainWalk;
use super::error::StorageError;
use super::snapshot_file::SnapshotFile;

/// What a snapshot holds. That there is one says that the file is whole and its checksums are right.
#[derive(Debug, Clone, PartialEq)]
pub struct SnapshotContents {
    /// The file's size.
    pub bytes: u64,
    /// The last entry that is in it.
    pub revision: Revision,
    /// The term of the leader that proposed that entry.
    pub term: u64,
    /// The peers that vote.
    pub voters: Vec<PeerId>,
    /// The peers that only learn.
    pub learners: Vec<PeerId>,
    /// The cluster it is of; none: it was taken before the first command.
    pub cluster_id: Option<ClusterId>,
    /// Both times of the last command.
    pub now: Stamp,
    /// Which behaviour the cluster had agreed on.
    pub feature_level: u32,
    /// How much of what is in the state.
    pub counts: StateCounts,
    /// The retained history.
    pub history: HistoryContents,
    /// Where the audit chain stands in the state.
    pub audit_head: ChainHead,
    /// Where the chain of the retained records begins, or the revision of the first one that isn't what was chained.
    pub audit_anchor: Result<ChainHead, Revision>,
}

/// How much of what is in a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateCounts {
    /// Registered peers.
    pub peers: usize,
    /// Declared groups.
    pub groups: usize,
    /// Registered nodes.
    pub nodes: usize,
    /// Channels.
    pub channels: usize,
    /// Rollouts, the ended ones that are kept too.
    pub rollouts: usize,
    /// Nodes that may be down.
    pub tokens: usize,
}

/// The history in a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryContents {
    /// Everything that happened after this revision is there.
    pub floor: Revision,
    /// Its records: revisions in which something happened.
    pub records: u64,
    /// The revision of the first and of the last of them.
    pub span: Option<(Revision, Revision)>,
}

/// Reads all of a snapshot's file.
///
/// # Errors
/// [`StorageError`] names the file and what is wrong with it.
pub fn inspect_snapshot(path: &Path) -> Result<SnapshotContents, StorageError> {
    let file = SnapshotFile::open(path)?;
    // The floor stands behind the records.
    let floor = file.load(|_| Ok(()))?.history_floor;
    let mut history = HistoryContents { floor, records: 0, span: None };
    let (mut chain, mut broken) = (ChainWalk::default(), None);
    let loaded = file.load(|page| {
        for chained in page.iter().filter(|chained| chained.record.revision > floor) {
            let revision = chained.record.revision;
            history.records += 1;
            history.span = Some((history.span.map_or(revision, |(first, _)| first), revision));
            broken = broken.or(chain.take(chained).err());
        }
        Ok(())
    })?;
    let meta = loaded.meta(path)?;
    let peers = |ids: &mut dyn Iterator<Item = u64>| ids.map(PeerId).collect();
    let state = &loaded.state;
    let audit_head = state.audit_head();
    Ok(SnapshotContents {
        bytes: file.bytes(),
        revision: Revision(meta.last_log_id.map_or(0, |last| last.index)),
        term: meta.last_log_id.map_or(0, |last| last.leader_id.term),
        voters: peers(&mut meta.last_membership.membership().voter_ids()),
        learners: peers(&mut meta.last_membership.membership().learner_ids()),
        cluster_id: state.cluster_id(),
        now: state.now(),
        feature_level: state.feature_level(),
        counts: StateCounts::of(state),
        history,
        audit_head,
        audit_anchor: broken.map_or_else(|| chain.anchor(audit_head), Err),
    })
}

impl StateCounts {
    fn of(state: &State) -> Self {
        Self {
            peers: state.peers().len(),
            groups: state.groups().len(),
            nodes: state.nodes().len(),
            channels: state.channels().len(),
            rollouts: state.rollouts().len(),
            tokens: state.tokens().len(),
        }
    }
}
