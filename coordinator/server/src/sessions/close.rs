//! Closing sessions in the log whose streams are gone.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rollcall_ident::{Millis, NodeId, SessionEpoch};
use rollcall_rollout::{Command, Proposal};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::raft::Consensus;

/// BOUND: proposals under way at once, when a switch dies and thousands of streams with it.
const AT_ONCE: usize = 64;

/// A session stays open in the log while nobody leads; it is closed once somebody does.
const RETRY_PAUSE: Duration = Duration::from_millis(250);

/// Closes sessions in the log.
#[derive(Clone)]
pub(super) struct Closer {
    inner: Arc<Inner>,
}

struct Inner {
    consensus: Consensus,
    stopping: CancellationToken,
    /// BOUND: one for each session in the log.
    closing: Mutex<BTreeSet<(NodeId, SessionEpoch)>>,
    permits: Semaphore,
}

impl Closer {
    pub fn new(consensus: Consensus, stopping: CancellationToken) -> Self {
        let permits = Semaphore::new(AT_ONCE);
        Self { inner: Arc::new(Inner { consensus, stopping, closing: Mutex::default(), permits }) }
    }

    /// Closes a session that was heard of last at `last_heard`, unless that is under way already.
    pub fn close(&self, node: NodeId, epoch: SessionEpoch, last_heard: Instant) {
        let is_new = self.inner.closing.lock().unwrap_or_else(PoisonError::into_inner).insert((node, epoch));
        if is_new {
            let inner = self.inner.clone();
            tokio::spawn(async move {
                tokio::select! {
                    () = inner.close_in_log(node, epoch, last_heard) => {}
                    // Who leads looks after the sessions of a peer that has stopped.
                    () = inner.stopping.cancelled() => {}
                }
                inner.closing.lock().unwrap_or_else(PoisonError::into_inner).remove(&(node, epoch));
            });
        }
    }
}

impl Inner {
    async fn close_in_log(&self, node: NodeId, epoch: SessionEpoch, last_heard: Instant) {
        let Ok(_permit) = self.permits.acquire().await else { return };
        loop {
            let silent_for = Millis(u64::try_from(last_heard.elapsed().as_millis()).unwrap_or(u64::MAX));
            let proposal = Proposal::internal(Command::CloseSession { node, epoch, silent_for });
            match self.consensus.propose(proposal).await {
                // Refused: a later session has taken its place, or the node is gone. Either way it is closed.
                Ok(applied) => {
                    let patience = Instant::now() + Duration::from_secs(5);
                    // So that it isn't found open again in a state from before.
                    let _ = self.consensus.applied().wait_for(applied.revision, patience).await;
                    return;
                }
                Err(error) => tracing::debug!(%node, %epoch, %error, "a session isn't closed yet"),
            }
            sleep(RETRY_PAUSE).await;
        }
    }
}
