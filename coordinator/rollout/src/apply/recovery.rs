//! A majority of the peers is lost for good: the cluster goes on as a new one, from what one peer or a snapshot has.
//!
//! This is no command: it isn't agreed on by anybody, since nobody is left to agree. It is done offline, to a state that
//! becomes the first snapshot of the new cluster, and stands in the history like any change.
//!
//! # Invariants
//! - INVARIANT I-04: nothing that the lost majority may have handed out comes again. Fences, the ids of peers, rollouts and
//!   freezes, session epochs and the cursors of watches are all revisions; the new cluster begins so far above the last
//!   one that is known that no lost entry can have got there.
//! - Nothing begins by itself: all groups are frozen until somebody has looked and lifts the freeze, because what the lost
//!   entries did to the machines isn't in this state. A member that they moved on would else be taken for a drifted one
//!   and be moved back.

use rollcall_ident::{ClusterId, FreezeId, PeerId, Revision, WallTime};

use super::Transition;
use crate::state::Peer;
use crate::{Actor, Event, HistoryRecord, Stamp, State};

/// Recovered clusters begin at multiples of this: at 1,000 entries a second a cluster needs 31 years to get so far, so it
/// is more than any majority can have been ahead of what is left of it; and people can read off an id like
/// `r2000000000042` that it was given after the second recovery.
const RECOVERY_STEP: u64 = 1_000_000_000_000;

/// The least that is left out, also shortly below a multiple: three years at 1,000 entries a second.
const LEAST_GAP: u64 = RECOVERY_STEP / 10;

/// Who the new cluster is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovery {
    /// Its id, new.
    pub cluster_id: ClusterId,
    /// Its only peer; none: one that gets a new id.
    pub peer: Option<PeerId>,
    /// `host:port` of that peer's gRPC, or empty where that isn't known yet.
    pub address: String,
}

/// What a recovery brought about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovered {
    /// Where the new cluster begins.
    pub revision: Revision,
    /// Its only peer.
    pub peer: PeerId,
    /// The peers that were given up.
    pub given_up: Vec<PeerId>,
    /// What keeps every group as it is until it is lifted.
    pub freeze: FreezeId,
    /// What stands in the history.
    pub record: HistoryRecord,
}

/// Where a cluster begins that is recovered from one that got to `last`.
///
/// # Panics
/// After more than ten million recoveries.
#[must_use]
pub fn recovered_revision(last: Revision) -> Revision {
    let steps = (last.0 + LEAST_GAP) / RECOVERY_STEP + 1;
    Revision(steps.checked_mul(RECOVERY_STEP).expect("nobody recovers a cluster ten million times"))
}

impl State {
    /// Makes this the state of a new cluster. `last` is the last entry of the old one that is in it.
    pub fn recover(
        &mut self,
        last: Revision,
        wall_time: WallTime,
        actor: &Actor,
        reason: Option<&str>,
        recovery: &Recovery,
    ) -> Recovered {
        let revision = recovered_revision(last.max(self.revision));
        // Cluster time goes on where it stood, as after any time without a leader.
        let now = Stamp { cluster_time: self.now.cluster_time, wall_time };
        let former = self.cluster_id;
        self.former_clusters.extend(former);
        (self.now, self.revision, self.cluster_id) = (now, revision, Some(recovery.cluster_id));
        let peer = recovery.peer.unwrap_or(PeerId(revision.0));
        let given_up: Vec<PeerId> = self.peers.keys().copied().filter(|id| *id != peer).collect();
        given_up.iter().for_each(|id| {
            self.peers.remove(id);
        });
        self.peers.insert(peer, Peer::new(peer, recovery.address.clone()));
        self.leader = None;
        let why = match reason {
            Some(reason) => format!("cluster recovered: {reason}"),
            None => "cluster recovered: look at the machines, then lift this".to_owned(),
        };
        let mut transition = Transition::begin(self, revision, now, actor, Some(&why), None);
        transition.emit(Event::ClusterRecovered {
            cluster_id: recovery.cluster_id,
            former_cluster_id: former,
            former_revision: last,
            peer,
        });
        transition.find_hosts();
        // From the beginning of all time: the next leader's clock may be behind this machine's.
        let frozen = transition.create_freeze(&[], Some(WallTime(0)), None);
        assert!(frozen.is_ok(), "a freeze of all groups without an end is never refused: {frozen:?}");
        transition.settle();
        let record = transition.into_record();
        self.chain(&record);
        let violations = if cfg!(debug_assertions) { crate::check(self) } else { Vec::new() };
        assert!(violations.is_empty(), "a recovery at {revision} breaks invariants: {violations:?}");
        Recovered { revision, peer, given_up, freeze: FreezeId(revision.0), record }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recovered_cluster_begins_above_whatever_was_lost() {
        assert_eq!(recovered_revision(Revision(0)), Revision(RECOVERY_STEP));
        assert_eq!(recovered_revision(Revision(5_000)), Revision(RECOVERY_STEP));
        assert_eq!(recovered_revision(Revision(RECOVERY_STEP)), Revision(2 * RECOVERY_STEP));
        for last in [0, 1, RECOVERY_STEP - LEAST_GAP - 1, RECOVERY_STEP - LEAST_GAP, RECOVERY_STEP - 1] {
            assert!(recovered_revision(Revision(last)).0 - last > LEAST_GAP, "{last}");
        }
    }
}
