//! The scene: peers, agents, witness, samplers, and a group file, before anything is promoted.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use rollcall_jepsen::agent::{AgentConfig, ServiceConfig};
use rollcall_jepsen::api::Api;
use rollcall_jepsen::availability::SharedAvailability;
use rollcall_jepsen::binaries::Binaries;
use rollcall_jepsen::cli::Rollcall;
use rollcall_jepsen::clock::Clock;
use rollcall_jepsen::cluster::Cluster;
use rollcall_jepsen::depot::Depot;
use rollcall_jepsen::ports::free_redis_port;
use rollcall_jepsen::redis::form;
use rollcall_jepsen::redis::ledger::Ledger;
use rollcall_jepsen::redis::load::Load;
use rollcall_jepsen::redis::sampler::{Member, Samplers};
use rollcall_jepsen::redis::topology::Topology;
use rollcall_jepsen::run_dir::RunDir;
use rollcall_jepsen::screen::Screen;
use rollcall_jepsen::witness::Witness;

use crate::args::Args;
use crate::progress;
use rollcall_jepsen::redis::releases::Releases;

/// The group that everything is about.
pub const GROUP: &str = "redis.default";

/// How many permanent peers.
const PEER_COUNT: usize = 3;

/// How many nodes: three primaries with a replica each.
pub const NODE_COUNT: usize = 6;

/// BOUND: acknowledged writes before the first fault; below that a run proves nothing.
const TRAFFIC_FLOOR: usize = 200;

/// Everything that runs. Dropped from top to bottom: clients first, processes last, the folder after them.
pub struct Scene {
    /// What the viewer sees.
    pub screen: Arc<Screen>,
    /// The run's clock.
    pub clock: Clock,
    /// The operator's CLI.
    pub rollcall: Rollcall,
    /// The same cluster by gRPC.
    pub api: Api,
    /// The Redis members.
    pub members: Vec<Member>,
    /// What was seen of them.
    pub seen: SharedAvailability,
    /// Which nodes are machines of peers: the peer's address by the node's name.
    pub hosts: BTreeMap<String, String>,
    /// Who serves which slots.
    pub topology: Topology,
    /// What was written.
    pub ledger: Ledger,
    /// The recorder that hooks reach before they act.
    pub witness: Witness,
    /// The releases.
    pub releases: Releases,
    samplers: Option<Samplers>,
    /// Peers and agents.
    pub cluster: Cluster,
    run: RunDir,
}

impl Scene {
    /// Lays everything out and starts peers and agents.
    pub async fn set(args: &Args) -> Result<Self> {
        let clock = Clock::start();
        let screen = Arc::new(Screen::new(clock));
        let binaries = Binaries::find()?;
        let run = RunDir::create("rollcall-demo-")?;
        let depot = Depot::create(run.path().join("depot"))?;
        let releases = Releases::lay_out(&depot, &args.packages, None)?;
        let witness = Witness::start(&run.path().join("witness.jsonl"), clock).await?;
        let mut cluster = Cluster::create(&run, binaries.clone(), PEER_COUNT)?;
        let endpoints = cluster.endpoints();
        let members: Vec<Member> = (1..=NODE_COUNT)
            .map(|number| {
                Ok(Member { name: format!("redis-{number}"), address: ([127, 0, 0, 1], free_redis_port()?).into() })
            })
            .collect::<Result<_>>()?;
        let names = members.iter().map(|member| member.name.clone());
        let hosts: BTreeMap<_, _> =
            if args.on_peers { names.zip(endpoints.iter().cloned()).collect() } else { BTreeMap::new() };
        for member in &members {
            let hosts_peer = hosts.get(&member.name).cloned();
            cluster.add_agent(&run, agent_config(member, hosts_peer, &endpoints, &depot, &witness))?;
        }
        let mut scene = Self {
            rollcall: Rollcall::new(binaries.cli, &endpoints, screen.clone()),
            api: Api::new(&endpoints)?,
            topology: Topology::new(members.iter().map(|member| member.address).collect()),
            seen: SharedAvailability::default(),
            hosts,
            ledger: Ledger::default(),
            samplers: None,
            screen,
            clock,
            members,
            witness,
            releases,
            cluster,
            run,
        };
        scene.start().await?;
        Ok(scene)
    }

    async fn start(&mut self) -> Result<()> {
        self.screen.heading("Three permanent peers, six nodes with an agent each");
        self.cluster.start_peers().await?;
        self.screen.say(&format!("{PEER_COUNT} peers listen on {}", self.cluster.endpoints().join(", ")));
        self.rollcall.show(&["cluster", "init"]).await?;
        self.cluster.start_agents()?;
        self.screen.say(&format!("{NODE_COUNT} agents start, each with its own data folder"));
        for (node, peer) in &self.hosts {
            self.screen.say(&format!("{node} is the machine of the peer at {peer}: they go down together"));
        }
        Ok(())
    }

