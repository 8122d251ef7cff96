//! Probes: whether the process lives, and whether it serves.

use axum::extract::State;
use axum::http::StatusCode;

use super::Page;
use crate::services::serves;

/// The process answers: restarting it helps nobody.
pub async fn healthz() -> &'static str {
    "ok\n"
}

/// It belongs to a cluster whose leader answers, and has applied what that one has committed.
pub async fn readyz(State(page): State<Page>) -> (StatusCode, String) {
    let not_ready = |why: &str| (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n"));
    let Some(consensus) = page.peer.consensus() else {
        return not_ready("this peer belongs to no cluster yet");
    };
    if !serves(&consensus).await {
        return not_ready("no leader answers with a majority behind it, or this peer is behind");
    }
    (StatusCode::OK, "ok\n".to_owned())
}
