//! Reads every key at the end, from whoever serves it then.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;

use crate::redis::ledger::Write;
use crate::redis::link::Link;
use crate::redis::slots::slot_of;
use crate::redis::topology::Topology;

/// BOUND: keys in one pipeline.
const BATCH: usize = 500;

/// BOUND: rounds for keys whose primary did not answer; together a few seconds.
const ROUNDS: usize = 10;

/// What is found under each key; a key that could not be read is missing in the answer.
pub async fn read_back(topology: &Topology, writes: &[Write]) -> Result<BTreeMap<String, Option<String>>> {
    let mut found = BTreeMap::new();
    for round in 0..ROUNDS {
        topology.refresh().await?;
        let mut open: BTreeMap<Option<SocketAddr>, Vec<&str>> = BTreeMap::new();
        for write in writes.iter().filter(|write| !found.contains_key(&write.key)) {
            open.entry(topology.primary_of(slot_of(&write.key))).or_default().push(&write.key);
        }
        if open.is_empty() {
            break;
        }
        if round > 0 {
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        for (primary, keys) in open {
            let Some(primary) = primary else { continue };
            let Ok(mut link) = Link::connect(primary).await else { continue };
            for batch in keys.chunks(BATCH) {
                // Whoever answers with a redirection is asked again in the next round.
                let Ok(values) = link.get_all(batch).await else { break };
                found.extend(batch.iter().map(|key| (*key).to_owned()).zip(values));
            }
        }
    }
    Ok(found)
}
