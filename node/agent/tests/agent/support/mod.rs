//! A coordinator, a machine with an agent, and releases.

mod coordinator;
mod machine;
mod package;

use std::future::Future;
use std::time::Duration;

pub use coordinator::{Coordinator, GROUP, Said, name, step};
pub use machine::{Agent, Machine};
pub use package::{Package, ident};

/// Nothing that is waited for takes longer, on a busy machine too.
pub const DEADLINE: Duration = Duration::from_secs(20);

/// Waits until `probe` gives something; what it watches can't be waited for otherwise (a file, a process).
pub async fn eventually<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let waiting = async {
        loop {
            if let Some(found) = probe() {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    within(what, waiting).await
}

/// Fails with `what` when the deadline passes.
pub async fn within<T>(what: &str, waiting: impl Future<Output = T>) -> T {
    match tokio::time::timeout(DEADLINE, waiting).await {
        Ok(found) => found,
        Err(_) => panic!("{what} has not come within {DEADLINE:?}"),
    }
}
