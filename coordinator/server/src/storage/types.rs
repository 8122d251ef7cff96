//! The types with which consensus runs here, and short names for openraft's generics over them.
//!
//! Leader ids are the standard ones (`leader_id_std`): at most one leader per term, log ids are `(term, index)`, as in
//! the Raft paper. Everything else in the coordinator names openraft's types through this module.

use std::fmt;

use bincode::{Decode, Encode};
use openraft::type_config::alias;
use rollcall_rollout::{Applied, LogEntry};

openraft::declare_raft_types!(
    /// What consensus is configured with.
    pub TypeConfig:
        D = Logged,
        R = Option<Applied>,
        NodeId = u64,
        Node = PeerNode,
        Term = u64,
        LeaderId = openraft::impls::leader_id_std::LeaderId<u64, u64>,
        AsyncRuntime = super::runtime::Runtime,
);

/// What is proposed to the log: one command of the state machine.
///
/// openraft wants to print its data; the command itself is not made for that.
#[derive(Debug, Clone, PartialEq)]
pub struct Logged(pub LogEntry);

impl fmt::Display for Logged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl From<LogEntry> for Logged {
    fn from(entry: LogEntry) -> Self {
        Self(entry)
    }
}

/// What the membership records about a peer: where the others reach it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub struct PeerNode {
    /// `host:port` of its gRPC listener, as the other peers resolve it.
    pub grpc_addr: String,
}

impl fmt::Display for PeerNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.grpc_addr)
    }
}

/// Term and index of an entry.
pub type LogId = alias::LogIdOf<TypeConfig>;
/// What stands before the index in a [`LogId`]: the term.
pub type CommittedLeaderId = alias::CommittedLeaderIdOf<TypeConfig>;
/// Term and node that is, or wants to be, leader.
pub type LeaderId = alias::LeaderIdOf<TypeConfig>;
/// A vote, granted by a quorum or not.
pub type Vote = alias::VoteOf<TypeConfig>;
/// An entry of the log.
pub type Entry = alias::EntryOf<TypeConfig>;
/// What an entry carries: nothing, a command, or a membership.
pub type Payload = alias::PayloadOf<TypeConfig>;
/// Voters (two sets of them while it changes) and learners.
pub type Membership = openraft::Membership<u64, PeerNode>;
/// A membership and the entry that set it.
pub type StoredMembership = alias::StoredMembershipOf<TypeConfig>;
/// What a snapshot covers.
pub type SnapshotMeta = alias::SnapshotMetaOf<TypeConfig>;
/// A snapshot: what it covers and the file that holds it.
pub type Snapshot = alias::SnapshotOf<TypeConfig, super::snapshot_file::SnapshotFile>;
/// First and last of the log, as openraft asks for it.
pub type LogState = openraft::storage::LogState<TypeConfig>;

/// A log id from its parts.
pub fn log_id(term: u64, index: u64) -> LogId {
    LogId::new(CommittedLeaderId::new(term), index)
}
