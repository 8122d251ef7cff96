//! What is in a snapshot's file, as the coordinator's binary tells it.

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
