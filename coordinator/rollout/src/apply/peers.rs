//! What peers say of themselves and the leader says of them, and which nodes are their machines.

use std::collections::BTreeSet;

use rollcall_ident::{GroupName, NodeId, PeerId};

use super::Transition;
use crate::quorum::{hosts, nodes_of};
use crate::state::{PeerFacts, PeerStanding};
use crate::{Event, Rejection, Reply};

impl Transition<'_> {
    pub(super) fn describe_peer(&mut self, id: PeerId, facts: &PeerFacts) -> Result<Reply, Rejection> {
        let peer = self.state.peers.get_mut(&id).ok_or(Rejection::UnknownPeer(id))?;
        if peer.facts.as_ref() == Some(facts) {
            return Ok(Reply::Done);
        }
        peer.facts = Some(facts.clone());
        let PeerFacts { machine_id, version, .. } = facts.clone();
        self.emit(Event::PeerDescribed { peer: id, machine_id, version });
        self.find_hosts();
        Ok(Reply::Done)
    }

    /// A leader says that it leads, and how each voter does; who isn't named doesn't vote.
    pub(super) fn note_peers(
        &mut self,
        leader: PeerId,
        standings: &[(PeerId, PeerStanding)],
    ) -> Result<Reply, Rejection> {
        if !self.state.peers.contains_key(&leader) {
            return Err(Rejection::UnknownPeer(leader));
        }
        let standing_of = |id: PeerId| standings.iter().find(|(peer, _)| *peer == id).map(|(_, standing)| *standing);
        let ids: Vec<PeerId> = self.state.peers.keys().copied().collect();
        for id in ids {
            let standing = standing_of(id).unwrap_or(PeerStanding::Learner);
            let Some(peer) = self.state.peers.get_mut(&id).filter(|peer| peer.standing != standing) else { continue };
            peer.standing = standing;
            self.emit(Event::PeerStandingChanged { peer: id, standing });
        }
        let before = self.state.leader;
        if before != Some(leader) {
            self.state.leader = Some(leader);
            self.emit(Event::LeaderChanged { peer: leader });
        }
        for node in before.into_iter().chain([leader]).flat_map(|peer| self.hosts_of(peer)).collect::<Vec<_>>() {
            for group in self.groups_of(node) {
                self.touch_member(&group, node);
            }
        }
        self.touch_hosts();
        Ok(Reply::Done)
    }

    /// Which peers run on the machine of `id`, brought up to date after the node or its registration has changed.
    pub(super) fn find_hosted(&mut self, id: NodeId) {
        let node = self.state.nodes.get(&id);
        let found: Vec<(PeerId, bool)> = self
            .state
            .peers
            .values()
            .map(|peer| (peer.id, node.is_some_and(|node| hosts(node, peer))))
            .filter(|(peer, is_host)| self.state.hosts.contains_key(&(*peer, id)) != *is_host)
            .collect();
        for (peer, is_host) in found {
            self.state.hosts.put((peer, id), is_host.then_some(()));
        }
    }

    /// The same for all nodes: a peer came, went, or has said where it runs.
    pub(super) fn find_hosts(&mut self) {
        let before = self.all_hosts();
        let gone: Vec<_> =
            self.state.hosts.keys().filter(|(peer, _)| !self.state.peers.contains_key(peer)).copied().collect();
        for key in gone {
            self.state.hosts.remove(&key);
        }
        let nodes: Vec<NodeId> = self.state.nodes.keys().copied().collect();
        nodes.into_iter().for_each(|node| self.find_hosted(node));
        // Also those that are none any more: their turn may come earlier now.
        for node in before.into_iter().chain(self.all_hosts()).collect::<BTreeSet<_>>() {
            for group in self.groups_of(node) {
                self.touch_member(&group, node);
            }
        }
    }

    /// Groups whose turn may be held by the quorum guard are looked at again.
    pub(super) fn touch_hosts(&mut self) {
        for node in self.all_hosts() {
            for group in self.groups_of(node) {
                self.touch(&group);
            }
        }
    }

    /// The same, where `node` is a peer's machine: its step begins or ends.
    pub(super) fn touch_other_hosts(&mut self, node: NodeId) {
        let is_host = self.state.peers.keys().any(|peer| self.state.hosts.contains_key(&(*peer, node)));
        if is_host {
            self.touch_hosts();
        }
    }

    fn all_hosts(&self) -> Vec<NodeId> {
        self.state.hosts.keys().map(|(_, node)| *node).collect()
    }

    fn hosts_of(&self, peer: PeerId) -> Vec<NodeId> {
        nodes_of(self.state, peer).collect()
    }

    fn groups_of(&self, node: NodeId) -> Vec<GroupName> {
        self.state.nodes.get(&node).into_iter().flat_map(|node| node.services.keys().cloned()).collect()
    }
}
