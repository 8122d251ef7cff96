//! The audit trail, and what its verification found.

use rollcall_ident::Digest;
use rollcall_proto::v1;
use serde::Serialize;

use super::common::{cluster_ms, empty_as_none, wall};
use super::event::EventView;

/// One change with everything that it brought about, and its place in the chain of hashes.
#[derive(Debug, Serialize)]
pub struct AuditRecordView {
    pub revision: u64,
    pub at: Option<String>,
    pub at_cluster_ms: Option<u64>,
    pub actor: Option<String>,
    pub reason: Option<String>,
    /// In the order in which it happened.
    pub events: Vec<EventView>,
    pub previous_revision: Option<u64>,
    pub previous_hash: Option<String>,
    pub hash: Option<String>,
    /// The bytes that are hashed behind `previous_hash`, in hexadecimal.
    pub record_hex: String,
}

impl From<v1::AuditRecord> for AuditRecordView {
    fn from(record: v1::AuditRecord) -> Self {
        let previous = record.previous.as_ref();
        Self {
            revision: record.revision,
            at: wall(record.at.as_ref()),
            at_cluster_ms: cluster_ms(record.at.as_ref()),
            actor: empty_as_none(record.actor),
            reason: empty_as_none(record.reason),
            events: record.events.into_iter().map(EventView::from).collect(),
            previous_revision: previous.map(|previous| previous.revision),
            previous_hash: previous.and_then(|previous| hash(&previous.hash)),
            hash: hash(&record.hash),
            record_hex: record.record.iter().map(|byte| format!("{byte:02x}")).collect(),
        }
    }
}

fn hash(bytes: &[u8]) -> Option<String> {
    Some(Digest(bytes.try_into().ok()?).to_string())
}

/// What `audit --verify` found.
#[derive(Debug, Serialize)]
pub struct VerificationView {
    /// Whether every copy that was asked for is what was agreed on.
    pub verified: bool,
    pub copies: Vec<CopyView>,
}

/// The copy of the audit trail that one peer keeps.
#[derive(Debug, Serialize)]
pub struct CopyView {
    pub endpoint: String,
    pub peer_id: String,
    pub verified: bool,
    /// Everything after this revision was verified; 0: from the beginning of the cluster on.
    pub anchor_revision: Option<u64>,
    pub anchor_hash: Option<String>,
    /// Where the replicated state says that the chain stands.
    pub head_revision: u64,
    pub head_hash: String,
    /// How many records were found to be right.
    pub record_count: usize,
    pub problem: Option<ProblemView>,
}

/// The first revision at which a copy isn't what was agreed on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProblemView {
    pub revision: u64,
    pub detail: String,
}
