//! What the disk and the loopback need alone: below it nothing that is synced can be.

use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::client::PAYLOAD;
use crate::times::Times;

const ROUNDS: usize = 100;

/// Written before, so that a sync has to write no metadata.
const FILE_BYTES: usize = 1 << 20;

/// Medians.
#[derive(Debug, Clone, Copy)]
pub struct Floor {
    /// An append and its sync.
    pub sync: Duration,
    /// The same on two files at once: a leader and the follower that makes a majority with it, on one disk.
    pub two_syncs: Duration,
    /// There and back, over TCP on loopback.
    pub round_trip: Duration,
}

impl Floor {
    /// Measured on files in `folder`.
    pub fn measure(folder: &Path) -> Result<Self> {
        let sync = Times::new(syncs(folder, 1)?).percentile(50.0);
        let two_syncs = Times::new(syncs(folder, 2)?).percentile(50.0);
        let round_trip = Times::new(round_trips()?).percentile(50.0);
        Ok(Self { sync, two_syncs, round_trip })
    }

    /// One entry of the log: asked for, forwarded, replicated, and synced by a majority.
    pub fn commit(&self) -> Duration {
        self.two_syncs + self.round_trip * 3
    }
}

fn syncs(folder: &Path, files: usize) -> Result<Vec<Duration>> {
    let barrier = Arc::new(Barrier::new(files));
    let threads: Vec<_> = (0..files)
        .map(|number| {
            let (path, barrier) = (folder.join(format!("floor-{number}")), barrier.clone());
            std::thread::spawn(move || -> Result<Vec<(Instant, Instant)>> {
                let file = OpenOptions::new().create(true).truncate(true).write(true).open(path)?;
                file.write_all_at(&vec![0; FILE_BYTES], 0)?;
                file.sync_all()?;
                let mut spans = Vec::with_capacity(ROUNDS);
                for round in 0..ROUNDS {
                    barrier.wait();
                    let began = Instant::now();
                    file.write_all_at(&[1; PAYLOAD], (round * PAYLOAD) as u64)?;
                    file.sync_data()?;
                    spans.push((began, Instant::now()));
                }
                Ok(spans)
            })
        })
        .collect();
    let mut all = Vec::new();
    for thread in threads {
        all.push(thread.join().ok().context("a thread that syncs has panicked")??);
    }
    // From the first's beginning to the last's end.
    let round = |round: usize| {
        let began = all.iter().map(|spans| spans[round].0).min()?;
        Some(all.iter().map(|spans| spans[round].1).max()? - began)
    };
    (0..ROUNDS).map(|number| round(number).context("no file was synced")).collect()
}

fn round_trips() -> Result<Vec<Duration>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut asker = TcpStream::connect(listener.local_addr()?)?;
    let (mut answerer, _) = listener.accept()?;
    asker.set_nodelay(true)?;
    answerer.set_nodelay(true)?;
    let echo = std::thread::spawn(move || -> std::io::Result<()> {
        let mut message = [0; PAYLOAD];
        for _ in 0..ROUNDS {
            answerer.read_exact(&mut message)?;
            answerer.write_all(&message)?;
        }
        Ok(())
    });
    let mut times = Vec::with_capacity(ROUNDS);
    let mut message = [1; PAYLOAD];
    for _ in 0..ROUNDS {
        let began = Instant::now();
        asker.write_all(&message)?;
        asker.read_exact(&mut message)?;
        times.push(began.elapsed());
    }
    echo.join().ok().context("the thread that answers has panicked")??;
    Ok(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_floor_is_measured() {
        let folder = tempfile::tempdir().unwrap();
        let floor = Floor::measure(folder.path()).unwrap();
        assert!(floor.round_trip > Duration::ZERO && floor.commit() > floor.two_syncs, "{floor:?}");
    }
}
