//! Moves leadership off a machine whose step is next: the leader's machine goes last, and not as long as it leads.

use std::time::Duration;

use rollcall_rollout::next_leaders;
use tokio::time::sleep;

use crate::raft::Consensus;

/// After a hand-over that came to nothing: the successor wasn't as far as the log said.
const PAUSE: Duration = Duration::from_secs(1);

/// Watches for as long as this peer leads; once it doesn't any more, it is ended from outside.
pub(super) async fn run(consensus: Consensus) {
    let mut applied = consensus.applied();
    let mut view = applied.current();
    loop {
        let mut came_to_nothing = false;
        // Until the log knows that this peer leads, it speaks of its predecessor.
        let knows_me = view.state.leader() == Some(consensus.peer_id());
        for successor in next_leaders(&view.state).into_iter().filter(|_| knows_me) {
            tracing::info!(successor = successor.0, "the next step is on this peer's machine: leadership moves away");
            match consensus.transfer_leader(successor).await {
                Ok(()) => {
                    came_to_nothing = false;
                    break;
                }
                Err(error) => tracing::warn!(%error, successor = successor.0, "leadership can't move there now"),
            }
            came_to_nothing = true;
        }
        let pause = async {
            if came_to_nothing {
                sleep(PAUSE).await;
            } else {
                std::future::pending().await
            }
        };
        view = tokio::select! {
            changed = applied.changed() => match changed {
                Some(next) => next,
                None => return,
            },
            () = pause => applied.current(),
        };
    }
}
