//! Doubling delays.

use std::time::Duration;

/// Delays that double from a first one up to a limit.
#[derive(Debug, Clone)]
pub struct Backoff {
    first: Duration,
    limit: Duration,
    next: Duration,
}

impl Backoff {
    /// From `first`, doubling, at most `limit`.
    #[must_use]
    pub fn new(first: Duration, limit: Duration) -> Self {
        Self { first, limit, next: first.min(limit) }
    }

    /// For hooks that say "not yet" and for restarts: 250 ms up to 30 s.
    #[must_use]
    pub fn standard() -> Self {
        Self::new(Duration::from_millis(250), Duration::from_secs(30))
    }

    /// The delay to wait now; the next one is twice as long.
    pub fn next_delay(&mut self) -> Duration {
        let delay = self.next;
        self.next = (delay * 2).min(self.limit);
        delay
    }

    /// Begins anew.
    pub fn reset(&mut self) {
        self.next = self.first.min(self.limit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_limit() {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(5));
        let delays: Vec<u64> = (0..5).map(|_| backoff.next_delay().as_secs()).collect();
        assert_eq!(delays, [1, 2, 4, 5, 5]);
        backoff.reset();
        assert_eq!(backoff.next_delay().as_secs(), 1);
    }
}
