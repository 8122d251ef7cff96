//! Cluster time between two answers.

use std::time::Instant;

/// The cluster's clock as it was heard, and how long ago that was. Stands still while nothing is heard of the cluster:
/// cluster time may stand still too.
#[derive(Debug, Clone, Copy)]
pub struct LiveClock {
    heard_ms: u64,
    heard_at: Instant,
    stopped: bool,
}

impl LiveClock {
    pub fn new(heard_ms: u64) -> Self {
        Self { heard_ms, heard_at: Instant::now(), stopped: false }
    }

    /// Milliseconds since the cluster's clock was heard.
    pub fn since_heard_ms(&self) -> u64 {
        if self.stopped { 0 } else { u64::try_from(self.heard_at.elapsed().as_millis()).unwrap_or(u64::MAX) }
    }

    /// The cluster's clock now.
    pub fn now_ms(&self) -> u64 {
        self.heard_ms.saturating_add(self.since_heard_ms())
    }

    /// For how long something lasts.
    pub fn lasts_ms(&self, since_ms: u64) -> u64 {
        self.now_ms().saturating_sub(since_ms)
    }

    /// Stands still from now on.
    pub fn stop(&mut self) {
        self.heard_ms = self.now_ms();
        self.stopped = true;
    }
}
