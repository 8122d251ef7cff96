//! Feature levels: behaviour changes by agreement, not by binary.
//!
//! A build knows the levels up to [`LEVEL`]. The level of the cluster stands in the state. The leader has it raised by one
//! ([`next_level`]) once every registered peer has said that it knows the next one, and from that entry on all behave by it.
//! So releases of Rollcall can be mixed while they are rolled, and an older one that comes back later is refused: it stops
//! at the entry, or the snapshot, that it doesn't know, and skips nothing.
//!
//! | level | since | what it brings |
//! | --- | --- | --- |
//! | 1 | 0.1 | everything there is |

use crate::{Command, LogEntry, State};

/// The highest level that this build knows. The feature `next-level` makes the build that a test of upgrades upgrades to.
pub const LEVEL: u32 = if cfg!(feature = "next-level") { 2 } else { 1 };

/// Why this build has nothing to do in a cluster any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the cluster is at feature level {found}, and this binary ({version}) knows levels up to {LEVEL}: its peers were \
     upgraded, and no older release can take part any more. Start this peer with the release that the others run, or a \
     newer one; its data is as it was",
    version = env!("CARGO_PKG_VERSION")
)]
pub struct TooOld {
    /// The level of the cluster.
    pub found: u32,
}

/// Whether this build can behave as a cluster at `level` has agreed to.
///
/// # Errors
/// [`TooOld`]
pub fn check_level(level: u32) -> Result<(), TooOld> {
    if level <= LEVEL { Ok(()) } else { Err(TooOld { found: level }) }
}

impl LogEntry {
    /// Whether this build can apply it.
    ///
    /// # Errors
    /// [`TooOld`]: it raises the level beyond what this build knows.
    pub fn check_level(&self) -> Result<(), TooOld> {
        match self.proposal.command {
            Command::RaiseFeatureLevel { level } => check_level(level),
            _ => Ok(()),
        }
    }
}

/// The level to raise the cluster to: the next one, where this build and every peer know it.
#[must_use]
pub fn next_level(state: &State) -> Option<u32> {
    let next = state.feature_level + 1;
    let is_known = next <= LEVEL && !state.peers.is_empty() && who_lags(state, next).is_none();
    (state.cluster_id.is_some() && is_known).then_some(next)
}

/// What the leader proposes as soon as the cluster is at `level`.
#[must_use]
pub fn first_of_level(level: u32) -> Option<Command> {
    #[cfg(feature = "next-level")]
    if level == LEVEL {
        return Some(Command::TryLevel);
    }
    let _ = level;
    None
}

/// The first peer that doesn't know `level`, and the level that it knows; none where it hasn't said.
pub(crate) fn who_lags(state: &State, level: u32) -> Option<(rollcall_ident::PeerId, Option<u32>)> {
    let known = |peer: &crate::Peer| peer.facts.as_ref().map(|facts| facts.feature_level);
    state.peers.values().map(|peer| (peer.id, known(peer))).find(|(_, known)| known.is_none_or(|known| known < level))
}

#[cfg(test)]
mod tests {
    use rollcall_ident::{ClusterId, PeerId, Revision};

    use super::*;
    use crate::{PeerFacts, Proposal, Rejection, Reply};

    fn apply(state: &mut State, command: Command) -> Result<Reply, Rejection> {
        let entry = LogEntry { stamp: state.now(), proposal: Proposal::internal(command) };
        state.apply(Revision(state.revision().0 + 1), &entry).outcome
    }

    fn describe(state: &mut State, peer: u64, feature_level: u32) {
        let facts = PeerFacts { machine_id: String::new(), version: "0.1.0".to_owned(), feature_level };
        apply(state, Command::DescribePeer { peer: PeerId(peer), facts }).unwrap();
    }

    #[test]
    fn it_rises_one_by_one_and_only_where_every_peer_knows_it() {
        let mut state = State::default();
        assert_eq!(next_level(&state), None, "there is no cluster");
        apply(&mut state, Command::InitCluster { cluster_id: ClusterId([1; 16]) }).unwrap();
        apply(&mut state, Command::AddPeer { address: "p1:1".to_owned() }).unwrap();
        apply(&mut state, Command::AddPeer { address: "p3:1".to_owned() }).unwrap();
        let lacks = |known| Err(Rejection::PeerLacksLevel { peer: PeerId(3), known, level: 2 });
        describe(&mut state, 1, 3);
        assert_eq!(apply(&mut state, Command::RaiseFeatureLevel { level: 2 }), lacks(0), "it hasn't said anything");
        describe(&mut state, 3, 1);
        assert_eq!(apply(&mut state, Command::RaiseFeatureLevel { level: 2 }), lacks(1));
        assert_eq!(next_level(&state), None);
        describe(&mut state, 3, 2);
        for wrong in [1, 3] {
            assert!(apply(&mut state, Command::RaiseFeatureLevel { level: wrong }).is_err(), "{wrong}");
        }
        assert_eq!(next_level(&state), (LEVEL >= 2).then_some(2), "what this build doesn't know it doesn't ask for");
        assert_eq!(apply(&mut state, Command::RaiseFeatureLevel { level: 2 }), Ok(Reply::Done));
        assert_eq!(state.feature_level(), 2);
        assert_eq!(next_level(&state), None);
    }

    #[test]
    fn what_raises_the_level_too_far_is_known_before_it_is_applied() {
        let entry = |level| LogEntry {
            stamp: State::default().now(),
            proposal: Proposal::internal(Command::RaiseFeatureLevel { level }),
        };
        assert_eq!(entry(LEVEL).check_level(), Ok(()));
        assert_eq!(entry(LEVEL + 1).check_level(), Err(TooOld { found: LEVEL + 1 }));
    }
}
