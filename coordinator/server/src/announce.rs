//! A peer says of itself what the log should know: where it runs, and what.

use std::time::Duration;

use rollcall_rollout::{Command, PeerFacts, Proposal};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::raft::Consensus;

/// BOUND: for one try. There may be no leader for long; then it tries again.
const TRY: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_secs(1);

/// Says it once the log doesn't, and again whenever the log doesn't any more: until `stopping`.
pub async fn announce(consensus: Consensus, facts: PeerFacts, stopping: CancellationToken) {
    stopping.run_until_cancelled(said(&consensus, &facts)).await;
}

async fn said(consensus: &Consensus, facts: &PeerFacts) {
    let me = consensus.peer_id();
    let mut applied = consensus.applied();
    let mut view = applied.current();
    loop {
        // Until it has applied its own registration, and once it is removed, there is nobody to speak of.
        let is_missing = view.state.peers().get(&me).is_some_and(|peer| peer.facts.as_ref() != Some(facts));
        if is_missing {
            let command = Command::DescribePeer { peer: me, facts: facts.clone() };
            match consensus.propose_until(Proposal::internal(command), Instant::now() + TRY).await {
                Ok(outcome) => {
                    let Some(seen) = applied.wait_for(outcome.revision, Instant::now() + TRY).await else { continue };
                    view = seen;
                    continue;
                }
                Err(error) => tracing::debug!(%error, "the log doesn't know of this peer's machine yet"),
            }
            sleep(PAUSE).await;
            view = applied.current();
            continue;
        }
        match applied.changed().await {
            Some(next) => view = next,
            None => return,
        }
    }
}