    /// Declares the group, installs release 1 everywhere, and forms the Redis Cluster of it.
    pub async fn bring_up_release_one(&mut self, healthy_deadline: Duration) -> Result<()> {
        let file = self.run.path().join("redis.toml");
        std::fs::write(&file, group_file(healthy_deadline))?;
        self.rollcall.show(&["group", "apply", "-f", &file.to_string_lossy()]).await?;
        self.wait_for_agents().await?;
        let rollout = self.promote(&self.releases.first.clone()).await?;
        let ended = progress::follow(self, &rollout).await?;
        progress::ensure_succeeded(&ended)?;

        let addresses: Vec<SocketAddr> = self.members.iter().map(|member| member.address).collect();
        let arguments = form::arguments(&addresses);
        self.screen.say("six Redis servers run release 1; they become one Redis Cluster");
        self.screen.command(&format!("redis-cli {}", arguments.join(" ")));
        form::form(&arguments).await?;
        self.samplers = Some(Samplers::start(&self.members, &self.seen, self.clock));
        form::wait_until_healthy(&self.seen, self.members.len()).await?;
        self.wait_for_roles().await?;
        self.screen.say("healthy: 3 primaries, 3 replicas; each is looked at every 50 ms from here on");
        Ok(())
    }

    /// Promotes a release into the channel; the id of the rollout that this started.
    pub async fn promote(&self, ident: &str) -> Result<String> {
        self.rollcall.show(&["package", "promote", ident, "stable"]).await?;
        progress::rollout_to(self, ident).await
    }

    /// Starts to write, and waits until there is traffic.
    pub async fn start_load(&self) -> Result<Load> {
        let load = Load::start(&self.topology, &self.ledger, self.clock).await?;
        let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
        while self.ledger.acknowledged_count() < TRAFFIC_FLOOR {
            if tokio::time::Instant::now() > deadline {
                bail!("only {} writes were acknowledged in 30 s", self.ledger.acknowledged_count());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        self.screen.say("six clients write; a write counts once a replica has it (WAIT 1), and is read back later");
        Ok(load)
    }

    /// The names of all nodes.
    pub fn node_names(&self) -> Vec<String> {
        self.members.iter().map(|member| member.name.clone()).collect()
    }

    /// Keeps the run's folder and says where it is.
    pub fn keep(&mut self) {
        self.run.keep();
        self.screen.say(&format!("logs and data are kept in {}", self.run.path().display()));
    }

    /// A promotion before all agents said hello would find fewer than six nodes.
    async fn wait_for_agents(&mut self) -> Result<()> {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
        loop {
            let group = self.api.group(GROUP).await?;
            let present = group.members.iter().filter(|member| member.presence == "present").count();
            if present == self.members.len() {
                return Ok(());
            }
            self.cluster.ensure_alive()?;
            if tokio::time::Instant::now() > deadline {
                bail!("{present} of {} agents are present after 30 s", self.members.len());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// `primary_last` needs the roles, which the health checks report.
    async fn wait_for_roles(&self) -> Result<()> {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
        loop {
            let group = self.api.group(GROUP).await?;
            let agrees = |member: &rollcall_proto::v1::Member| {
                let outside = self.seen.ask(|seen| seen.latest.get(&member.node_name).and_then(|look| look.primary));
                outside == Some(member.primary)
            };
            let healthy = group.members.iter().all(|member| {
                use rollcall_proto::v1::Health::{Healthy, Warning};
                matches!(member.health(), Healthy | Warning)
            });
            if healthy && group.members.iter().all(agrees) {
                return Ok(());
            }
            if tokio::time::Instant::now() > deadline {
                bail!("the nodes' health checks don't report the roles that Redis shows, after 30 s");
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

fn agent_config(
    member: &Member,
    hosts_peer: Option<String>,
    endpoints: &[String],
    depot: &Depot,
    witness: &Witness,
) -> AgentConfig {
    let config = BTreeMap::from([
        ("port".to_owned(), toml::Value::Integer(i64::from(member.address.port()))),
        ("witness".to_owned(), toml::Value::String(witness.address().to_owned())),
    ]);
    AgentConfig {
        name: member.name.clone(),
        endpoints: endpoints.to_vec(),
        data_dir: std::path::PathBuf::new(),
        hosts_peer,
        reboot_command: Vec::new(),
        service: vec![ServiceConfig {
            group: GROUP.to_owned(),
            source: depot.source(),
            health_check_interval: "1s".to_owned(),
            config,
        }],
    }
}

fn group_file(healthy_deadline: Duration) -> String {
    format!(
        "\
[group]
name = \"{GROUP}\"
package = \"acme/redis\"
channel = \"stable\"

[policy]
order = \"name\"
primary_last = true
max_unavailable = 1
on_warning = \"pass\"           # a primary whose replica is away warns
min_healthy_time = \"2s\"
healthy_deadline = \"{}s\"
progress_deadline = \"5m\"
",
        healthy_deadline.as_secs()
    )
}
