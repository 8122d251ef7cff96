//! What was saved, what is in a snapshot's file, and what was made of one, as the coordinator's binary tells it.

use std::path::Path;

use rollcall_proto::v1;
use serde::{Deserialize, Serialize};

/// A snapshot that is whole: its checksums are right.
#[derive(Debug, Serialize, Deserialize)]
pub struct SnapshotView {
    pub file: String,
    pub bytes: u64,
    /// The last entry that is in it.
    pub revision: u64,
    /// Of the leader that proposed that entry.
    pub term: u64,
    pub cluster_id: Option<String>,
    pub feature_level: u32,
    pub now_at: Option<String>,
    pub now_at_cluster_ms: Option<u64>,
    pub voter_peer_ids: Vec<String>,
    pub learner_peer_ids: Vec<String>,
    pub counts: StateCountsView,
    pub history: HistoryRangeView,
    pub audit: AuditRangeView,
}

/// How much of what is in the state.
#[derive(Debug, Serialize, Deserialize)]
pub struct StateCountsView {
    pub peers: u64,
    pub groups: u64,
    pub nodes: u64,
    pub channels: u64,
    pub rollouts: u64,
    pub tokens: u64,
}

/// The events that it carries.
#[derive(Debug, Serialize, Deserialize)]
pub struct HistoryRangeView {
    /// Everything after this revision is there.
    pub floor_revision: u64,
    pub first_revision: Option<u64>,
    pub last_revision: Option<u64>,
    /// Revisions in which something happened.
    pub record_count: u64,
}

/// The audit chain over them.
#[derive(Debug, Serialize, Deserialize)]
pub struct AuditRangeView {
    /// Whether the records are what was chained, and lead to the head in the state.
    pub verified: bool,
    /// The first record that isn't.
    pub broken_revision: Option<u64>,
    /// Before the first record.
    pub anchor_revision: Option<u64>,
    pub anchor_hash: Option<String>,
    /// In the state.
    pub head_revision: u64,
    pub head_hash: String,
}

/// A snapshot that is on this disk.
#[derive(Debug, Serialize)]
pub struct SavedSnapshotView {
    pub file: String,
    pub bytes: u64,
    /// Everything up to it is in the file.
    pub revision: u64,
    pub cluster_id: String,
    /// The peer that wrote it.
    pub peer_id: String,
}

impl SavedSnapshotView {
    pub fn new(file: &Path, head: v1::SnapshotHead) -> Self {
        let v1::SnapshotHead { cluster_id, revision, bytes, answering_peer_id } = head;
        Self { file: file.display().to_string(), bytes, revision, cluster_id, peer_id: answering_peer_id.to_string() }
    }
}

/// A new cluster that was made of what another one left.
#[derive(Debug, Serialize, Deserialize)]
pub struct RefoundedView {
    pub data_dir: String,
    pub cluster_id: String,
    /// The cluster that it goes on from.
    pub former_cluster_id: String,
    /// Its only peer, which votes.
    pub peer_id: String,
    pub address: Option<String>,
    /// Where the new cluster begins.
    pub revision: u64,
    /// The last of the former cluster's that is in it.
    pub former_revision: u64,
    pub former_term: u64,
    /// The former peers, which are no members of it.
    pub given_up_peer_ids: Vec<String>,
    /// Keeps every group as it is until somebody has looked and lifts it.
    pub freeze_id: String,
    /// Where what lay here before is kept.
    pub former_files: Option<String>,
}
