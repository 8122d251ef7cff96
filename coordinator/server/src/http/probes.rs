//! Probes: whether the process lives, and whether it serves.

use axum::extract::State;
use axum::http::StatusCode;

use super::Page;

/// The process answers: restarting it helps nobody.
pub async fn healthz() -> &'static str {
    "ok\n"
}

/// It belongs to a cluster, knows the leader, and has applied what it knows to be committed.
pub async fn readyz(State(page): State<Page>) -> (StatusCode, String) {
    let not_ready = |why: String| (StatusCode::SERVICE_UNAVAILABLE, why + "\n");
    let Some(consensus) = page.peer.consensus() else {
        return not_ready("this peer belongs to no cluster yet".to_owned());
    };
    if consensus.leadership().borrow().is_none() {
        return not_ready("no leader is known".to_owned());
    }
    let status = consensus.status();
    if status.applied < status.committed {
        return not_ready(format!("applied up to {}, committed up to {}", status.applied, status.committed));
    }
    (StatusCode::OK, "ok\n".to_owned())
}
