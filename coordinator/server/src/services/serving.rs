//! Whether this peer serves: a majority answers it through the leader, and it has applied what they know.
//!
//! Knowing a leader isn't enough: a follower goes on naming one that died with the majority, since nobody can be elected
//! in its place.

use std::time::Duration;

use tokio::time::Instant;

use crate::raft::Consensus;

/// BOUND: for a majority to answer; well above a slow disk's sync, below what a probe waits.
const PATIENCE: Duration = Duration::from_millis(1_500);

/// Whether a linearizable read on this peer is answered now.
pub async fn serves(consensus: &Consensus) -> bool {
    consensus.leadership().borrow().is_some() && consensus.read(Instant::now() + PATIENCE).await.is_ok()
}
