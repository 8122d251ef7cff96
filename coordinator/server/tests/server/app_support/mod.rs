//! Whole peers in this process, on ephemeral loopback ports and real storage, and agents that do what they are told.
#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, reason = "test code")]

pub mod agent;
pub mod cluster;
pub mod follow;

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// BOUND: how long a condition may take to come about, on a machine that is busy with other tests.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until `check` says something, and fails with `what` if it doesn't.
pub async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, mut check: impl FnMut() -> F) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = check().await {
            return found;
        }
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        sleep(Duration::from_millis(20)).await;
    }
}

/// A moment, so long from now by the wall clock.
pub fn in_time(time: Duration) -> prost_types::Timestamp {
    prost_types::Timestamp::from(std::time::SystemTime::now() + time)
}

/// What a refusal must be: its code and its reason.
pub fn refused<T: std::fmt::Debug>(answer: Result<T, tonic::Status>, code: tonic::Code, why: &str) {
    let status = answer.expect_err(why);
    assert_eq!((status.code(), reason(&status).as_str()), (code, why), "{status:?}");
}

/// The reason of a status.
pub fn reason(status: &tonic::Status) -> String {
    use tonic_types::StatusExt as _;
    status.get_details_error_info().map(|info| info.reason).unwrap_or_default()
}
