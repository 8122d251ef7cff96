//! Who leads: watches openraft, starts and stops cluster time, and tells the rest of the coordinator.
//!
//! A peer that was just elected isn't shown as leading until it has applied the first entry of its own term: from then on
//! its state holds everything that its predecessors committed.

use std::sync::Arc;

use openraft::ServerState;
use openraft::async_runtime::watch::WatchReceiver as _;
use openraft::metrics::RaftServerMetrics;
use rollcall_ident::PeerId;
use tokio::sync::watch;
use tokio::time::Instant;

use super::api::Leadership;
use super::clock::ClusterClock;
use super::consensus::Raft;
use crate::storage::AppliedState;
use crate::storage::types::TypeConfig;
use crate::world::monotonic;

/// Watches until openraft has stopped.
pub(super) async fn watch_leadership(
    raft: Raft,
    mut applied: watch::Receiver<AppliedState>,
    clock: Arc<ClusterClock>,
    publish: watch::Sender<Option<Leadership>>,
) {
    let mut metrics = raft.server_metrics();
    loop {
        // Cloned at once: openraft can't publish while it is borrowed.
        let now = metrics.borrow_and_update().clone();
        let awaits_first_entry = update(&now, &applied.borrow_and_update().clone(), &clock, &publish);
        let changed = async {
            if awaits_first_entry {
                tokio::select! {
                    changed = metrics.changed() => changed.is_ok(),
                    changed = applied.changed() => changed.is_ok(),
                }
            } else {
                metrics.changed().await.is_ok()
            }
        };
        if !changed.await {
            clock.stop();
            publish.send_replace(None);
            return;
        }
    }
}

/// Publishes what is so now. Says whether this peer is elected but not there yet.
fn update(
    metrics: &RaftServerMetrics<TypeConfig>,
    applied: &AppliedState,
    clock: &ClusterClock,
    publish: &watch::Sender<Option<Leadership>>,
) -> bool {
    let term = metrics.vote.leader_id.term;
    let elected = metrics.state == ServerState::Leader && metrics.current_leader == Some(metrics.id);
    let first_entry_applied = applied.last_applied.is_some_and(|last| last.leader_id.term == term);
    let next = match metrics.current_leader {
        Some(leader) if leader != metrics.id => Some((PeerId(leader), false)),
        Some(leader) if elected && first_entry_applied => Some((PeerId(leader), true)),
        _ => None,
    };
    let before = *publish.borrow();
    if before.map(|before| (before.peer, before.is_me, before.term)) != next.map(|(peer, is_me)| (peer, is_me, term)) {
        let since = Instant::now();
        if next.is_some_and(|(_, is_me)| is_me) {
            clock.start(applied.state.clock(), monotonic());
        } else {
            clock.stop();
        }
        let leadership = next.map(|(peer, is_me)| Leadership { peer, is_me, term, since });
        match leadership {
            Some(Leadership { peer, is_me, term, .. }) => {
                tracing::info!(peer = peer.0, is_me, term, "a peer leads");
            }
            None => tracing::info!("no leader is known"),
        }
        publish.send_replace(leadership);
    }
    elected && !first_entry_applied
}
