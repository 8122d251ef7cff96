//! Which peer to try next, and when.

use std::time::Duration;

use rand::Rng;

/// The first pause: a peer that was restarted is back at once.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// BOUND: a cluster that is down is tried this often at the least.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The peers that are known, in the order in which they are tried.
#[derive(Debug)]
pub(super) struct Endpoints {
    list: Vec<String>,
    next: usize,
    pause: Duration,
    failure_count: usize,
}

impl Endpoints {
    /// Those of the config and those that were learnt. Begins anywhere, so that agents spread over the peers.
    pub(super) fn new(configured: &[String], learnt: &[String]) -> Self {
        let list = merged(configured, learnt);
        let next = rand::rng().random_range(0..list.len());
        Self { list, next, pause: FIRST_PAUSE, failure_count: 0 }
    }

    /// The one to try now.
    pub(super) fn current(&self) -> &str {
        &self.list[self.next]
    }

    /// It didn't work: another one, after this pause. Jittered by half, so that agents don't come back all at once.
    pub(super) fn another(&mut self) -> Duration {
        self.next = (self.next + 1) % self.list.len();
        self.failure_count += 1;
        let pause = self.pause.mul_f64(rand::rng().random_range(0.5..1.5));
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        pause
    }

    /// It worked: the next pause is short again.
    pub(super) fn worked(&mut self) {
        self.pause = FIRST_PAUSE;
        self.failure_count = 0;
    }

    /// How many peers there are.
    pub(super) fn count(&self) -> usize {
        self.list.len()
    }

    /// How often in a row none was reached.
    pub(super) fn failure_count(&self) -> usize {
        self.failure_count
    }

    /// A peer has told where all are. The one that is in use stays first.
    pub(super) fn learn(&mut self, configured: &[String], learnt: &[String]) {
        let current = self.current().to_owned();
        self.list = merged(configured, learnt);
        self.next = self.list.iter().position(|endpoint| *endpoint == current).unwrap_or(0);
    }
}

/// What was learnt goes first: it is newer than the config.
fn merged(configured: &[String], learnt: &[String]) -> Vec<String> {
    let mut list: Vec<String> = Vec::new();
    for endpoint in learnt.iter().chain(configured).filter(|endpoint| !endpoint.is_empty()) {
        if !list.contains(endpoint) {
            list.push(endpoint.clone());
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_endpoint_is_tried_and_pauses_grow() {
        let configured = ["a:1".to_owned(), "b:1".to_owned()];
        let mut endpoints = Endpoints::new(&configured, &["c:1".to_owned(), "a:1".to_owned()]);
        let mut tried = Vec::new();
        let mut last = Duration::ZERO;
        for _ in 0..12 {
            tried.push(endpoints.current().to_owned());
            last = endpoints.another();
        }
        tried.sort_unstable();
        tried.dedup();
        assert_eq!(tried, ["a:1", "b:1", "c:1"]);
        assert!(last >= LONGEST_PAUSE / 2 && last <= LONGEST_PAUSE * 3 / 2);
        endpoints.worked();
        assert!(endpoints.another() < FIRST_PAUSE * 2);
    }
}
