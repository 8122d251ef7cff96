//! Peers: the permanent coordinators, as the product knows them.

use bincode::{Decode, Encode};
use rollcall_ident::PeerId;

/// A permanent peer.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Peer {
    /// Its id.
    pub id: PeerId,
    /// `host:port` of its gRPC.
    pub address: String,
    /// What it says of itself; none: it hasn't said yet.
    pub facts: Option<PeerFacts>,
    /// How it does, as the leader saw it last.
    pub standing: PeerStanding,
}

impl Peer {
    /// One that was just registered.
    pub(crate) fn new(id: PeerId, address: String) -> Self {
        Self { id, address, facts: None, standing: PeerStanding::Learner }
    }
}

/// What a peer says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct PeerFacts {
    /// The machine that it runs on; empty where that has no id.
    pub machine_id: String,
    /// Version of its binary.
    pub version: String,
    /// The highest feature level that it knows.
    pub feature_level: u32,
}

/// How a peer does in its cluster. It is kept in the log because a majority of those who are well is what a step on a
/// peer's machine must leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode, strum::Display)]
#[strum(serialize_all = "snake_case")]
pub enum PeerStanding {
    /// It doesn't vote.
    Learner,
    /// It votes, is alive, and has the log.
    CaughtUp,
    /// It votes and is alive, and far behind in the log.
    Lagging,
    /// It votes, and the leader hasn't heard of it for too long.
    Silent,
}
