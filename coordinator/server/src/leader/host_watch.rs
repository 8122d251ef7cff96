//! Looks after sessions whose host is gone.

use std::time::Duration;

use rollcall_ident::{Millis, PeerId, Revision, SessionEpoch};
use rollcall_rollout::Command;
use tokio::time::sleep;

use super::propose;
use crate::raft::Consensus;

/// BOUND: silence after which a peer's sessions count as gone; as long as an agent may be silent to its host. A new
/// leader waits for as long before it looks, so that every session gets its full time.
const SILENCE: Duration = Duration::from_secs(5);

/// How often the peers are looked at. Nothing is written by looking.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Watches the hosts for as long as this peer leads.
pub(super) async fn run(consensus: Consensus) {
    sleep(SILENCE).await;
    loop {
        let view = consensus.state();
        for host in view.state.session_hosts() {
            let Some(silent_for) = silent_for(&consensus, host) else { continue };
            tracing::warn!(peer = host.0, silent_ms = silent_for.0, "a peer is gone; its sessions are closed");
            let Revision(revision) = view.revision;
            let command = Command::OrphanSessions { host, silent_for, up_to: SessionEpoch(revision) };
            propose(&consensus, command).await;
        }
        sleep(LOOK_EVERY).await;
    }
}

/// For how long a host has been silent, if that is too long; a peer that was removed is silent for good.
fn silent_for(consensus: &Consensus, host: PeerId) -> Option<Millis> {
    if host == consensus.peer_id() {
        return None;
    }
    let limit = u64::try_from(SILENCE.as_millis()).unwrap_or(u64::MAX);
    let members = consensus.members_here();
    let member = members.iter().find(|member| member.peer == host);
    // Never heard of since this peer leads, which is longer than the limit; or no member at all.
    let silent_ms = member.and_then(|member| member.last_heard_ms).unwrap_or(limit + 1);
    (silent_ms > limit).then_some(Millis(silent_ms))
}
