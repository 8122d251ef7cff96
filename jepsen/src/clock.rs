//! The one clock of a run: time since it began, monotonic, shared by witness, samplers and clients.

use std::time::{Duration, Instant};

/// Time since the run began. Copies go on from the same beginning.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    begun: Instant,
}

impl Clock {
    /// A clock that begins now.
    pub fn start() -> Self {
        Self { begun: Instant::now() }
    }

    /// Time since the beginning.
    pub fn now(&self) -> Duration {
        self.begun.elapsed()
    }
}
