//! Lets time do its work: sleeps until the next deadline in cluster time, or the next alarm of the wall clock, and
//! proposes that time has come.

use std::time::Duration;

use rollcall_ident::{ClusterTime, WallTime};
use rollcall_rollout::{Command, State};
use tokio::time::sleep;

use super::propose;
use crate::raft::Consensus;
use crate::world::wall_clock;

/// BOUND: how long it sleeps with an alarm set. A sleep is measured by the monotonic clock, and an alarm is due by the
/// wall clock: somebody may set that one forward, and a machine that was suspended wakes up with both apart. So the wall
/// clock is read again after at most this, and whenever something was applied. What people set for a day and an hour
/// may be late by it; reading a clock writes nothing, and without an alarm nobody wakes up.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);

/// Fires deadlines and rings alarms for as long as this peer leads.
pub(super) async fn run(consensus: Consensus) {
    let mut applied = consensus.applied();
    let mut view = applied.current();
    loop {
        // Cluster time runs on the leader.
        let changed = match time_left(&view.state, consensus.cluster_time(), wall_clock()) {
            None => applied.changed().await,
            Some(Duration::ZERO) => match propose(&consensus, Command::AdvanceClock).await {
                Some((_, after)) => Some(after),
                None => Some(applied.current()),
            },
            Some(left) => tokio::select! {
                changed = applied.changed() => changed,
                () = sleep(left) => Some(applied.current()),
            },
        };
        match changed {
            Some(next) => view = next,
            None => return,
        }
    }
}

/// How long to sleep until something is due, or has to be looked at again: zero once it is due, none where nothing will
/// ever be.
fn time_left(state: &State, now: ClusterTime, wall: WallTime) -> Option<Duration> {
    sooner(state.next_deadline().map(|at| at.since(now).0), state.next_alarm().map(|at| at.0.saturating_sub(wall.0)))
}

/// The sooner of what is left until a deadline and until an alarm, in milliseconds.
fn sooner(deadline: Option<u64>, alarm: Option<u64>) -> Option<Duration> {
    let alarm = alarm.map(|left| Duration::from_millis(left).min(LONGEST_SLEEP));
    deadline.map(Duration::from_millis).into_iter().chain(alarm).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_due_first_wakes_it_and_an_alarm_never_lets_it_sleep_for_long() {
        let seconds = Duration::from_secs;
        assert_eq!(sooner(None, None), None, "nothing is due: nobody wakes up");
        assert_eq!(sooner(Some(3_000), None), Some(seconds(3)));
        assert_eq!(sooner(Some(300_000), None), Some(seconds(300)), "deadlines are kept by the clock that sleeps");
        assert_eq!(sooner(Some(3_000), Some(1_000)), Some(seconds(1)));
        assert_eq!(sooner(Some(3_000), Some(5_000)), Some(seconds(3)));
        assert_eq!(sooner(Some(3_000), Some(0)), Some(Duration::ZERO));
        assert_eq!(sooner(None, Some(86_400_000)), Some(LONGEST_SLEEP));
        assert_eq!(sooner(Some(300_000), Some(86_400_000)), Some(LONGEST_SLEEP));
    }
}
