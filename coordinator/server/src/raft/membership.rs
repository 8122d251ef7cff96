//! Changes of the peers: each is one request that can be repeated until it is through, whoever died in the middle.
//!
//! Adding, on the leader: register the address, which gives the new peer its id; have the blank peer join under it;
//! replicate to it as a learner until it has caught up; let it vote. Removing goes the other way round.
//!
//! # Invariants
//! - An id goes to a peer once. A blank peer is given a new one, whoever was at its address before.
//! - A peer is given up only if those who stay are a live majority.

use std::collections::BTreeSet;
use std::sync::Weak;
use std::time::Duration;

use openraft::ChangeMembers;
use openraft::errors::{ChangeMembershipError, ClientWriteError, RaftError};
use rollcall_ident::PeerId;
use rollcall_rollout::{Command, Reply, State};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::api::{Leadership, MemberStatus, MembershipError, Origin, ProposeError};
use super::client::{CallError, Lane, check_address};
use super::consensus::{Consensus, Inner};
use super::identify::identify;
use super::wire::{self, BodyV1, ChangeV1, IdentityV1, RefusalV1, ReplyV1};
use crate::storage::Identity;
use crate::storage::types::{PeerNode, TypeConfig};

/// BOUND: for a new peer to catch up, its snapshot included.
const CATCH_UP: Duration = Duration::from_secs(120);

/// BOUND: for a change of the membership to be committed.
const COMMIT: Duration = Duration::from_secs(15);

/// BOUND: for a forwarded change: the leader's own bounds and a little.
const FORWARDED: Duration = Duration::from_secs(150);

/// BOUND: for a change to find its leader: longer than an election.
const FIND_LEADER: Duration = Duration::from_secs(10);

/// How soon to ask again who leads, if nothing is heard.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// BOUND: for a peer to say who it is, or to make its identity durable and start.
const ASK: Duration = Duration::from_secs(2);
const JOIN: Duration = Duration::from_secs(10);

/// BOUND: for a successor to be elected once it was asked to take over.
const HAND_OVER: Duration = Duration::from_secs(3);

type WriteError = RaftError<TypeConfig, ClientWriteError<TypeConfig>>;

impl Consensus {
    /// Takes the blank peer at `address` in. Returns its id once it votes.
    ///
    /// # Errors
    /// [`MembershipError`]; after [`Unfinished`](MembershipError::Unfinished) the same request goes on where it stood.
    pub async fn add_peer(&self, address: &str, origin: Origin) -> Result<PeerId, MembershipError> {
        check_address(address)
            .map_err(|expected| MembershipError::BadAddress { address: address.to_owned(), expected })?;
        let added = self.change(ChangeV1::AddPeer { address: address.to_owned(), origin }).await?;
        added.ok_or_else(|| unfinished(String::from("the leader didn't say which id it has")))
    }

    /// Gives a peer up. If it leads, another takes over first.
    ///
    /// # Errors
    /// As of [`add_peer`](Self::add_peer).
    pub async fn remove_peer(&self, peer: PeerId, origin: Origin) -> Result<(), MembershipError> {
        self.change(ChangeV1::RemovePeer { peer, origin }).await.map(drop)
    }

    /// Hands leadership to `to`.
    ///
    /// # Errors
    /// [`MembershipError::CantLead`] says why not.
    pub async fn transfer_leader(&self, to: PeerId) -> Result<(), MembershipError> {
        self.change(ChangeV1::MoveLeader { to }).await.map(drop)
    }

    /// The peers, as the leader knows them; as this peer does if the leader can't be asked.
    pub async fn members(&self) -> Vec<MemberStatus> {
        let leadership = *self.inner.leadership.borrow();
        if let Some(Leadership { peer, is_me: false, .. }) = leadership
            && let Ok(client) = self.inner.addresses.client(peer)
            && let Ok(ReplyV1::Members(Ok(members))) = client.call(Lane::Control, BodyV1::Members, ASK).await
        {
            return members;
        }
        self.members_here()
    }

    /// Has the leader do it, whoever that is by then.
    async fn change(&self, change: ChangeV1) -> Result<Option<PeerId>, MembershipError> {
        let deadline = Instant::now() + FIND_LEADER;
        let mut leadership = self.inner.leadership.clone();
        loop {
            let now = *leadership.borrow_and_update();
            let error = match now {
                None => unfinished(String::from("no leader is known")),
                Some(Leadership { is_me: true, .. }) => match self.change_here(change.clone()).await {
                    Err(error @ MembershipError::NotLeading { .. }) => error,
                    result => return result,
                },
                Some(Leadership { peer, .. }) => match self.change_there(peer, change.clone()).await {
                    Err(error @ MembershipError::NotLeading { .. }) => error,
                    result => return result,
                },
            };
            if Instant::now() >= deadline {
                return Err(error);
            }
            // Leadership moves, as part of the change or not; here and there it isn't seen at the same moment.
            if let Ok(Err(_)) = timeout(LOOK_AGAIN, leadership.changed()).await {
                return Err(error);
            }
        }
    }

