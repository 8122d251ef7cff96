//! Three peers of Rollcall as processes, with their default settings, and what is asked of them.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rollcall_jepsen::agent::AgentConfig;
use rollcall_jepsen::api::Api;
use rollcall_jepsen::binaries::Binaries;
use rollcall_jepsen::cluster::Cluster;
use rollcall_jepsen::run_dir::RunDir;
use rollcall_proto::v1;
use rollcall_proto::v1::event_service_client::EventServiceClient;
use rollcall_proto::v1::node_service_client::NodeServiceClient;
use tonic::transport::Channel;

use crate::client::{Client, RollcallClient, text};
use crate::drive::Acknowledged;
use crate::system::{MEMBERS, System, connect};

/// BOUND: for the cluster to be whole again.
const WHOLE_WITHIN: Duration = Duration::from_secs(60);

const LOOK_EVERY: Duration = Duration::from_millis(50);

/// BOUND: events of one answer.
const PAGE: u32 = 1_000;

/// What the server may send: all events of one revision at once.
const EVENTS_BYTES: usize = 64 << 20;

/// The peers. Dropping it ends them, and removes their folder.
pub struct Rollcall {
    pub cluster: Cluster,
    pub api: Api,
    /// Agents that are processes, too.
    agent_count: usize,
    addresses: Vec<String>,
    pub run: RunDir,
}

impl Rollcall {
    /// Starts three peers of a new cluster, and waits until they have a leader.
    pub async fn start() -> Result<Self> {
        let run = RunDir::create("rollcall-bench-")?;
        let mut cluster = Cluster::create(&run, Binaries::find()?, MEMBERS)?;
        cluster.start_peers().await?;
        let addresses = cluster.endpoints();
        let api = Api::new(&addresses)?;
        api.init_cluster(&addresses[1..]).await?;
        let mut rollcall = Self { cluster, api, agent_count: 0, addresses, run };
        rollcall.await_whole().await?;
        Ok(rollcall)
    }

    /// Starts agents as processes, and waits until they are there.
    pub async fn add_agents(&mut self, agents: impl IntoIterator<Item = AgentConfig>) -> Result<()> {
        for config in agents {
            let config = AgentConfig { endpoints: self.addresses.clone(), ..config };
            self.cluster.add_agent(&self.run, config)?;
            self.agent_count += 1;
        }
        self.cluster.start_agents()?;
        self.await_whole().await?;
        Ok(())
    }

    async fn look_whole(&self) -> Result<String> {
        let status = self.api.cluster(false).await?;
        let leader = status.peers.iter().find(|peer| peer.leader).context("nobody leads")?;
        let has_all =
            |peer: &v1::Peer| peer.voter && peer.reachable && peer.matched_revision == leader.matched_revision;
        if status.peers.len() != MEMBERS || !status.peers.iter().all(has_all) {
            bail!("a peer lags");
        }
        if self.agent_count > 0 {
            let request = v1::ListNodesRequest { page_size: 100, ..Default::default() };
            let nodes = NodeServiceClient::new(connect(&leader.address).await?).list(request).await?.into_inner().nodes;
            let present = nodes.iter().filter(|node| node.presence == "present").count();
            if present != self.agent_count {
                bail!("{present} nodes are there");
            }
        }
        Ok(leader.address.clone())
    }

    /// Events after a revision, as the first peer has them, and up to which one.
    pub async fn events_since(&self, revision: u64) -> Result<(Vec<v1::Event>, u64)> {
        let channel = connect(&self.addresses[0]).await?;
        let mut client = EventServiceClient::new(channel).max_decoding_message_size(EVENTS_BYTES);
        let (mut since, mut events) = (revision, Vec::new());
        loop {
            let request = v1::ListEventsRequest { since_revision: since, limit: PAGE, ..Default::default() };
            let page = client.list(request).await?.into_inner();
            events.extend(page.events);
            if page.revision <= since {
                return Ok((events, since));
            }
            since = page.revision;
        }
    }

    /// How many nodes were declared departed after a revision.
    pub async fn count_departed(&self, since: u64) -> Result<usize> {
        let (events, _) = self.events_since(since).await?;
        Ok(events.iter().filter(|event| event.kind == "node_departed").count())
    }
}

impl System for Rollcall {
    const NAME: &'static str = "Rollcall";

    fn addresses(&self) -> &[String] {
        &self.addresses
    }

    fn client(&self, channel: Channel) -> Client {
        Client::Rollcall(RollcallClient::new(channel))
    }

    async fn await_whole(&mut self) -> Result<String> {
        let deadline = Instant::now() + WHOLE_WITHIN;
        loop {
            self.cluster.ensure_alive()?;
            match self.look_whole().await {
                Ok(leader) => return Ok(leader),
                Err(error) if Instant::now() > deadline => return Err(error.context("the cluster isn't whole")),
                Err(_) => tokio::time::sleep(LOOK_EVERY).await,
            }
        }
    }

    fn kill(&mut self, address: &str) -> Result<()> {
        self.cluster.peer_at(address)?.kill()
    }

    fn start_member(&mut self, address: &str) -> Result<()> {
        self.cluster.peer_at(address)?.start()
    }

    /// From the audit trail of the first peer, once it has all that was acknowledged: each write is an entry of its own,
    /// with its payload as the reason.
    async fn read_back(&self, run: &str, acknowledged: &[Acknowledged]) -> Result<()> {
        let revisions = || acknowledged.iter().map(|write| write.revision);
        let (Some(first), Some(last)) = (revisions().min(), revisions().max()) else { return Ok(()) };
        let deadline = Instant::now() + WHOLE_WITHIN;
        let mut since = first - 1;
        let mut reasons = HashMap::new();
        while since < last {
            let (events, until) = self.events_since(since).await?;
            reasons.extend(events.into_iter().map(|event| (event.revision, event.reason)));
            if until <= since && Instant::now() > deadline {
                bail!("the events end at {until}, and {last} was acknowledged");
            }
            since = until;
        }
        for Acknowledged { client, number, revision } in acknowledged {
            match reasons.get(revision) {
                Some(reason) if *reason == text(run, *client, *number) => {}
                Some(_) => {
                    bail!("write {run}/{client}/{number} was acknowledged at {revision}, which is another write")
                }
                None => bail!("write {run}/{client}/{number} was acknowledged at {revision}, where nothing is"),
            }
        }
        Ok(())
    }
}
