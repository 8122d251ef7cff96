//! Tells the log who leads and how the voters do: the quorum guard counts on it.

use std::time::Duration;

use rollcall_ident::PeerId;
use rollcall_rollout::{Command, PeerStanding, State};
use tokio::time::sleep;

use super::propose;
use crate::raft::{Consensus, MemberStatus};

/// How often the voters are looked at. Nothing is written by looking, and only what has changed is.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// BOUND: silence after which a voter can't be counted on: three elections, one after the other, are over by then. The one
/// that fell silent is in doubt for as long before a step is refused for it.
const SILENT_MS: u64 = 2_000;

/// BOUND: entries that a voter may miss, in the middle of traffic, and still counts as caught up; and how few it must miss
/// to count again. As much as lies between two snapshots: one that is further behind takes seconds to decide anything.
const LAGGING: u64 = 5_000;
const CAUGHT_UP: u64 = 256;

/// Watches the voters for as long as this peer leads.
pub(super) async fn run(consensus: Consensus) {
    let me = consensus.peer_id();
    loop {
        let members = consensus.members_here();
        let last_log = consensus.status().last_log.0;
        let state = consensus.state().state;
        if let Some(standings) = standings(&members, last_log, &state, me)
            && is_news(&state, me, &standings)
        {
            tracing::debug!(?standings, "the voters do otherwise than the log says");
            propose(&consensus, Command::NotePeers { leader: me, standings }).await;
        }
        sleep(LOOK_EVERY).await;
    }
}

/// How each voter does; none while that isn't known of all of them yet: a new leader has to hear of them first.
fn standings(
    members: &[MemberStatus],
    last_log: u64,
    state: &State,
    me: PeerId,
) -> Option<Vec<(PeerId, PeerStanding)>> {
    let voters = members.iter().filter(|member| member.voter && state.peers().contains_key(&member.peer));
    voters
        .map(|member| {
            if member.peer == me {
                return Some((me, PeerStanding::CaughtUp));
            }
            let was = state.peers().get(&member.peer).map(|peer| peer.standing);
            let is_silent = member.last_heard_ms.is_none_or(|ms| ms > SILENT_MS);
            let standing = match member.matched {
                _ if is_silent => PeerStanding::Silent,
                None => return None,
                Some(matched) => {
                    let misses = last_log.saturating_sub(matched.0);
                    let limit = if was == Some(PeerStanding::CaughtUp) { LAGGING } else { CAUGHT_UP };
                    if misses <= limit { PeerStanding::CaughtUp } else { PeerStanding::Lagging }
                }
            };
            Some((member.peer, standing))
        })
        .collect()
}

/// Whether the log says otherwise.
fn is_news(state: &State, me: PeerId, standings: &[(PeerId, PeerStanding)]) -> bool {
    let noted = state.peers().values().map(|peer| (peer.id, peer.standing));
    let named = |id| standings.iter().find(|(peer, _)| *peer == id).map_or(PeerStanding::Learner, |(_, it)| *it);
    state.leader() != Some(me) || noted.into_iter().any(|(peer, standing)| standing != named(peer))
}

#[cfg(test)]
mod tests {
    use rollcall_ident::{ClusterId, Revision};
    use rollcall_rollout::{LogEntry, Proposal};

    use super::*;

    fn state_with_peers() -> State {
        let mut state = State::default();
        let address = |n: u64| format!("p{n}:1");
        let init = Command::InitCluster { cluster_id: ClusterId([1; 16]) };
        let peers = [1, 3, 4].map(|n| Command::AddPeer { address: address(n) });
        for (n, command) in (1..).zip([init].into_iter().chain(peers)) {
            let entry = LogEntry { stamp: state.now(), proposal: Proposal::internal(command) };
            state.apply(Revision(n), &entry).outcome.unwrap();
        }
        state
    }

    fn member(peer: u64, last_heard_ms: Option<u64>, matched: Option<u64>) -> MemberStatus {
        MemberStatus {
            peer: PeerId(peer),
            address: String::new(),
            voter: true,
            leader: peer == 1,
            last_heard_ms,
            matched: matched.map(Revision),
            problem: None,
        }
    }

    #[test]
    fn nothing_is_said_before_all_are_known_and_nothing_twice() {
        let mut state = state_with_peers();
        let at = |members: &[MemberStatus], state: &State| standings(members, 10_000, state, PeerId(1));
        let new_leader = [member(1, Some(0), None), member(3, Some(10), None), member(4, Some(10), Some(10_000))];
        assert_eq!(at(&new_leader, &state), None, "peer 3 hasn't answered yet");
        let known = [member(1, Some(0), None), member(3, Some(2_001), None), member(4, Some(10), Some(9_000))];
        let said = at(&known, &state).unwrap();
        let expected = [PeerStanding::CaughtUp, PeerStanding::Silent, PeerStanding::Lagging];
        assert_eq!(said.iter().map(|(_, standing)| *standing).collect::<Vec<_>>(), expected);
        assert!(is_news(&state, PeerId(1), &said));
        let note = Command::NotePeers { leader: PeerId(1), standings: said.clone() };
        state.apply(Revision(9), &LogEntry { stamp: state.now(), proposal: Proposal::internal(note) }).outcome.unwrap();
        assert!(!is_news(&state, PeerId(1), &said), "an idle cluster writes nothing");
        assert!(is_news(&state, PeerId(3), &said), "another leader says so");
    }

    #[test]
    fn a_voter_in_traffic_is_not_called_lagging_by_turns() {
        let mut state = state_with_peers();
        let with = |missing: u64, state: &State| {
            let members = [member(1, Some(0), None), member(3, Some(1), Some(10_000 - missing))];
            standings(&members, 10_000, state, PeerId(1)).unwrap()[1].1
        };
        assert_eq!(with(257, &state), PeerStanding::Lagging, "it has never been caught up");
        assert_eq!(with(256, &state), PeerStanding::CaughtUp);
        let standings = vec![(PeerId(3), PeerStanding::CaughtUp)];
        let note = Command::NotePeers { leader: PeerId(1), standings };
        state.apply(Revision(9), &LogEntry { stamp: state.now(), proposal: Proposal::internal(note) }).outcome.unwrap();
        assert_eq!(with(5_000, &state), PeerStanding::CaughtUp);
        assert_eq!(with(5_001, &state), PeerStanding::Lagging);
    }
}
