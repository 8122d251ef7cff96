//! Where a step's time goes. Kept in memory: after a restart of the agent it begins anew.

use std::time::{Duration, Instant};

use rollcall_steps::Timings;

/// The stopwatch of one step.
#[derive(Debug)]
pub(super) struct StepClock {
    opened: Instant,
    hooks: Duration,
    service: Duration,
    started: Option<Instant>,
    good_since: Option<Instant>,
    finished: Option<Instant>,
}

impl StepClock {
    pub(super) fn start() -> Self {
        Self {
            opened: Instant::now(),
            hooks: Duration::ZERO,
            service: Duration::ZERO,
            started: None,
            good_since: None,
            finished: None,
        }
    }

    pub(super) fn add_hook(&mut self, took: Duration) {
        self.hooks += took;
    }

    pub(super) fn add_stop(&mut self, took: Duration) {
        self.service += took;
    }

    pub(super) fn note_started(&mut self) {
        self.started.get_or_insert_with(Instant::now);
    }

    /// The first good sample: from here on it is the soak that takes time.
    pub(super) fn note_good(&mut self) {
        if self.good_since.is_none() {
            let now = Instant::now();
            self.service += self.started.map_or(Duration::ZERO, |started| now - started);
            self.good_since = Some(now);
        }
    }

    /// The order to finish.
    pub(super) fn note_finish(&mut self) {
        self.finished.get_or_insert_with(Instant::now);
    }

    pub(super) fn timings(&self) -> Timings {
        let soak = self.good_since.map_or(Duration::ZERO, |since| {
            self.finished.unwrap_or_else(Instant::now).saturating_duration_since(since)
        });
        Timings {
            total_us: micros(self.opened.elapsed()),
            hooks_us: micros(self.hooks),
            service_us: micros(self.service),
            soak_us: micros(soak),
        }
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
