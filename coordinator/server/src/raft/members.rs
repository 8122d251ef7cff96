//! Who the peers are, where they are, and how they do, as the membership and the leader know it.

use std::collections::BTreeSet;
use std::time::Duration;

use openraft::Instant as _;
use openraft::async_runtime::watch::WatchReceiver as _;
use rollcall_ident::{PeerId, Revision};

use super::api::{MemberStatus, RaftStatus};
use super::client::{Clients, PeerClient};
use super::consensus::{Consensus, Raft};
use crate::storage::types::StoredMembership;

/// Finds the peers of the membership in force.
#[derive(Clone)]
pub(super) struct Addresses {
    raft: Raft,
    clients: Clients,
}

impl Addresses {
    pub(super) fn new(raft: Raft, clients: Clients) -> Self {
        Self { raft, clients }
    }

    pub(super) fn membership(&self) -> std::sync::Arc<StoredMembership> {
        self.raft.server_metrics().borrow_watched().membership_config.clone()
    }

    /// Where a peer of the membership is.
    pub(super) fn address(&self, peer: PeerId) -> Option<String> {
        self.membership().get_node(&peer.0).map(|node| node.grpc_addr.clone())
    }

    /// A client for a peer of the membership.
    pub(super) fn client(&self, peer: PeerId) -> Result<PeerClient, String> {
        let address = self.address(peer).ok_or_else(|| format!("the address of peer {peer} is not known"))?;
        self.clients.to(peer, &address)
    }

    /// A client for a peer that may not be a member yet.
    pub(super) fn client_at(&self, peer: PeerId, address: &str) -> Result<PeerClient, String> {
        self.clients.to(peer, address)
    }

    pub(super) fn clients(&self) -> &Clients {
        &self.clients
    }

    /// Keeps connections to where the members are, and to nobody else, for as long as openraft runs.
    pub(super) async fn follow_members(self) {
        let mut metrics = self.raft.server_metrics();
        let mut last = None;
        while metrics.changed().await.is_ok() {
            let membership = metrics.borrow_and_update().membership_config.clone();
            if last.as_ref() == Some(&membership) {
                continue;
            }
            let peers = membership.nodes().map(|(id, node)| (PeerId(*id), node.grpc_addr.clone())).collect();
            self.clients.keep_to(peers);
            last = Some(membership);
        }
    }
}

impl Consensus {
    /// How consensus stands on this peer.
    pub fn status(&self) -> RaftStatus {
        let metrics = self.inner.raft.metrics().borrow_watched().clone();
        let index = |id: Option<crate::storage::types::LogId>| Revision(id.map_or(0, |id| id.index));
        let last = metrics.last_log_index;
        // The log begins behind what was purged, or with entry 0.
        let first = metrics.purged.map_or(0, |purged| purged.index + 1);
        RaftStatus {
            term: metrics.current_term,
            last_log: Revision(last.unwrap_or_default()),
            committed: index(metrics.local_committed),
            applied: self.state().revision,
            snapshot: index(metrics.snapshot),
            log_entries: last.map_or(0, |last| (last + 1).saturating_sub(first)),
            queued_proposals: self.queued_proposals(),
        }
    }

    /// The peers, as this peer knows them. How the others do, only the leader knows: ask [`members`](Self::members).
    pub fn members_here(&self) -> Vec<MemberStatus> {
        let metrics = self.inner.raft.metrics().borrow_watched().clone();
        let voters: BTreeSet<u64> = metrics.membership_config.voter_ids().collect();
        let me = self.peer_id();
        let leader = metrics.current_leader.map(PeerId);
        let i_lead = leader == Some(me) && metrics.heartbeat.is_some();
        let leads_for_ms = self.inner.leadership.borrow().map(|now| whole_ms(now.since.elapsed()));
        let heard_ms = |id: &u64| {
            let heard = metrics.heartbeat.as_ref()?.get(id)?.as_ref();
            // Not heard of since it leads: that long at least.
            heard.map(|heard| whole_ms(heard.elapsed())).or(leads_for_ms)
        };
        let matched = |id: &u64| metrics.replication.as_ref()?.get(id)?.as_ref().map(|matched| Revision(matched.index));
        let members = metrics.membership_config.nodes().map(|(id, node)| {
            let peer = PeerId(*id);
            let is_me = peer == me;
            MemberStatus {
                peer,
                address: node.grpc_addr.clone(),
                voter: voters.contains(id),
                leader: leader == Some(peer),
                last_heard_ms: if i_lead && is_me { Some(0) } else { heard_ms(id) },
                matched: if i_lead && is_me { metrics.last_log_index.map(Revision) } else { matched(id) },
                problem: if is_me { None } else { self.inner.addresses.clients().problem(peer) },
            }
        });
        members.collect()
    }

    /// Whether there is a leader to this peer's knowledge: as the leader it hears of a majority, else it hears of the leader.
    /// [`leadership`](Self::leadership) goes on to name a leader that fell silent until another is elected.
    pub async fn hears_leader(&self) -> bool {
        let lately = Duration::from_millis(self.inner.tuning.election_max_ms);
        if self.is_elected() {
            let metrics = self.inner.raft.metrics().borrow_watched().clone();
            let alone = metrics.membership_config.voter_ids().eq([self.peer_id().0]);
            return alone || metrics.last_quorum_acked.is_some_and(|acked| acked.elapsed() <= lately);
        }
        let heard = self.inner.raft.with_raft_state(move |state| {
            let renewed = state.vote_last_modified();
            state.vote_ref().committed && renewed.is_some_and(|renewed| renewed.elapsed() <= lately)
        });
        heard.await.unwrap_or(false)
    }

    /// The peers that the leader heard of lately enough to count on them; itself is one. Nobody, if this peer doesn't
    /// lead.
    pub(super) fn live_peers(&self) -> BTreeSet<PeerId> {
        let heard = self.inner.raft.metrics().borrow_watched().heartbeat.clone().unwrap_or_default();
        let lately = Duration::from_millis(self.inner.tuning.election_max_ms);
        let live = heard.iter().filter(|(_, heard)| heard.as_ref().is_some_and(|heard| heard.elapsed() <= lately));
        let me = self.leads().then(|| self.peer_id());
        live.map(|(id, _)| PeerId(*id)).chain(me).collect()
    }
}

fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
