//! The quorum guard: which nodes are machines of peers, and what is left of the peers while one of those is down.
//!
//! A machine is a peer's by its machine id, or because the agent's config says so (`hosts_peer`), which goes before.

use rollcall_ident::{NodeId, PeerId};

use crate::state::{Node, Peer, PeerStanding};
use crate::{State, WaitingOn};

/// Whether `peer` runs on the machine of `node`.
pub(crate) fn hosts(node: &Node, peer: &Peer) -> bool {
    match &node.hosts_peer {
        Some(named) => *named == peer.address || *named == peer.id.0.to_string(),
        None => {
            peer.facts.as_ref().is_some_and(|facts| !facts.machine_id.is_empty() && facts.machine_id == node.machine_id)
        }
    }
}

/// The peers that go down with `node`. Where all of them are on one machine there is nothing to guard: it is somebody's
/// own machine, and whatever happens to it happens to all of them.
pub(crate) fn hosted(state: &State, node: &Node) -> Vec<PeerId> {
    if state.hosts.is_empty() {
        return Vec::new();
    }
    let hosted: Vec<PeerId> = state.peers.values().filter(|peer| hosts(node, peer)).map(|peer| peer.id).collect();
    let is_whole_cluster = node.hosts_peer.is_none() && hosted.len() == state.peers.len();
    if is_whole_cluster { Vec::new() } else { hosted }
}

/// The nodes on whose machines `peer` runs.
pub(crate) fn nodes_of(state: &State, peer: PeerId) -> impl Iterator<Item = NodeId> {
    let all = (peer, NodeId([0; 16]))..=(peer, NodeId([u8::MAX; 16]));
    state.hosts.range(all).map(|((_, node), ())| *node)
}

/// Whether a step that is under way may take the peer down, besides that of `but`.
fn is_at_risk(state: &State, peer: PeerId, but: NodeId) -> bool {
    nodes_of(state, peer).any(|node| node != but && state.tokens.contains_key(&node))
}

/// Whether the cluster can do without the machine of `node`, and is led from elsewhere.
///
/// INVARIANT I-20: a machine of a peer goes down only while the other live, caught-up voters, on machines that stay up,
/// are a majority, and the leader isn't on it.
pub(crate) fn can_do_without(state: &State, node: &Node) -> Result<(), WaitingOn> {
    let hosted = hosted(state, node);
    if hosted.is_empty() {
        return Ok(());
    }
    let voters: Vec<&Peer> = state.peers.values().filter(|peer| peer.standing != PeerStanding::Learner).collect();
    let needed = voters.len() / 2 + 1;
    let stays = |peer: &Peer| {
        peer.standing == PeerStanding::CaughtUp && !hosted.contains(&peer.id) && !is_at_risk(state, peer.id, node.id)
    };
    let remaining = voters.iter().filter(|peer| stays(peer)).count();
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    if remaining < needed {
        let missing = voters.iter().filter(|peer| !stays(peer) && !hosted.contains(&peer.id)).map(|peer| peer.id);
        return Err(WaitingOn::QuorumGuard {
            node: node.name.clone(),
            missing: missing.collect(),
            hosted,
            remaining: count(remaining),
            voters: count(voters.len()),
            needed: count(needed),
        });
    }
    match state.leader.filter(|leader| hosted.contains(leader)) {
        Some(leader) => Err(WaitingOn::LeaderMoves { node: node.name.clone(), leader }),
        None => Ok(()),
    }
}

/// Whether the peer that leads goes down with `node`: its turn comes last, so that leadership moves once.
pub(crate) fn hosts_leader(state: &State, node: &Node) -> bool {
    state.leader.is_some_and(|leader| hosted(state, node).contains(&leader))
}

/// Whom leadership may be handed to, the best first: live and caught up, on machines that stay up for now, and rather on
/// one whose own step isn't still to come.
pub(crate) fn successors(state: &State, leaves: NodeId) -> Vec<PeerId> {
    let Some(node) = state.nodes.get(&leaves) else { return Vec::new() };
    let hosted = hosted(state, node);
    let is_fit = |peer: &&Peer| {
        peer.standing == PeerStanding::CaughtUp && !hosted.contains(&peer.id) && !is_at_risk(state, peer.id, leaves)
    };
    let mut fit: Vec<PeerId> = state.peers.values().filter(is_fit).map(|peer| peer.id).collect();
    fit.sort_by_key(|peer| nodes_of(state, *peer).any(|node| is_queued(state, node)));
    fit
}

/// Whether the node has a step that is still to come.
fn is_queued(state: &State, id: NodeId) -> bool {
    let Some(node) = state.nodes.get(&id) else { return false };
    let mut rollouts = node.services.keys().filter_map(|group| state.active_rollout(group));
    rollouts.any(|rollout| rollout.steps.get(&id).is_some_and(|step| step.rank.is_some()))
}
