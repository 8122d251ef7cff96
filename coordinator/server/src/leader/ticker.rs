//! Lets deadlines fire: sleeps until the next one in cluster time, and proposes that time has come.

use std::time::Duration;

use rollcall_rollout::Command;
use tokio::time::sleep;

use super::propose;
use crate::raft::Consensus;

/// Fires deadlines for as long as this peer leads.
pub(super) async fn run(consensus: Consensus) {
    let mut applied = consensus.applied();
    let mut view = applied.current();
    loop {
        // Cluster time runs on the leader; `since` is zero once the deadline is due.
        let left = view.state.next_deadline().map(|at| at.since(consensus.cluster_time()));
        let changed = match left {
            None => applied.changed().await,
            Some(left) if left.0 > 0 => tokio::select! {
                changed = applied.changed() => changed,
                () = sleep(Duration::from_millis(left.0)) => Some(applied.current()),
            },
            Some(_) => match propose(&consensus, Command::AdvanceClock).await {
                Some((_, after)) => Some(after),
                None => Some(applied.current()),
            },
        };
        match changed {
            Some(next) => view = next,
            None => return,
        }
    }
}
