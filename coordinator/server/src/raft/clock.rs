//! Cluster time on the leader: what it had applied when it took over, plus what its own monotonic clock has measured
//! since.
//!
//! # Invariants
//! - It never runs ahead of real time: a new leader begins where the log stood and counts from there. So deadlines fire
//!   late, never early.
//! - It never goes back within one leadership. `apply` clamps what is left: stamps of two leaders may cross in the log.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rollcall_ident::{ClusterTime, Millis};
use rollcall_rollout::Stamp;
use tokio::time::Instant;

use crate::world::{monotonic, wall_clock};

/// The clock of one peer. It runs only while the peer leads.
#[derive(Debug, Default)]
pub(super) struct ClusterClock {
    running: Mutex<Option<Running>>,
}

#[derive(Debug, Clone, Copy)]
struct Running {
    base: ClusterTime,
    since: Instant,
}

impl ClusterClock {
    /// This peer leads from now on, and has applied everything that its predecessors committed.
    pub(super) fn start(&self, applied: ClusterTime, now: Instant) {
        *self.lock() = Some(Running { base: applied, since: now });
    }

    /// This peer doesn't lead any more.
    pub(super) fn stop(&self) {
        *self.lock() = None;
    }

    /// Cluster time now: that of the applied state while this peer doesn't lead.
    pub(super) fn now(&self, applied: ClusterTime, now: Instant) -> ClusterTime {
        match *self.lock() {
            None => applied,
            Some(Running { base, since }) => {
                let elapsed = now.saturating_duration_since(since);
                applied.max(base + Millis(whole_ms(elapsed)))
            }
        }
    }

    /// The stamp of an entry that is proposed now.
    pub(super) fn stamp(&self, applied: ClusterTime) -> Stamp {
        Stamp { cluster_time: self.now(applied, monotonic()), wall_time: wall_clock() }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Running>> {
        // What is stored under it is replaced as a whole.
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stands_still_without_leadership_and_runs_with_it() {
        let clock = ClusterClock::default();
        let begin = Instant::now();
        let later = |ms| begin + Duration::from_millis(ms);
        assert_eq!(clock.now(ClusterTime(500), later(9_000)), ClusterTime(500));

        clock.start(ClusterTime(500), begin);
        assert_eq!(clock.now(ClusterTime(500), later(250)), ClusterTime(750));
        // An entry of this leader that was applied since doesn't count twice.
        assert_eq!(clock.now(ClusterTime(700), later(250)), ClusterTime(750));
        assert_eq!(clock.now(ClusterTime(900), later(250)), ClusterTime(900));

        clock.stop();
        assert_eq!(clock.now(ClusterTime(750), later(60_000)), ClusterTime(750));
    }

    #[test]
    fn a_new_leader_begins_where_the_log_stood() {
        let clock = ClusterClock::default();
        let begin = Instant::now();
        clock.start(ClusterTime(1_000), begin + Duration::from_secs(3600));
        assert_eq!(clock.now(ClusterTime(1_000), begin + Duration::from_secs(3600)), ClusterTime(1_000));
    }
}
