//! The peers.

use rollcall_proto::v1;
use serde::Serialize;

use super::common::{cluster_ms, empty_as_none, wall, zero_as_none};

/// How the cluster stands, as one peer sees it.
#[derive(Debug, Serialize)]
pub struct ClusterView {
    /// `uninitialized`, `serving` or `no_leader`.
    pub condition: String,
    pub cluster_id: Option<String>,
    pub leader_peer_id: Option<String>,
    pub answering_peer_id: Option<String>,
    /// How many voters may still be lost before nothing moves any more.
    pub quorum_margin: i32,
    pub feature_level: u32,
    /// Of the peer that answers.
    pub version: String,
    pub snapshot_revision: Option<u64>,
    /// Entries in the answering peer's log.
    pub log_entries: u64,
    pub now_at: Option<String>,
    pub now_at_cluster_ms: Option<u64>,
    pub peers: Vec<PeerView>,
}

/// A permanent coordinator process.
#[derive(Debug, Serialize)]
pub struct PeerView {
    pub peer_id: String,
    pub address: String,
    pub voter: bool,
    pub leader: bool,
    pub reachable: bool,
    pub matched_revision: Option<u64>,
    pub last_heard_ms: Option<u64>,
    /// Of its binary; none: it hasn't said yet.
    pub version: Option<String>,
    /// The highest that it knows.
    pub feature_level: Option<u32>,
}

/// What a change of the peers left.
#[derive(Debug, Serialize)]
pub struct PeersView {
    pub cluster_id: Option<String>,
    /// The peer that the change was about.
    pub peer_id: Option<String>,
    pub peers: Vec<PeerView>,
}

impl From<v1::ClusterStatusResponse> for ClusterView {
    fn from(status: v1::ClusterStatusResponse) -> Self {
        Self {
            now_at: wall(status.now.as_ref()),
            now_at_cluster_ms: cluster_ms(status.now.as_ref()),
            condition: status.condition,
            cluster_id: empty_as_none(status.cluster_id),
            leader_peer_id: zero_as_none(status.leader_peer_id).map(|id| id.to_string()),
            answering_peer_id: zero_as_none(status.answering_peer_id).map(|id| id.to_string()),
            quorum_margin: status.quorum_margin,
            feature_level: status.feature_level,
            version: status.version,
            snapshot_revision: zero_as_none(status.snapshot_revision),
            log_entries: status.log_entries,
            peers: status.peers.into_iter().map(PeerView::from).collect(),
        }
    }
}

impl From<v1::Peer> for PeerView {
    fn from(peer: v1::Peer) -> Self {
        Self {
            peer_id: peer.peer_id.to_string(),
            address: peer.address,
            voter: peer.voter,
            leader: peer.leader,
            reachable: peer.reachable,
            matched_revision: peer.matched_revision,
            last_heard_ms: peer.last_heard_ms,
            version: empty_as_none(peer.version),
            feature_level: Some(peer.feature_level).filter(|level| *level > 0),
        }
    }
}
