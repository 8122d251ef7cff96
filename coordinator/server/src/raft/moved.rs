//! A peer whose address has changed: it tells the cluster by itself, and the others reach it at the new one.
//!
//! It can't wait to be asked: nobody knows where it is. It knows where the others were when it last heard of them, so it
//! asks them one after the other until the leader has it on record.
//!
//! # Invariants
//! - Of two processes with one identity the one that isn't known to the cluster ends: the leader looks at both addresses
//!   first, and refuses where another process answers as this peer at the old one. Its data directory was copied then.

use std::collections::BTreeMap;
use std::time::Duration;

use openraft::ChangeMembers;
use openraft::async_runtime::watch::WatchReceiver as _;
use rollcall_ident::PeerId;
use rollcall_rollout::{Actor, Command};
use tokio::time::timeout;

use super::api::{MembershipError, Origin};
use super::client::{Lane, check_address};
use super::consensus::Consensus;
use super::wire::{BodyV1, ChangeV1, ProcessId, ReplyV1};
use crate::storage::types::PeerNode;

/// BOUND: for a peer to say which process it is.
const ASK: Duration = Duration::from_secs(2);

/// BOUND: for the leader to look at both addresses and to have the change committed.
const ANNOUNCE: Duration = Duration::from_secs(20);

/// Between two rounds over the others, unless somebody begins to lead.
const PAUSE: Duration = Duration::from_secs(1);

impl Consensus {
    /// Has the cluster know that this peer is reached at `address`. Returns once it does. Not for a peer that is just
    /// being taken in: whoever does that knows where it is.
    pub(super) async fn announce(self, address: String) {
        let me = self.peer_id();
        // openraft tells what is on disk a moment after it was started.
        let mut metrics = self.inner.raft.server_metrics();
        while self.inner.addresses.address(me).is_none() {
            if metrics.changed().await.is_err() {
                return;
            }
        }
        let mut leadership = self.leadership();
        let mut told = None;
        while !self.is_known_at(&address) {
            leadership.mark_unchanged();
            match self.announce_once(&address).await {
                Ok(()) => {
                    tracing::info!(peer = me.0, address, "the others reach this peer at its new address");
                    return;
                }
                Err(error @ MembershipError::TwoProcesses { .. }) => {
                    // One of the two must end, and the other one is known.
                    self.inner.fatal.send_replace(Some(error.to_string()));
                    return;
                }
                Err(error) => {
                    // The same thing isn't said every second.
                    if told.as_ref() != Some(&error) {
                        tracing::warn!(peer = me.0, address, %error, "the cluster doesn't know this peer's address yet");
                    }
                    told = Some(error);
                }
            }
            let Ok(changed) = timeout(PAUSE, leadership.changed()).await else { continue };
            if changed.is_err() {
                return;
            }
        }
    }

    fn is_known_at(&self, address: &str) -> bool {
        let me = self.peer_id();
        let registered = self.state().state.peers().get(&me).is_none_or(|peer| peer.address == address);
        registered && self.inner.addresses.address(me).is_some_and(|known| known == address)
    }

    async fn announce_once(&self, address: &str) -> Result<(), MembershipError> {
        let change = ChangeV1::PeerMoved { peer: self.peer_id(), address: address.to_owned() };
        if self.leads() {
            return self.change_here(change).await.map(drop);
        }
        let members = self.members_here();
        let mut error = MembershipError::Unfinished { what: String::from("no other peer answers") };
        for member in members.iter().filter(|member| member.peer != self.peer_id()) {
            let Ok(client) = self.inner.addresses.client_at(member.peer, &member.address) else { continue };
            match client.call(Lane::Control, BodyV1::Change(change.clone()), ANNOUNCE).await {
                Ok(ReplyV1::Changed(Ok(_))) => return Ok(()),
                Ok(ReplyV1::Changed(Err(refused))) => {
                    // What the leader says is the last word.
                    if !matches!(refused, MembershipError::NotLeading { .. }) {
                        return Err(refused);
                    }
                    error = refused;
                }
                Ok(other) => error = MembershipError::Unfinished { what: client.unexpected(&other).to_string() },
                Err(_) => {}
            }
        }
        Err(error)
    }

    /// On the leader: puts a peer's new address on record, if that peer is there and nowhere else.
    pub(super) async fn move_peer_here(&self, peer: PeerId, address: &str) -> Result<(), MembershipError> {
        check_address(address)
            .map_err(|expected| MembershipError::BadAddress { address: address.to_owned(), expected })?;
        let _one_at_a_time = self.inner.changing.try_lock().map_err(|_| MembershipError::InProgress)?;
        self.settle_membership().await?;
        let known = self.inner.addresses.address(peer).ok_or(MembershipError::NoSuchPeer { peer })?;
        let unreachable = |what| MembershipError::Unreachable { address: address.to_owned(), what };
        let there = self.process_at(peer, address).await.map_err(unreachable)?;
        if known != address && self.process_at(peer, &known).await.is_ok_and(|process| process != there) {
            return Err(MembershipError::TwoProcesses { peer, known, announced: address.to_owned() });
        }
        let registered = self.state().state.peers().get(&peer).is_some_and(|known| known.address != address);
        if registered {
            let origin = Origin { actor: Actor::coordinator(), reason: Some(format!("it was at {known}")) };
            self.change_registry(Command::MovePeer { peer, address: address.to_owned() }, &origin).await?;
        }
        if known != address {
            let nodes = BTreeMap::from([(peer.0, PeerNode { grpc_addr: address.to_owned() })]);
            self.change_membership(ChangeMembers::SetNodes(nodes)).await?;
            tracing::info!(peer = peer.0, known, address, "a peer has another address");
        }
        Ok(())
    }

    /// Which process answers as `peer` at an address.
    async fn process_at(&self, peer: PeerId, address: &str) -> Result<ProcessId, String> {
        if peer == self.peer_id() && address == self.inner.address {
            return Ok(self.inner.process);
        }
        let client = self.inner.addresses.client_at(peer, address)?;
        match client.call(Lane::Control, BodyV1::WhichProcess, ASK).await {
            Ok(ReplyV1::Process(process)) => Ok(process),
            Ok(other) => Err(client.unexpected(&other).to_string()),
            Err(error) => Err(error.to_string()),
        }
    }
}
