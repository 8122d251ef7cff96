//! Cluster time for people, on any peer.
//!
//! It runs on the leader. A follower knows only the time of the last entry it has applied, and an idle cluster writes
//! nothing; so it adds what has passed since then by its own monotonic clock. Nothing is decided by it.

use std::sync::{Arc, Mutex, PoisonError};

use rollcall_ident::{ClusterTime, Millis, Revision, WallTime};
use rollcall_rollout::Stamp;
use tokio::time::Instant;

use crate::raft::{Consensus, View};

/// When this peer applied its last entry.
#[derive(Debug, Clone, Default)]
pub struct ClusterClock {
    last: Arc<Mutex<Option<(Revision, Instant)>>>,
}

impl ClusterClock {
    /// Follows what is applied, for as long as the peer runs.
    pub async fn follow(self, consensus: Consensus) {
        let mut watch = consensus.applied();
        self.note(watch.revision());
        while let Some(view) = watch.changed().await {
            self.note(view.revision);
        }
    }

    fn note(&self, revision: Revision) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some((revision, Instant::now()));
    }

    /// The time now, if a leader is known; else it stands still.
    pub fn now(&self, consensus: &Consensus, view: &View) -> Stamp {
        let at = view.state.now();
        let leadership = *consensus.leadership().borrow();
        let passed = match leadership {
            None => Millis(0),
            Some(leadership) if leadership.is_me => consensus.cluster_time().since(at.cluster_time),
            Some(_) => match *self.last.lock().unwrap_or_else(PoisonError::into_inner) {
                Some((revision, since)) if revision <= view.revision => {
                    Millis(u64::try_from(since.elapsed().as_millis()).unwrap_or_default())
                }
                _ => Millis(0),
            },
        };
        let ClusterTime(clock) = at.cluster_time + passed;
        Stamp { cluster_time: ClusterTime(clock), wall_time: WallTime(at.wall_time.0.saturating_add(passed.0)) }
    }
}
