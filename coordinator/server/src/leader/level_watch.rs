//! Raises the feature level once every peer knows the next one: the end of an upgrade of Rollcall itself.

use rollcall_rollout::{Command, first_of_level, next_level};

use super::propose;
use crate::raft::Consensus;

/// Looks whenever something was applied: what peers know of levels stands in the log.
pub(super) async fn run(consensus: Consensus) {
    let mut applied = consensus.applied();
    let mut view = applied.current();
    loop {
        if let Some(level) = next_level(&view.state) {
            tracing::info!(level, "every peer knows the next feature level");
            let raised = propose(&consensus, Command::RaiseFeatureLevel { level }).await;
            if let Some(command) = raised.and_then(|_| first_of_level(level)) {
                propose(&consensus, command).await;
            }
        }
        match applied.changed().await {
            Some(next) => view = next,
            None => return,
        }
    }
}
