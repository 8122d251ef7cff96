//! The load of a run: several writers for each shard.

use anyhow::Result;
use tokio::task::JoinHandle;

use crate::clock::Clock;
use crate::redis::ledger::Ledger;
use crate::redis::topology::Topology;
use crate::redis::writer::{SHARD_COUNT, Writer};

/// Two per shard: one that waits does not hide what the other sees.
const WRITERS_PER_SHARD: usize = 2;

/// Running writers. Dropping it stops them.
#[derive(Debug)]
pub struct Load {
    writers: Vec<JoinHandle<()>>,
}

impl Load {
    /// Starts to write.
    pub async fn start(topology: &Topology, ledger: &Ledger, clock: Clock) -> Result<Self> {
        topology.refresh().await?;
        let writers = (0..SHARD_COUNT * WRITERS_PER_SHARD)
            .map(|number| {
                let (name, shard) = (format!("w{number}"), number % SHARD_COUNT);
                tokio::spawn(Writer::new(name, shard, topology.clone(), ledger.clone(), clock).run())
            })
            .collect();
        Ok(Self { writers })
    }

    /// Stops to write; returns once no writer is left.
    pub async fn stop(mut self) {
        for writer in self.writers.drain(..) {
            writer.abort();
            // It was aborted: that is its only way to end.
            let _ = writer.await;
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.writers.iter().for_each(JoinHandle::abort);
    }
}
