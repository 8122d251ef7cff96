//! Peers.

use rollcall_proto::v1;
use rollcall_rollout::State;

use crate::raft::MemberStatus;

/// BOUND: silence after which a peer doesn't count as alive: longer than any election.
const ALIVE_MS: u64 = 2_000;

/// A peer, and what it has said of itself.
pub fn peer(member: &MemberStatus, state: &State) -> v1::Peer {
    let facts = state.peers().get(&member.peer).and_then(|peer| peer.facts.clone());
    v1::Peer {
        peer_id: member.peer.0,
        address: member.address.clone(),
        voter: member.voter,
        leader: member.leader,
        reachable: is_alive(member),
        matched_revision: member.matched.map(|revision| revision.0),
        last_heard_ms: member.last_heard_ms,
        version: facts.as_ref().map(|facts| facts.version.clone()).unwrap_or_default(),
        feature_level: facts.map_or(0, |facts| facts.feature_level),
    }
}

/// How many voters may still be lost before nothing moves any more; negative where nothing moves now.
pub fn quorum_margin(members: &[MemberStatus]) -> i32 {
    let voters = members.iter().filter(|member| member.voter);
    let alive = voters.clone().filter(|member| is_alive(member)).count();
    let majority = voters.count() / 2 + 1;
    let count = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    count(alive) - count(majority)
}

fn is_alive(member: &MemberStatus) -> bool {
    member.last_heard_ms.is_some_and(|ms| ms <= ALIVE_MS)
}
