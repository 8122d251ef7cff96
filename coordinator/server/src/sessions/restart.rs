//! A peer begins to host: sessions that it hosted before its restart are dead, and the log is told so first.

use std::time::Duration;

use rollcall_ident::{Millis, Revision, SessionEpoch};
use rollcall_rollout::{Command, Proposal};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::hub::Hub;
use crate::raft::Consensus;

/// BOUND: one try.
const TRY: Duration = Duration::from_secs(5);

/// Between two tries, unless somebody begins to lead.
const PAUSE: Duration = Duration::from_secs(1);

/// Waits until the peer runs, puts its earlier sessions in order, and publishes the hub.
pub(super) async fn host_once_running(
    mut running: watch::Receiver<Option<Consensus>>,
    publish: watch::Sender<Option<Hub>>,
    stopping: CancellationToken,
) {
    let begin = async {
        let running = running.wait_for(Option::is_some).await.ok()?.clone();
        let consensus = running?;
        orphan_earlier_sessions(&consensus).await;
        Some(consensus)
    };
    let consensus = tokio::select! {
        consensus = begin => consensus,
        () = stopping.cancelled() => None,
    };
    if let Some(consensus) = consensus {
        publish.send_replace(Some(Hub::start(consensus, &stopping)));
        // Whoever waits for the hub waits for as long as the peer runs.
        stopping.cancelled().await;
    }
}

/// ORDER: no session is opened before this is through, so that none of the new ones is among the orphans.
async fn orphan_earlier_sessions(consensus: &Consensus) {
    let mut leadership = consensus.leadership();
    loop {
        leadership.mark_unchanged();
        match try_to_orphan(consensus).await {
            Ok(()) => return,
            Err(error) => tracing::debug!(error, "sessions from before the restart aren't put in order yet"),
        }
        tokio::select! {
            () = sleep(PAUSE) => {}
            changed = leadership.changed() => if changed.is_err() {
                // This peer has stopped for good, and hosts nobody any more.
                std::future::pending::<()>().await;
            },
        }
    }
}

async fn try_to_orphan(consensus: &Consensus) -> Result<(), String> {
    let view = consensus.read(Instant::now() + TRY).await.map_err(|error| error.to_string())?;
    let me = consensus.peer_id();
    if view.state.sessions_of(me).next().is_none() {
        return Ok(());
    }
    let Revision(revision) = view.revision;
    // How long they have been silent isn't known; counting from now makes their deadlines late, never early.
    let command = Command::OrphanSessions { host: me, silent_for: Millis(0), up_to: SessionEpoch(revision) };
    consensus.propose(Proposal::internal(command)).await.map(drop).map_err(|error| error.to_string())
}
