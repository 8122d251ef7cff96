//! `rollcall-coordinator snapshot inspect`: what is in a snapshot's file, as JSON.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rollcall_ident::{PeerId, WallTime};
use serde_json::{Value, json};

use crate::storage::{HistoryContents, StateCounts, StorageError, inspect_snapshot};

/// Why a file can't be shown.
#[derive(Debug, thiserror::Error)]
pub enum InspectError {
    /// It isn't a whole snapshot.
    #[error("{}: not a whole snapshot: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What was found, in words.
        what: String,
    },
    /// The file can't be read, or is from the future.
    #[error(transparent)]
    Storage(StorageError),
}

impl From<StorageError> for InspectError {
    fn from(error: StorageError) -> Self {
        match error {
            // What a peer says of its own disk isn't the advice for any file.
            StorageError::Damaged { path, what } => Self::Damaged { path, what },
            error => Self::Storage(error),
        }
    }
}

/// Checks the file, and describes it in the words that `coordinator/cli/README.md` promises.
///
/// # Errors
/// [`InspectError`] names the file and what is wrong with it.
pub fn snapshot(path: &Path) -> Result<Value, InspectError> {
    let found = inspect_snapshot(path)?;
    let ids = |peers: &[PeerId]| peers.iter().map(ToString::to_string).collect::<Vec<_>>();
    let StateCounts { peers, groups, nodes, channels, rollouts, tokens } = found.counts;
    let HistoryContents { floor, records, span } = found.history;
    let anchor = found.audit_anchor.ok();
    Ok(json!({
        "file": path,
        "bytes": found.bytes,
        "revision": found.revision.0,
        "term": found.term,
        "cluster_id": found.cluster_id.map(|id| id.to_string()),
        "feature_level": found.feature_level,
        "now_at": rfc_3339(found.now.wall_time),
        "now_at_cluster_ms": found.now.cluster_time.0,
        "voter_peer_ids": ids(&found.voters),
        "learner_peer_ids": ids(&found.learners),
        "counts": {
            "peers": peers,
            "groups": groups,
            "nodes": nodes,
            "channels": channels,
            "rollouts": rollouts,
            "tokens": tokens,
        },
        "history": {
            "floor_revision": floor.0,
            "first_revision": span.map(|(first, _)| first.0),
            "last_revision": span.map(|(_, last)| last.0),
            "record_count": records,
        },
        "audit": {
            "verified": anchor.is_some(),
            "broken_revision": found.audit_anchor.err().map(|revision| revision.0),
            "anchor_revision": anchor.map(|anchor| anchor.revision.0),
            "anchor_hash": anchor.map(|anchor| anchor.hash.to_string()),
            "head_revision": found.audit_head.revision.0,
            "head_hash": found.audit_head.hash.to_string(),
        },
    }))
}

/// None where no command was applied yet.
fn rfc_3339(time: WallTime) -> Option<String> {
    let timestamp = i64::try_from(time.0).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    timestamp.filter(|_| time.0 > 0).map(|timestamp| format!("{timestamp:.3}"))
}
