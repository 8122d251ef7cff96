//! Fills a data directory with many applied entries, as a cluster of one peer would have them. For measurements; never
//! shipped.
//!
//! `fill DIR HOST:PORT ENTRIES NODES` makes a cluster of a peer that is to be reached at the address, has it apply the
//! entries, joins so many nodes to a group, and ends it in order.

use anyhow::Context as _;
use futures::StreamExt as _;
use rollcall_coordinator::raft::{Consensus, Observers, Origin, Peer, PeerConfig, Tuning};
use rollcall_ident::{BootId, Fence, Millis, NodeId, PeerId, ReleaseIdent};
use rollcall_rollout::{Actor, Command, GroupPatch, Health, Hello, Instance, PolicyPatch, Proposal, ServiceStatus};
use tokio::time::{Duration, Instant};

/// Writes on their way at once: they share syncs.
const AT_ONCE: usize = 2_000;

/// BOUND: channels that are made and taken away again, so that the state stays as large as a cluster's is.
const CHANNELS: u64 = 1_000;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [dir, address, entries, nodes] = &arguments[..] else {
        anyhow::bail!("usage: fill DIR HOST:PORT ENTRIES NODES")
    };
    let entries: u64 = entries.parse().context("ENTRIES is no number")?;
    let nodes: u32 = nodes.parse().context("NODES is no number")?;
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
            write_all(&consensus, (0..count).map(|number| channel(number, make))).await?;
            left -= count;
        }
    }
    if nodes > 0 {
        write_all(&consensus, [group()]).await?;
        write_all(&consensus, (0..nodes).map(|number| hello(consensus.peer_id(), number))).await?;
    }
    let revision = consensus.state().revision.0;
    println!("{}", serde_json::json!({ "revision": revision }));
    drop(consensus);
    peer.shutdown().await;
    Ok(())
}

async fn write_all(consensus: &Consensus, commands: impl IntoIterator<Item = Command>) -> anyhow::Result<()> {
    let writes = futures::stream::iter(commands).map(|command| {
        let proposal = Proposal {
            actor: Actor("operator@bastion".to_owned()),
            reason: Some("as often as it takes".to_owned()),
            ..Proposal::internal(command)
        };
        async move { consensus.propose_until(proposal, Instant::now() + Duration::from_secs(60)).await }
    });
    let mut writes = writes.buffer_unordered(AT_ONCE);
    while let Some(written) = writes.next().await {
        let outcome = written?.outcome;
        outcome.map_err(|rejection| anyhow::anyhow!("refused: {rejection}"))?;
    }
    Ok(())
}

fn channel(number: u64, make: bool) -> Command {
    let channel = format!("channel-{number}").parse().expect("a well-formed name");
    if make { Command::CreateChannel { channel } } else { Command::DeleteChannel { channel } }
}

/// Its nodes aren't looked for: nobody plays them.
fn group() -> Command {
    let day = Millis::from_secs(24 * 60 * 60);
    let policy = PolicyPatch { stale_after: Some(day), lost_after: Some(Millis(2 * day.0)), ..PolicyPatch::default() };
    let patch = GroupPatch {
        name: "redis.default".parse().expect("a well-formed name"),
        package: Some("acme/redis".parse().expect("a well-formed name")),
        channel: None,
        update_condition: None,
        policy,
        config: None,
        windows: None,
    };
    Command::ApplyGroup { patch }
}

fn hello(host: PeerId, number: u32) -> Command {
    let mut id = [0; 16];
    id[12..].copy_from_slice(&number.to_be_bytes());
    let boot_id = BootId([1; 16]);
    let release: ReleaseIdent = "acme/redis/1.0.0/20260101000000".parse().expect("a well-formed ident");
    let status = ServiceStatus {
        group: "redis.default".parse().expect("a well-formed name"),
        release: Some(release.clone()),
        instance: Some(Instance { pid: number + 2, start_time: 1, boot_id, release }),
        health: Health::Healthy,
        health_detail: String::new(),
        primary: false,
        priority: None,
    };
    let hello = Hello {
        node: NodeId(id),
        name: format!("redis-{number:06}").parse().expect("a well-formed name"),
        identity_locus: format!("disk-{number}"),
        machine_id: format!("machine-{number}"),
        hosts_peer: None,
        boot_id,
        agent_version: env!("CARGO_PKG_VERSION").to_owned(),
        address: "10.0.0.1".to_owned(),
        labels: [].into(),
        services: vec![status],
        highest_fence: Fence(0),
    };
    Command::OpenSession { host, hello }
}
