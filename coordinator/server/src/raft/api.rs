//! What the rest of the coordinator sees of consensus: outcomes, errors and status, free of openraft's types.

use bincode::{Decode, Encode};
use rollcall_ident::{ClusterId, PeerId, Revision};
use rollcall_rollout::{Actor, Command, Proposal};
use tokio::time::Instant;

/// Who leads, as this peer knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leadership {
    /// The peer that leads.
    pub peer: PeerId,
    /// It is this peer, and its state already holds everything that its predecessors committed.
    pub is_me: bool,
    /// Counts leaderships over the cluster; a later one has a higher number.
    pub term: u64,
    /// When this peer saw it begin.
    pub since: Instant,
}

/// Why a write has no outcome. A refusal by the state machine is not one of these: it is an outcome, in
/// [`Applied`](rollcall_rollout::Applied).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProposeError {
    /// It never got into any log and never will: it is safe to try again.
    #[error("not proposed: {reason}")]
    NotProposed {
        /// Why.
        reason: NotProposed,
    },
    /// It may have taken effect, or still take it. Try again with the same request id, or read.
    #[error("outcome unknown: {reason}")]
    Unknown {
        /// Why.
        reason: Unknown,
    },
}

impl From<NotProposed> for ProposeError {
    fn from(reason: NotProposed) -> Self {
        Self::NotProposed { reason }
    }
}

impl From<Unknown> for ProposeError {
    fn from(reason: Unknown) -> Self {
        Self::Unknown { reason }
    }
}

/// Why a write wasn't proposed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Encode, Decode)]
pub enum NotProposed {
    /// No leader is known: an election is going on, or no majority of the peers is alive.
    #[error("no leader is known; an election is going on, or too few peers are alive (`rollcall cluster status`)")]
    NoLeader,
    /// The peer that was asked as the leader isn't it any more.
    #[error("leadership moved away from peer {asked} meanwhile")]
    NotLeader {
        /// Who was asked.
        asked: PeerId,
    },
    /// The leader hands its leadership over just now.
    #[error("leadership is being handed over")]
    HandingOver,
    /// The leader has not heard of a majority lately and takes nothing in.
    #[error("the leader has lost touch with a majority of the peers")]
    QuorumLost,
    /// The leader can't be reached from the peer that was asked.
    #[error("leader {leader} can't be reached: {what}")]
    LeaderUnreachable {
        /// The leader.
        leader: PeerId,
        /// What happened.
        what: String,
    },
    /// Too many writes wait already.
    #[error("{waiting} writes wait already; try again later")]
    Overloaded {
        /// How many.
        waiting: u64,
    },
    /// The write is too large.
    #[error("the request takes {bytes} bytes, and at most {limit} are allowed")]
    TooLarge {
        /// Its size.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// The peer that was asked is stopping.
    #[error("the peer is stopping")]
    Stopping,
}

/// Why it isn't known whether a write took effect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Encode, Decode)]
pub enum Unknown {
    /// No majority confirmed it in time.
    #[error("it was not confirmed in time")]
    TimedOut,
    /// Leadership changed while it was being replicated.
    #[error("leadership changed while it was being replicated")]
    LeaderChanged,
    /// The connection to the leader broke after the request was sent.
    #[error("the connection to leader {leader} broke: {what}")]
    ConnectionLost {
        /// The leader.
        leader: PeerId,
        /// What happened.
        what: String,
    },
    /// The peer stopped meanwhile.
    #[error("the peer stopped meanwhile")]
    Stopped,
}

/// Why a linearizable read has no answer. Nothing depends on it: it can always be tried again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Encode, Decode)]
pub enum ReadError {
    /// No leader is known.
    #[error("no leader is known; a stale read (`--stale`) is answered from this peer's own state")]
    NoLeader,
    /// The leader didn't confirm that it still leads, or can't be reached.
    #[error("leader {leader} didn't confirm its leadership: {what}")]
    NotConfirmed {
        /// The leader.
        leader: PeerId,
        /// What happened.
        what: String,
    },
    /// This peer doesn't get to the confirmed revision in time.
    #[error("this peer has applied up to revision {applied}, and revision {needed} was needed in time")]
    Behind {
        /// What it has.
        applied: Revision,
        /// What the read needs.
        needed: Revision,
    },
    /// The time for the read is over.
    #[error("not confirmed in time; a stale read (`--stale`) is answered from this peer's own state")]
    TimedOut,
    /// This peer is stopping.
    #[error("the peer is stopping")]
    Stopping,
}

/// Who asks for a change of the peers, and why: for the audit trail.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub struct Origin {
    /// Who.
    pub actor: Actor,
    /// Why.
    pub reason: Option<String>,
}

impl Origin {
    /// Asks for `command`.
    pub(super) fn proposal(&self, command: Command) -> Proposal {
        let Self { actor, reason } = self.clone();
        Proposal { actor, reason, request_id: None, expected_revision: None, command }
    }
}

