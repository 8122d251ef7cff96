//! Fills a data directory with many applied entries, as a cluster of one peer would have them. For measurements; never
//! shipped.
//!
//! `fill DIR HOST:PORT ENTRIES` makes a cluster of a peer that is to be reached at the address, and ends it in order.

use anyhow::Context as _;
use futures::StreamExt as _;
use rollcall_coordinator::raft::{Observers, Origin, Peer, PeerConfig, Tuning};
use rollcall_rollout::{Actor, Command, Proposal};
use tokio::time::{Duration, Instant};

/// Writes on their way at once: they share syncs.
const AT_ONCE: usize = 2_000;

/// BOUND: channels that are made and taken away again, so that the state stays as large as a cluster's is.
const CHANNELS: u64 = 1_000;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [dir, address, entries] = &arguments[..] else { anyhow::bail!("usage: fill DIR HOST:PORT ENTRIES") };
    let entries: u64 = entries.parse().context("ENTRIES is no number")?;
    let config = PeerConfig {
        data_dir: dir.into(),
        address: address.clone(),
        tuning: Tuning::default(),
        observers: Observers::default(),
    };
    let peer = Peer::start(config).await?;
    peer.init_cluster(&[], Origin::default()).await?;
    let consensus = peer.consensus().context("the peer runs")?;
    // In rounds: a channel is made before it is taken away.
    let mut left = entries;
    while left > 0 {
        for make in [true, false] {
            let count = left.min(CHANNELS);
            let writes = futures::stream::iter(0..count).map(|number| {
                let proposal = proposal(number, make);
                let consensus = consensus.clone();
                async move { consensus.propose_until(proposal, Instant::now() + Duration::from_secs(60)).await }
            });
            let mut writes = writes.buffer_unordered(AT_ONCE);
            while let Some(written) = writes.next().await {
                let outcome = written?.outcome;
                outcome.map_err(|rejection| anyhow::anyhow!("refused: {rejection}"))?;
            }
            left -= count;
        }
    }
    let revision = consensus.state().revision.0;
    println!("{}", serde_json::json!({ "revision": revision }));
    drop(consensus);
    peer.shutdown().await;
    Ok(())
}

fn proposal(number: u64, make: bool) -> Proposal {
    let channel = format!("channel-{number}").parse().expect("a well-formed name");
    let command = if make { Command::CreateChannel { channel } } else { Command::DeleteChannel { channel } };
    Proposal {
        actor: Actor("operator@bastion".to_owned()),
        reason: Some("as often as it takes".to_owned()),
        ..Proposal::internal(command)
    }
}
