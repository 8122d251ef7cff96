//! Somebody who writes all the time, by the operator's command: one write after the other, each through all endpoints.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rollcall_jepsen::binaries::Binaries;

use super::{rollcall, stderr};

/// One write, from its beginning to its answer.
#[derive(Debug, Clone)]
pub struct Write {
    /// The channel that it made.
    pub name: String,
    pub began: Instant,
    pub ended: Instant,
    /// Why the command failed, if it did.
    pub failure: Option<String>,
}

/// Writers at work.
pub struct Writers {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Vec<Write>>>,
}

impl Writers {
    /// As many writers as endpoints: each begins with another one.
    pub fn start(programs: &Binaries, endpoints: &[String]) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let writer = |number: usize| {
            let mut order = endpoints.to_vec();
            order.rotate_left(number);
            let (programs, order, stop) = (programs.clone(), order.join(","), stop.clone());
            std::thread::spawn(move || write_until(&stop, &programs, &order, number))
        };
        let threads = (0..endpoints.len()).map(writer).collect();
        Self { stop, threads }
    }

    /// Ends them after the writes under way; all that they did.
    pub fn stop(self) -> Vec<Write> {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    }
}

fn write_until(stop: &AtomicBool, programs: &Binaries, endpoints: &str, writer: usize) -> Vec<Write> {
    let mut writes = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let name = format!("w{writer}-{}", writes.len());
        let began = Instant::now();
        let output = rollcall(programs, endpoints, &["--timeout", "20s", "channel", "create", &name]);
        let failure = (!output.status.success()).then(|| stderr(&output));
        writes.push(Write { name, began, ended: Instant::now(), failure });
    }
    writes
}

/// The longest time in which no write was answered.
pub fn longest_gap(writes: &[Write]) -> Duration {
    let mut ends: Vec<_> = writes.iter().map(|write| write.ended).collect();
    ends.sort();
    ends.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default()
}

/// Not one failed, and not one is missing among `found`.
pub fn assert_none_failed_or_lost(writes: &[Write], found: &[String]) {
    let failed: Vec<_> = writes.iter().filter_map(|write| Some((&write.name, write.failure.as_ref()?))).collect();
    assert!(failed.is_empty(), "{failed:?}");
    let lost: Vec<_> = writes.iter().map(|write| &write.name).filter(|name| !found.contains(name)).collect();
    assert!(lost.is_empty(), "{lost:?} of {}", writes.len());
    assert!(!writes.is_empty());
}
