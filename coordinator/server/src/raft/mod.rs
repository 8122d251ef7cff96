//! Consensus between peers: the replicated log, who leads, and which peers there are.
//!
//! [`Peer`] is what the composition root starts: a process that is blank until a cluster takes it in, and holds a
//! [`Consensus`] from then on. Writes go through [`Consensus::propose`], reads through [`Consensus::read`], and
//! [`Peer::peer_service`] is the one gRPC service that peers use among themselves.
//!
//! # Invariants
//! - This is the only module beside `storage` that knows openraft, and nothing of it is in the public API.
//! - A peer's Raft id is never used again once its disk is lost: a peer that starts without its identity is blank, and a
//!   blank peer refuses everything but to join, whoever it was before.
//! - Every message between peers names the cluster, its sender and whom it is for; one that is wrong in any of these is
//!   refused before openraft sees it.
//! - A write is [`NotProposed`](ProposeError::NotProposed) only if it certainly never got into any log. In doubt it is
//!   [`Unknown`](ProposeError::Unknown).
//! - Linearizable reads rest on a majority's word given after the read began (read index), never on a clock.
//!
//! # Logs
//! What an operator must know is said here, once. openraft repeats itself at each heartbeat to a dead peer: filter it at
//! `error`.
//!
//! # Deliberately absent
//! What a command means, who may ask, and the public API: those are above.

mod api;
mod bootstrap;
mod checkup;
mod client;
mod clock;
mod codec;
mod consensus;
mod convert;
mod export;
mod identify;
mod leadership;
mod members;
mod membership;
mod moved;
mod network;
mod peer;
mod peer_service;
mod propose;
mod read;
mod receive;
#[cfg(test)]
mod settle_test;
mod start_error;
mod tuning;
mod view;
mod wire;

pub use api::{
    Leadership, MemberStatus, MembershipError, NotProposed, Origin, PeerProblem, ProposeError, RaftStatus, ReadError,
    Unknown,
};
pub use checkup::{Checkup, Examined};
pub use client::check_address;
pub use consensus::{CommitObserver, Consensus, Observers};
pub use export::{Export, ExportError, ExportTurn};
pub use peer::{Peer, PeerConfig};
pub use peer_service::PeerService;
pub use start_error::StartError;
pub use tuning::Tuning;
pub use view::{StateWatch, View};
