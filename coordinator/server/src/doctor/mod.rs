//! `rollcall doctor`, the server's half: looks at the state, asks the peers, and brings together what somebody should
//! look at.
//!
//! # Invariants
//! - It answers on any peer that belongs to a cluster, whatever is broken elsewhere: what can't be asked is a finding.
//! - It changes nothing.

mod peers;

use std::collections::BTreeMap;

use rollcall_ident::Revision;
use rollcall_rollout::{Finding, STATE_CHECKS, Stamp, State, diagnose};
use tokio::time::Instant;

use crate::raft::{Consensus, View};
use crate::services::ClusterClock;
use crate::world::{off_the_runtime, wall_clock};
use peers::Evidence;

/// BOUND: for a majority to confirm the state; without it what this peer has is looked at.
const PATIENCE: std::time::Duration = std::time::Duration::from_millis(1_500);

/// What was found.
#[derive(Debug)]
pub struct Diagnosis {
    /// Of the state that was looked at.
    pub revision: Revision,
    /// The worst first.
    pub findings: Vec<Finding>,
    /// How many checks were made.
    pub checks: usize,
    /// How many peers were asked.
    pub peers_asked: usize,
}

/// Looks at everything. `stale`: doesn't ask for a majority's word.
///
/// # Errors
/// A defect: looking at the state panicked.
pub async fn examine(
    consensus: &Consensus,
    clock: &ClusterClock,
    stale: bool,
) -> Result<Diagnosis, tokio::task::JoinError> {
    let (read, members) = tokio::join!(confirmed(consensus, stale), consensus.members());
    let (view, is_confirmed) = read.map_or_else(|| (consensus.state(), stale), |view| (view, true));
    let peers = consensus.examine(&members).await;
    let peers_asked = peers.len();
    let leader = consensus.leadership().borrow().map(|leadership| leadership.peer);
    let now = Stamp { cluster_time: clock.now(consensus, &view).cluster_time, wall_time: wall_clock() };
    let (revision, me) = (view.revision, consensus.peer_id());
    // It counts over all members: not on a thread that serves others.
    let looked = off_the_runtime(move || {
        let sessions = sessions_by_host(&view.state, &members);
        let evidence = Evidence { me, leader, is_confirmed, revision, members, peers, sessions };
        let mut findings = evidence.findings();
        findings.extend(diagnose(&view.state, now));
        findings.sort_by_key(|finding| finding.severity);
        findings
    });
    Ok(Diagnosis { revision, findings: looked.await?, checks: STATE_CHECKS + peers::CHECKS.len(), peers_asked })
}

/// The state with a majority's word for it, if that is wanted and there is one.
async fn confirmed(consensus: &Consensus, stale: bool) -> Option<View> {
    if stale {
        return None;
    }
    consensus.read(Instant::now() + PATIENCE).await.ok()
}

/// How many sessions the log knows of on each peer.
fn sessions_by_host(state: &State, members: &[crate::raft::MemberStatus]) -> BTreeMap<rollcall_ident::PeerId, usize> {
    members.iter().map(|member| (member.peer, state.sessions_of(member.peer).count())).collect()
}