    async fn change_there(&self, leader: PeerId, change: ChangeV1) -> Result<Option<PeerId>, MembershipError> {
        let client = self.inner.addresses.client(leader).map_err(unfinished)?;
        match client.call(Lane::Control, BodyV1::Change(change), FORWARDED).await {
            Ok(ReplyV1::Changed(result)) => result,
            Ok(other) => Err(unfinished(client.unexpected(&other).to_string())),
            Err(error) => Err(unfinished(error.to_string())),
        }
    }

    /// Does it if this peer leads. It runs to its end even if whoever asked is gone: half a change of the peers is worse
    /// than a whole one.
    pub(super) async fn change_here(&self, change: ChangeV1) -> Result<Option<PeerId>, MembershipError> {
        self.check_leads()?;
        let this = self.clone();
        let work = tokio::spawn(async move {
            match change {
                ChangeV1::AddPeer { address, origin } => this.add_peer_here(&address, origin).await.map(Some),
                ChangeV1::RemovePeer { peer, origin } => this.remove_peer_here(peer, origin).await.map(|()| None),
                ChangeV1::MoveLeader { to } => this.move_leader_here(to).await.map(|()| None),
                ChangeV1::PeerMoved { peer, address } => this.move_peer_here(peer, &address).await.map(|()| None),
            }
        });
        work.await.unwrap_or_else(|_| Err(unfinished(String::from("the leader is stopping"))))
    }

    pub(super) fn check_leads(&self) -> Result<(), MembershipError> {
        if self.leads() { Ok(()) } else { Err(MembershipError::NotLeading { peer: self.peer_id() }) }
    }

    async fn add_peer_here(&self, address: &str, origin: Origin) -> Result<PeerId, MembershipError> {
        let _one_at_a_time = self.inner.changing.try_lock().map_err(|_| MembershipError::InProgress)?;
        self.settle_membership().await?;
        let found = self.identify(address).await?;
        let level = self.state().state.feature_level();
        if found.feature_level < level {
            let address = address.to_owned();
            return Err(MembershipError::TooOld { address, known: found.feature_level, level });
        }
        let known_as = found.known_as.map(|(cluster, peer)| Identity { cluster, peer });
        let peer = match known_as {
            Some(identity) => self.known_peer(address, identity)?,
            None => self.register(address, &origin).await?,
        };
        self.join(peer, address).await?;
        self.replicate_to(peer, address).await?;
        self.let_vote(peer).await?;
        tracing::info!(peer = peer.0, address, "a peer was added");
        Ok(peer)
    }

    /// Who answers at `address`.
    async fn identify(&self, address: &str) -> Result<IdentityV1, MembershipError> {
        let unreachable = |what| MembershipError::Unreachable { address: address.to_owned(), what };
        let client = self.inner.addresses.client_at(wire::ANYBODY, address).map_err(unreachable)?;
        identify(&client).await.map_err(unreachable)
    }

    /// A peer that has an identity already may go on where it stood, if it is one of ours.
    fn known_peer(&self, address: &str, found: Identity) -> Result<PeerId, MembershipError> {
        let ours = self.inner.identity.cluster;
        if found.cluster != ours {
            let address = address.to_owned();
            return Err(MembershipError::OtherCluster { address, theirs: found.cluster, peer: found.peer, ours });
        }
        let state = self.state().state;
        if !state.peers().contains_key(&found.peer)
            && self.inner.addresses.membership().get_node(&found.peer.0).is_none()
        {
            return Err(MembershipError::WasRemoved { address: address.to_owned(), peer: found.peer });
        }
        Ok(found.peer)
    }

