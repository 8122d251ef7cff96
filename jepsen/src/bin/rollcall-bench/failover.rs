//! The leader is killed again and again: how long until a write through another peer is acknowledged?

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rollcall_jepsen::agent::AgentConfig;
use rollcall_jepsen::api::Api;
use rollcall_jepsen::binaries::Binaries;
use rollcall_jepsen::cluster::Cluster;
use rollcall_jepsen::run_dir::RunDir;
use rollcall_proto::v1;
use rollcall_proto::v1::channel_service_client::ChannelServiceClient;
use rollcall_proto::v1::event_service_client::EventServiceClient;
use rollcall_proto::v1::node_service_client::NodeServiceClient;
use tonic::transport::{Channel, Endpoint};

use crate::args::FailoverOptions;
use crate::measure::{Measure, percentile, spread};

const PEERS: usize = 3;

/// Their sessions must outlive every leader.
const AGENTS: usize = 3;

const GOAL: Duration = Duration::from_millis(1_500);

/// BOUND: for a write; what takes longer counts as that long.
const LONGEST: Duration = Duration::from_secs(30);

/// BOUND: for the cluster to be whole again.
const WHOLE_WITHIN: Duration = Duration::from_secs(60);

const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Measures it.
pub async fn measure(options: &FailoverOptions) -> Result<Vec<Measure>> {
    let run = RunDir::create("rollcall-bench-")?;
    let mut cluster = Cluster::create(&run, Binaries::find()?, PEERS)?;
    cluster.start_peers().await?;
    let endpoints = cluster.endpoints();
    let api = Api::new(&endpoints)?;
    api.init_cluster(&endpoints[1..]).await?;
    for number in 1..=AGENTS {
        let config =
            AgentConfig { name: format!("node-{number}"), endpoints: endpoints.clone(), ..AgentConfig::default() };
        cluster.add_agent(&run, config)?;
    }
    cluster.start_agents()?;
    let mut times = Vec::new();
    for kill in 0..options.count() {
        let leader = await_whole(&mut cluster, &api).await?;
        let others: Vec<_> = endpoints.iter().filter(|endpoint| **endpoint != leader).cloned().collect();
        // Connected before: what is measured is the cluster, not TCP.
        let channel = connect(&others[kill % others.len()]).await?;
        let killed_at = Instant::now();
        cluster.peer_at(&leader)?.kill()?;
        write(channel, &format!("after-kill-{kill}")).await?;
        times.push(killed_at.elapsed());
        cluster.peer_at(&leader)?.start()?;
        if kill % 10 == 9 {
            eprintln!("{} of {} kills", kill + 1, options.count());
        }
    }
    await_whole(&mut cluster, &api).await?;
    let departed = count_departed(&endpoints[0]).await?;
    times.sort();
    let p99 = percentile(&times, 99);
    Ok(vec![
        Measure::promised(
            "leader killed: first write through another peer",
            spread(&times),
            "p99 < 1500 ms",
            p99 < GOAL,
        ),
        Measure::promised("nodes declared departed meanwhile", departed.to_string(), "0", departed == 0),
    ])
}

/// One write with one request id; the peer that takes it tries until there is a leader.
async fn write(channel: Channel, name: &str) -> Result<()> {
    let mut client = ChannelServiceClient::new(channel);
    let options = Some(v1::WriteOptions { request_id: name.to_owned(), ..Default::default() });
    let deadline = Instant::now() + LONGEST;
    loop {
        let mut request =
            tonic::Request::new(v1::CreateChannelRequest { name: name.to_owned(), options: options.clone() });
        request.set_timeout(deadline.saturating_duration_since(Instant::now()));
        match client.create(request).await {
            Ok(_) => return Ok(()),
            Err(status) if Instant::now() > deadline => bail!("no write within {LONGEST:?}: {}", status.message()),
            Err(_) => {}
        }
    }
}

/// Waits until all peers run, know a leader and have all that it has, and all nodes have a session; the leader's address.
async fn await_whole(cluster: &mut Cluster, api: &Api) -> Result<String> {
    let deadline = Instant::now() + WHOLE_WITHIN;
    loop {
        cluster.ensure_alive()?;
        if let Ok(leader) = look_whole(api).await {
            return Ok(leader);
        }
        if Instant::now() > deadline {
            bail!("the cluster isn't whole again within {WHOLE_WITHIN:?}");
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

async fn look_whole(api: &Api) -> Result<String> {
    let status = api.cluster(false).await?;
    let leader = status.peers.iter().find(|peer| peer.leader).context("nobody leads")?;
    let has_all = |peer: &v1::Peer| peer.voter && peer.reachable && peer.matched_revision == leader.matched_revision;
    if status.peers.len() != PEERS || !status.peers.iter().all(has_all) {
        bail!("a peer lags");
    }
    let channel = connect(&leader.address).await?;
    let request = v1::ListNodesRequest { page_size: 100, ..Default::default() };
    let nodes = NodeServiceClient::new(channel).list(request).await?.into_inner().nodes;
    let present = nodes.iter().filter(|node| node.presence == "present").count();
    if present != AGENTS {
        bail!("{present} nodes are there");
    }
    Ok(leader.address.clone())
}

async fn connect(address: &str) -> Result<Channel> {
    Ok(Endpoint::from_shared(format!("http://{address}"))?.connect_timeout(Duration::from_secs(1)).connect().await?)
}

async fn count_departed(address: &str) -> Result<usize> {
    let mut client = EventServiceClient::new(connect(address).await?);
    let (mut since, mut departed) = (0, 0);
    loop {
        let request = v1::ListEventsRequest { since_revision: since, limit: 1_000, ..Default::default() };
        let page = client.list(request).await?.into_inner();
        departed += page.events.iter().filter(|event| event.kind == "node_departed").count();
        if page.revision <= since {
            return Ok(departed);
        }
        since = page.revision;
    }
}
