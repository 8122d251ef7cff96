//! When a person, or whoever has started this program, wants it to end.

use tokio::signal::unix::{SignalKind, signal};

/// Completes with the first Ctrl-C or SIGTERM.
pub async fn interrupted() {
    let terminated = async {
        match signal(SignalKind::terminate()) {
            Ok(mut signal) => signal.recv().await,
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminated => {}
    }
}