    /// Gives the peer at `address` a new id.
    async fn register(&self, address: &str, origin: &Origin) -> Result<PeerId, MembershipError> {
        let membership = self.inner.addresses.membership();
        let same_address = membership.nodes().find(|(_, node)| node.grpc_addr == address);
        if let Some((id, _)) = same_address {
            return Err(MembershipError::LostDisk { address: address.to_owned(), peer: PeerId(*id) });
        }
        // An earlier try that got no further. The peer may have had that id and lost it: it gets another.
        let stale = registered_at(&self.state().state, address);
        if let Some(peer) = stale {
            self.change_registry(Command::RemovePeer { peer }, origin).await?;
        }
        match self.change_registry(Command::AddPeer { address: address.to_owned() }, origin).await? {
            Reply::PeerAdded(peer) => Ok(peer),
            other => Err(MembershipError::Refused { what: format!("the registry answers {other:?}") }),
        }
    }

    pub(super) async fn change_registry(&self, command: Command, origin: &Origin) -> Result<Reply, MembershipError> {
        let applied = self.propose_here(origin.proposal(command), COMMIT).await.map_err(|error| match error {
            ProposeError::NotProposed { reason } => unfinished(reason.to_string()),
            ProposeError::Unknown { reason } => unfinished(reason.to_string()),
        })?;
        applied.outcome.map_err(|rejection| MembershipError::Refused { what: rejection.to_string() })
    }

    /// Has the peer take its identity, durably, and start.
    async fn join(&self, peer: PeerId, address: &str) -> Result<(), MembershipError> {
        let unreachable = |what| MembershipError::Unreachable { address: address.to_owned(), what };
        let client = self.inner.addresses.client_at(peer, address).map_err(unreachable)?;
        match client.call(Lane::Control, BodyV1::Join, JOIN).await {
            Ok(ReplyV1::Joined) => Ok(()),
            Ok(other) => Err(unfinished(client.unexpected(&other).to_string())),
            Err(CallError::Refused { refusal: RefusalV1::AlreadyJoined { cluster, peer }, .. }) => {
                let identity = Identity { cluster, peer };
                Err(self.known_peer(address, identity).err().unwrap_or(MembershipError::InProgress))
            }
            Err(error) => Err(unfinished(error.to_string())),
        }
    }

    async fn replicate_to(&self, peer: PeerId, address: &str) -> Result<(), MembershipError> {
        if self.inner.addresses.membership().voter_ids().any(|voter| voter == peer.0) {
            return Ok(());
        }
        let node = PeerNode { grpc_addr: address.to_owned() };
        match timeout(CATCH_UP, self.inner.raft.add_learner(peer.0, node, true)).await {
            Ok(result) => result.map(drop).map_err(|error| changing(&error)),
            Err(_) => Err(unfinished(format!("peer {peer} has not caught up within {CATCH_UP:?}"))),
        }
    }

    async fn let_vote(&self, peer: PeerId) -> Result<(), MembershipError> {
        if self.inner.addresses.membership().voter_ids().any(|voter| voter == peer.0) {
            return Ok(());
        }
        self.change_membership(ChangeMembers::AddVoterIds(BTreeSet::from([peer.0]))).await
    }

    pub(super) async fn change_membership(&self, change: ChangeMembers<u64, PeerNode>) -> Result<(), MembershipError> {
        match timeout(COMMIT, self.inner.raft.change_membership(change, false)).await {
            Ok(result) => result.map(drop).map_err(|error| changing(&error)),
            Err(_) => Err(unfinished(String::from("it was not committed in time"))),
        }
    }

    /// Finishes a change of the voters that was interrupted between its two steps.
    pub(super) async fn settle_membership(&self) -> Result<(), MembershipError> {
        if self.inner.addresses.membership().get_joint_config().len() > 1 {
            self.change_membership(ChangeMembers::AddVoterIds(BTreeSet::new())).await?;
        }
        Ok(())
    }

    async fn remove_peer_here(&self, peer: PeerId, origin: Origin) -> Result<(), MembershipError> {
        let one_at_a_time = self.inner.changing.try_lock().map_err(|_| MembershipError::InProgress)?;
        self.settle_membership().await?;
        let members = self.members_here();
        let registered = self.state().state.peers().contains_key(&peer);
        let Some(member) = members.iter().find(|member| member.peer == peer) else {
            // An earlier try that got so far, or a registration whose peer never joined.
            return match registered {
                true => self.change_registry(Command::RemovePeer { peer }, &origin).await.map(drop),
                false => Err(MembershipError::NoSuchPeer { peer }),
            };
        };
        self.check_quorum_without(member, &members)?;
        if peer == self.peer_id() {
            let successor = self.best_successor().ok_or_else(|| MembershipError::CantLead {
                peer,
                what: String::from("it leads now, and no other voter is alive and caught up to take over"),
            })?;
            self.move_leader_here(successor).await?;
            drop(one_at_a_time);
            // The successor does it.
            return Err(MembershipError::NotLeading { peer });
        }
        if member.voter {
            self.change_membership(ChangeMembers::RemoveVoters(BTreeSet::from([peer.0]))).await?;
        }
        if self.inner.addresses.membership().get_node(&peer.0).is_some() {
            self.change_membership(ChangeMembers::RemoveNodes(BTreeSet::from([peer.0]))).await?;
        }
        if registered {
            self.change_registry(Command::RemovePeer { peer }, &origin).await?;
        }
        tracing::info!(peer = peer.0, "a peer was removed");
        Ok(())
    }