/// Why the peers of a cluster weren't changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Encode, Decode)]
pub enum MembershipError {
    /// This peer has a cluster already.
    #[error("this peer is peer {peer} of cluster {cluster} already; `rollcall cluster add-peer` takes others in")]
    AlreadyInitialised {
        /// The cluster.
        cluster: ClusterId,
        /// The id of the peer in it.
        peer: PeerId,
    },
    /// The peer that was asked belongs to no cluster yet.
    #[error("this peer belongs to no cluster yet; run `rollcall cluster init`, or ask a peer of the cluster")]
    Blank,
    /// The peer at the address belongs to another cluster.
    #[error(
        "the peer at {address} belongs to cluster {theirs} (as peer {peer}), not to {ours}; it keeps its data. To take \
         it in here, stop it, move its data directory away, start it empty, and add it again"
    )]
    OtherCluster {
        /// Where it is.
        address: String,
        /// Its cluster.
        theirs: ClusterId,
        /// Its id there.
        peer: PeerId,
        /// This cluster.
        ours: ClusterId,
    },
    /// The peer at the address was removed from this cluster.
    #[error(
        "the peer at {address} was peer {peer} of this cluster and has been removed; an id is never used again. Stop \
         it, move its data directory away, start it empty, and add it again"
    )]
    WasRemoved {
        /// Where it is.
        address: String,
        /// Its former id.
        peer: PeerId,
    },
    /// A peer with this address is a member, and what answers there has lost its data.
    #[error(
        "peer {peer} at {address} is a member, but what answers there has no data: its disk was lost or replaced. Run \
         `rollcall cluster remove-peer {peer}` first, then `rollcall cluster add-peer {address}` again"
    )]
    LostDisk {
        /// Where it is.
        address: String,
        /// The id under which it is known.
        peer: PeerId,
    },
    /// No peer answers at the address.
    #[error("no peer answers at {address}: {what}")]
    Unreachable {
        /// Where.
        address: String,
        /// What happened.
        what: String,
    },
    /// What answers there is of an older release than the cluster has agreed on.
    #[error(
        "the peer at {address} knows feature levels up to {known}, and this cluster is at {level}: start the release \
         there that the other peers run, and add it again"
    )]
    TooOld {
        /// Where.
        address: String,
        /// The highest level that it knows.
        known: u32,
        /// The level of the cluster.
        level: u32,
    },
    /// The address isn't one.
    #[error("{address:?} is not an address: {expected}")]
    BadAddress {
        /// What was given.
        address: String,
        /// What would be one.
        expected: String,
    },
    /// There is no such peer.
    #[error("the cluster has no peer {peer}; `rollcall cluster status` lists them")]
    NoSuchPeer {
        /// Who was asked for.
        peer: PeerId,
    },
    /// The last voter can't go.
    #[error("peer {peer} is the only voter: without it the cluster would be gone")]
    LastVoter {
        /// The peer.
        peer: PeerId,
    },
    /// Those who stay couldn't decide anything.
    #[error(
        "without peer {peer} only {live} of {voters} voters would be alive, which is no majority; bring the others \
         back first"
    )]
    WouldLoseQuorum {
        /// The peer that should go.
        peer: PeerId,
        /// Voters that are left and alive.
        live: u64,
        /// Voters that are left.
        voters: u64,
    },
    /// The peer can't lead.
    #[error("peer {peer} can't lead now: {what}")]
    CantLead {
        /// The peer.
        peer: PeerId,
        /// Why.
        what: String,
    },
    /// Another process answers as the peer at the address that is on record.
    #[error(
        "peer {peer} says that it is at {announced}, and another process answers as peer {peer} at {known}: its data \
         directory was copied. Stop the one that shouldn't be, and move its data directory away"
    )]
    TwoProcesses {
        /// Who both say they are.
        peer: PeerId,
        /// The address on record.
        known: String,
        /// The new one.
        announced: String,
    },
    /// The peer that was asked doesn't lead, not yet or not any more.
    #[error("peer {peer} doesn't lead now; the same request can be repeated")]
    NotLeading {
        /// The peer.
        peer: PeerId,
    },
    /// Another change is going on.
    #[error("another change of the peers is going on; try again when it is through")]
    InProgress,
    /// The state machine refused the registration.
    #[error("refused: {what}")]
    Refused {
        /// Why.
        what: String,
    },
    /// The change may have begun; the same request can be repeated.
    #[error("not finished: {what}; the same request can be repeated")]
    Unfinished {
        /// What happened.
        what: String,
    },
}

/// What keeps a peer from taking part, as this one sees it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Encode, Decode)]
pub enum PeerProblem {
    /// It answers, but without data.
    #[error(
        "it has lost its data: what answers there is blank. Run `rollcall cluster remove-peer {peer}`, then `rollcall \
         cluster add-peer` with its address"
    )]
    Blank {
        /// The id under which it is known.
        peer: PeerId,
    },
    /// Another peer answers at its address.
    #[error("at its address answers peer {found} of cluster {cluster}: check its address and its data directory")]
    SomebodyElse {
        /// Who answers.
        found: PeerId,
        /// In which cluster.
        cluster: ClusterId,
    },
    /// It says that this peer was removed.
    #[error("it says that this peer was removed from the cluster; stop this peer and move its data directory away")]
    WeAreRemoved,
    /// It doesn't answer.
    #[error("it doesn't answer: {what}")]
    Unreachable {
        /// What happened.
        what: String,
    },
}

/// One peer of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct MemberStatus {
    /// Its id.
    pub peer: PeerId,
    /// Where the others reach it.
    pub address: String,
    /// Whether it votes; a learner doesn't.
    pub voter: bool,
    /// Whether it leads.
    pub leader: bool,
    /// Milliseconds since the leader last heard of it; zero for the leader itself. Only the leader knows.
    pub last_heard_ms: Option<u64>,
    /// The last entry that it is known to hold. Only the leader knows.
    pub matched: Option<Revision>,
    /// What keeps it from taking part, as far as the peer that answers can tell.
    pub problem: Option<PeerProblem>,
}

/// How consensus stands on this peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RaftStatus {
    /// Counts leaderships.
    pub term: u64,
    /// The last entry in this peer's log.
    pub last_log: Revision,
    /// The last entry that is known to be committed.
    pub committed: Revision,
    /// The last entry that this peer has applied.
    pub applied: Revision,
    /// What this peer's newest snapshot covers.
    pub snapshot: Revision,
    /// How many entries this peer's log holds.
    pub log_entries: u64,
    /// Writes that wait on this peer to be proposed.
    pub queued_proposals: u64,
}
