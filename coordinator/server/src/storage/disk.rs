//! What Raft's own values look like on disk, and between peers.
//!
//! openraft's types promise no stable format, so each has a twin here that is ours: named with its version, never edited
//! once released, converted on the way in and out.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use bincode::{Decode, Encode};
use openraft::EntryPayload;
use openraft::vote::RaftLeaderId;
use rollcall_rollout::LogEntry;

use super::types::{Entry, LeaderId, LogId, Logged, Membership, Payload, PeerNode, StoredMembership, Vote, log_id};

/// A log id. Its order is that of the log: by term, then by index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct LogIdV1 {
    /// The term of the leader that proposed the entry.
    pub term: u64,
    /// The index of the entry.
    pub index: u64,
}

impl From<&LogId> for LogIdV1 {
    fn from(id: &LogId) -> Self {
        Self { term: id.leader_id.term, index: id.index }
    }
}

impl From<LogIdV1> for LogId {
    fn from(id: LogIdV1) -> Self {
        log_id(id.term, id.index)
    }
}

/// A vote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct VoteV1 {
    /// The term voted in.
    pub term: u64,
    /// The peer voted for.
    pub node: u64,
    /// Whether a quorum granted it.
    pub committed: bool,
}

/// As Raft orders votes: two uncommitted ones of the same term for different peers have no order, and neither may
/// replace the other.
impl PartialOrd for VoteV1 {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match (self.term, self.committed).cmp(&(other.term, other.committed)) {
            Ordering::Equal if self.node != other.node => None,
            order => Some(order),
        }
    }
}

impl From<&Vote> for VoteV1 {
    fn from(vote: &Vote) -> Self {
        Self { term: vote.leader_id.term, node: vote.leader_id.voted_for, committed: vote.committed }
    }
}

impl From<VoteV1> for Vote {
    fn from(vote: VoteV1) -> Self {
        Self { leader_id: LeaderId::new(vote.term, vote.node), committed: vote.committed }
    }
}

/// A membership.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct MembershipV1 {
    /// The voters: one set, or the old and the new one while it changes.
    pub configs: Vec<BTreeSet<u64>>,
    /// All peers, learners too.
    pub nodes: BTreeMap<u64, PeerNode>,
}

impl From<&Membership> for MembershipV1 {
    fn from(membership: &Membership) -> Self {
        Self {
            configs: membership.get_joint_config().clone(),
            nodes: membership.nodes().map(|(id, node)| (*id, node.clone())).collect(),
        }
    }
}

impl TryFrom<MembershipV1> for Membership {
    type Error = String;

    fn try_from(membership: MembershipV1) -> Result<Self, String> {
        Self::new(membership.configs, membership.nodes).map_err(|error| format!("impossible membership: {error}"))
    }
}

/// A membership and the entry that set it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct StoredMembershipV1 {
    /// The entry, if there was one.
    pub log_id: Option<LogIdV1>,
    /// The membership.
    pub membership: MembershipV1,
}

impl From<&StoredMembership> for StoredMembershipV1 {
    fn from(stored: &StoredMembership) -> Self {
        Self { log_id: stored.log_id().as_ref().map(LogIdV1::from), membership: stored.membership().into() }
    }
}

impl TryFrom<StoredMembershipV1> for StoredMembership {
    type Error = String;

    fn try_from(stored: StoredMembershipV1) -> Result<Self, String> {
        Ok(Self::new(stored.log_id.map(LogId::from), stored.membership.try_into()?))
    }
}

/// What an entry carries.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all entries are commands: a box would be one more allocation each"
)]
pub enum PayloadV1 {
    /// Nothing: a new leader's first entry.
    Blank,
    /// A command of the state machine.
    Command(LogEntry),
    /// A membership.
    Membership(MembershipV1),
}

impl From<Payload> for PayloadV1 {
    fn from(payload: Payload) -> Self {
        match payload {
            EntryPayload::Blank => Self::Blank,
            EntryPayload::Normal(proposal) => Self::Command(proposal.0),
            EntryPayload::Membership(membership) => Self::Membership((&membership).into()),
        }
    }
}

impl TryFrom<PayloadV1> for Payload {
    type Error = String;

    fn try_from(payload: PayloadV1) -> Result<Self, String> {
        Ok(match payload {
            PayloadV1::Blank => Self::Blank,
            PayloadV1::Command(entry) => Self::Normal(Logged(entry)),
            PayloadV1::Membership(membership) => Self::Membership(membership.try_into()?),
        })
    }
}

/// An entry of the log, as it travels between peers; on disk its id and its payload are separate records' fields.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct EntryV1 {
    /// Its id.
    pub log_id: LogIdV1,
    /// What it carries.
    pub payload: PayloadV1,
}

impl From<Entry> for EntryV1 {
    fn from(entry: Entry) -> Self {
        Self { log_id: (&entry.log_id).into(), payload: entry.payload.into() }
    }
}

impl EntryV1 {
    /// The entry for openraft.
    ///
    /// # Errors
    /// Says why it can't be one: a membership that is impossible.
    pub fn into_entry(self) -> Result<Entry, String> {
        Ok(Entry { log_id: self.log_id.into(), payload: self.payload.try_into()? })
    }
}