    /// Those who stay must be able to decide.
    fn check_quorum_without(&self, gone: &MemberStatus, members: &[MemberStatus]) -> Result<(), MembershipError> {
        if !gone.voter {
            return Ok(());
        }
        let peer = gone.peer;
        let staying: Vec<_> = members.iter().filter(|member| member.voter && member.peer != peer).collect();
        if staying.is_empty() {
            return Err(MembershipError::LastVoter { peer });
        }
        let live_peers = self.live_peers();
        let live = staying.iter().filter(|member| live_peers.contains(&member.peer)).count();
        if live <= staying.len() / 2 {
            return Err(MembershipError::WouldLoseQuorum { peer, live: live as u64, voters: staying.len() as u64 });
        }
        Ok(())
    }

    /// The live voter that holds the most of the log.
    pub(super) fn best_successor(&self) -> Option<PeerId> {
        let members = self.members_here();
        let live = self.live_peers();
        let others = members.iter().filter(|member| member.voter && !member.leader && live.contains(&member.peer));
        others.max_by_key(|member| member.matched).map(|member| member.peer)
    }

    /// Hands leadership to a peer, and returns once it leads.
    pub(super) async fn move_leader_here(&self, to: PeerId) -> Result<(), MembershipError> {
        let cant = |what: &str| MembershipError::CantLead { peer: to, what: what.to_owned() };
        if to == self.peer_id() {
            return Ok(());
        }
        let deadline = Instant::now() + HAND_OVER;
        // A follower refuses while the last entries are on their way to it, and openraft doesn't ask twice.
        loop {
            let members = self.members_here();
            let member = members.iter().find(|member| member.peer == to);
            let member = member.ok_or(MembershipError::NoSuchPeer { peer: to })?;
            if !member.voter {
                return Err(cant("it doesn't vote"));
            }
            if !self.live_peers().contains(&to) {
                return Err(cant("the leader has not heard of it lately"));
            }
            if member.matched >= Some(self.status().last_log) {
                break;
            }
            if Instant::now() >= deadline {
                return Err(cant("it has not caught up with the log"));
            }
            sleep(Duration::from_millis(5)).await;
        }
        let mut leadership = self.inner.leadership.clone();
        self.inner.raft.trigger().transfer_leader(to.0).await.map_err(|error| cant(&error.to_string()))?;
        let moved = leadership.wait_for(|now| now.is_some_and(|now| now.peer != self.peer_id()));
        match timeout(HAND_OVER, moved).await {
            Ok(Ok(now)) if now.is_some_and(|now| now.peer == to) => Ok(()),
            Ok(Ok(_)) => Err(cant("another peer was elected meanwhile")),
            Ok(Err(_)) => Err(cant("this peer is stopping")),
            Err(_) => Err(cant("it was not elected in time")),
        }
    }
}

/// The registry holds an address once.
fn registered_at(state: &State, address: &str) -> Option<PeerId> {
    state.peers().values().find(|peer| peer.address == address).map(|peer| peer.id)
}

fn unfinished(what: String) -> MembershipError {
    MembershipError::Unfinished { what }
}

/// Whenever this peer comes to lead, it finishes what its predecessor left half done: until then the old majority is
/// needed beside the new one.
pub(super) async fn settle_when_leading(peer: Weak<Inner>, mut leadership: watch::Receiver<Option<Leadership>>) {
    while leadership.changed().await.is_ok() {
        let leads = leadership.borrow_and_update().is_some_and(|now| now.is_me);
        let Some(inner) = peer.upgrade() else { return };
        if leads && let Err(error) = (Consensus { inner }).settle_membership().await {
            tracing::warn!(%error, "a change of the peers that was interrupted is not finished yet");
        }
    }
}

fn changing(error: &WriteError) -> MembershipError {
    match error {
        RaftError::APIError(ClientWriteError::ChangeMembershipError(ChangeMembershipError::InProgress(_))) => {
            MembershipError::InProgress
        }
        error => unfinished(error.to_string()),
    }
}
