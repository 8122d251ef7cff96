//! What only the leader does: plan, let deadlines fire, look after sessions whose host is gone, tell how the voters do,
//! raise the feature level once all peers know the next one, and hand leadership over where its own machine is next.
//!
//! # Invariants
//! - Nothing here decides: it proposes, and `apply` checks. A leader that has been deposed without knowing can be slow,
//!   never unsafe.
//! - An idle cluster writes nothing: proposals follow applied revisions and deadlines, never a timer.

mod hand_over;
mod host_watch;
mod level_watch;
mod peer_watch;
mod planner;
mod ticker;

use std::time::Duration;

use rollcall_rollout::{Applied, Command, Proposal};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::raft::{Consensus, View};

/// After a proposal without an outcome. A leader that lost its majority stops leading within a second or two.
const PAUSE: Duration = Duration::from_millis(250);

/// BOUND: for what is applied to be seen in the applied state: they are published together.
const SEEN: Duration = Duration::from_secs(5);

/// Works whenever this peer leads, until `stopping`.
pub async fn lead(consensus: Consensus, stopping: CancellationToken) {
    let mut leadership = consensus.leadership();
    loop {
        let term =
            leadership.borrow_and_update().filter(|leadership| leadership.is_me).map(|leadership| leadership.term);
        let mut work = JoinSet::new();
        if term.is_some() {
            work.spawn(planner::run(consensus.clone()));
            work.spawn(ticker::run(consensus.clone()));
            work.spawn(host_watch::run(consensus.clone()));
            work.spawn(peer_watch::run(consensus.clone()));
            work.spawn(level_watch::run(consensus.clone()));
            work.spawn(hand_over::run(consensus.clone()));
        }
        let goes_on = tokio::select! {
            changed = leadership.changed() => changed.is_ok(),
            () = stopping.cancelled() => false,
        };
        work.shutdown().await;
        if !goes_on {
            return;
        }
    }
}

/// Proposes, and returns once this peer shows what came of it; nothing where there is no outcome, after a pause.
async fn propose(consensus: &Consensus, command: Command) -> Option<(Applied, View)> {
    match consensus.propose(Proposal::internal(command)).await {
        Ok(applied) => {
            let seen = consensus.applied().wait_for(applied.revision, Instant::now() + SEEN).await;
            seen.map(|view| (applied, view))
        }
        Err(error) => {
            tracing::debug!(%error, "the leader's own proposal has no outcome");
            sleep(PAUSE).await;
            None
        }
    }
}
