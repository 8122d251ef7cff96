//! Peers and agents of one run, as real processes on loopback.

use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::agent::{Agent, AgentConfig};
use crate::binaries::Binaries;
use crate::peer::Peer;
use crate::ports::free_port;
use crate::run_dir::RunDir;

/// BOUND: how long a process may take until it listens.
const LISTENS_WITHIN: Duration = Duration::from_secs(20);

/// All processes of the system under test. Dropping it ends them.
#[derive(Debug)]
pub struct Cluster {
    /// In the order of their names.
    pub peers: Vec<Peer>,
    /// In the order of their names.
    pub agents: Vec<Agent>,
    binaries: Binaries,
}

impl Cluster {
    /// Lays out `peer_count` peers; none runs yet.
    pub fn create(run: &RunDir, binaries: Binaries, peer_count: usize) -> Result<Self> {
        let peers = (1..=peer_count)
            .map(|number| {
                let name = format!("peer-{number}");
                let folder = run.folder(&name)?;
                Peer::create(&name, folder, binaries.coordinator.clone(), free_port()?, free_port()?)
            })
            .collect::<Result<_>>()?;
        Ok(Self { peers, agents: Vec::new(), binaries })
    }

    /// Lays out one more machine; its agent doesn't run yet.
    pub fn add_agent(&mut self, run: &RunDir, config: AgentConfig) -> Result<()> {
        let folder = run.folder(&config.name)?;
        self.agents.push(Agent::create(folder, self.binaries.node.clone(), config)?);
        Ok(())
    }

    /// Where the peers answer gRPC.
    pub fn endpoints(&self) -> Vec<String> {
        self.peers.iter().map(|peer| peer.grpc.clone()).collect()
    }

    /// Starts all peers and waits until each listens.
    pub async fn start_peers(&mut self) -> Result<()> {
        for peer in &mut self.peers {
            peer.start()?;
        }
        for peer in &mut self.peers {
            wait_until_listening(peer).await?;
        }
        Ok(())
    }

    /// Starts all agents.
    pub fn start_agents(&mut self) -> Result<()> {
        self.agents.iter_mut().try_for_each(Agent::start)
    }

    /// The peer that answers at `address`.
    pub fn peer_at(&mut self, address: &str) -> Result<&mut Peer> {
        self.peers.iter_mut().find(|peer| peer.grpc == address).with_context(|| format!("no peer at {address}"))
    }

    /// The machine of that name.
    pub fn agent_named(&mut self, name: &str) -> Result<&mut Agent> {
        self.agents.iter_mut().find(|agent| agent.name == name).with_context(|| format!("no machine named {name}"))
    }

    /// An error where a process ended that nobody killed.
    pub fn ensure_alive(&mut self) -> Result<()> {
        self.peers.iter_mut().try_for_each(Peer::ensure_alive)?;
        self.agents.iter_mut().try_for_each(Agent::ensure_alive)
    }
}

async fn wait_until_listening(peer: &mut Peer) -> Result<()> {
    let deadline = tokio::time::Instant::now() + LISTENS_WITHIN;
    while tokio::net::TcpStream::connect(&peer.grpc).await.is_err() {
        peer.ensure_alive()?;
        if tokio::time::Instant::now() > deadline {
            bail!("{} doesn't listen on {} after {LISTENS_WITHIN:?}", peer.name, peer.grpc);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}
