//! Nine machines on one network: three peers, six nodes of a Redis Cluster, each with a disk of its own that forgets.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rollcall_jepsen::agent::{AgentConfig, ServiceConfig};
use rollcall_jepsen::api::Api;
use rollcall_jepsen::availability::SharedAvailability;
use rollcall_jepsen::binaries::Binaries;
use rollcall_jepsen::clock::Clock;
use rollcall_jepsen::depot::Depot;
use rollcall_jepsen::history::Record;
use rollcall_jepsen::peer::PeerConfig;
use rollcall_jepsen::power::disk::Durability;
use rollcall_jepsen::power::machine::{End, Machine, Plan};
use rollcall_jepsen::power::network;
use rollcall_jepsen::redis::form;
use rollcall_jepsen::redis::ledger::Ledger;
use rollcall_jepsen::redis::link::Link;
use rollcall_jepsen::redis::load::Load;
use rollcall_jepsen::redis::releases::Releases;
use rollcall_jepsen::redis::sampler::{Member, Samplers};
use rollcall_jepsen::redis::topology::Topology;
use rollcall_jepsen::run_dir::RunDir;
use rollcall_jepsen::screen::Screen;
use rollcall_jepsen::witness::Witness;
use rollcall_proto::v1;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::args::Args;

/// The group that everything is about.
pub const GROUP: &str = "redis.default";

/// How many permanent peers.
pub const PEER_COUNT: usize = 3;

/// How many nodes: three primaries with a replica each.
pub const NODE_COUNT: usize = 6;

/// The first node's number in the network; the peers' begin at 1.
const FIRST_NODE: u8 = 11;

/// BOUND: acknowledged writes before the first cut; below that a run proves nothing.
const TRAFFIC_FLOOR: usize = 200;

/// BOUND: whatever has to come to be before the first cut.
const THERE_WITHIN: Duration = Duration::from_secs(60);

/// Everything that runs. Dropped from top to bottom: clients first, machines last, the folder after them.
pub struct Site {
    /// What the viewer sees.
    pub screen: Screen,
    /// The run's clock.
    pub clock: Clock,
    /// Any peer.
    pub api: Api,
    /// The Redis members.
    pub members: Vec<Member>,
    /// What was seen of them.
    pub seen: SharedAvailability,
    /// Who serves which slots.
    pub topology: Topology,
    /// What was written.
    pub ledger: Ledger,
    /// The recorder that hooks reach before they act.
    pub witness: Witness,
    /// The releases.
    pub releases: Releases,
    samplers: Option<Samplers>,
    /// Peers, in the order of their names.
    pub peers: Vec<Machine>,
    /// Nodes, in the order of their names.
    pub nodes: Vec<Machine>,
    /// Machines that stopped.
    pub ends: UnboundedReceiver<End>,
    run: RunDir,
}

impl Site {
    /// Lays everything out; no machine has power yet.
    pub async fn lay_out(args: &Args, rebooting: &BTreeSet<String>) -> Result<Self> {
        let clock = Clock::start();
        let run = RunDir::create("rollcall-powercut-")?;
        let (sender, ends) = unbounded_channel();
        let maker = Maker::new(args, &run, sender)?;
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let depot = Depot::create(run.path().join("depot"))?;
        let over = repository.join("jepsen/packages/powercut");
        let releases = Releases::lay_out(&depot, &repository.join("scripts/demo.d"), Some(&over))?;
        let witness = Witness::start_at(network::HARNESS.into(), &run.path().join("witness.jsonl"), clock).await?;
        let peers = (1..=PEER_COUNT).map(|number| maker.peer(number)).collect::<Result<Vec<Machine>>>()?;
        let endpoints: Vec<String> = peers.iter().map(grpc_of).collect();
        let mut nodes = Vec::new();
        let mut members = Vec::new();
        for number in 1..=NODE_COUNT {
            let node = maker.node(number, |name, redis| {
                let mut config = service_config(redis, &witness, rebooting.contains(name));
                config.insert("reboot_command".into(), maker.reboot_command().join(" ").into());
                agent_config(name, &endpoints, depot.source(), config, maker.reboot_command())
            })?;
            members.push(Member { name: node.name().to_owned(), address: redis_of(&node, number) });
            nodes.push(node);
        }
        Ok(Self {
            screen: Screen::new(clock),
            clock,
            api: Api::new(&endpoints)?,
            topology: Topology::new(members.iter().map(|member| member.address).collect()),
            members,
            seen: SharedAvailability::default(),
            ledger: Ledger::default(),
            witness,
            releases,
            samplers: None,
            peers,
            nodes,
            ends,
            run,
        })
    }

    /// Switches all machines on and declares the group.
    pub async fn start(&mut self) -> Result<()> {
        self.screen.heading(
            "Three peers and six nodes, each a machine of its own: namespaces, boot id, and a disk that forgets",
        );
        for peer in &mut self.peers {
            peer.switch_on().await?;
        }
        for peer in &self.peers {
            wait_until_listening(peer).await?;
        }
        let others: Vec<String> = self.peers.iter().skip(1).map(grpc_of).collect();
        self.api.init_cluster(&others).await?;
        self.api.apply_group(group()).await?;
        for node in &mut self.nodes {
            node.switch_on().await?;
        }
        self.wait_for("six agents", async |site| {
            let group = site.api.group(GROUP).await?;
            Ok(group.members.iter().filter(|member| member.presence == "present").count() == NODE_COUNT)
        })
        .await?;
        self.screen.say(&format!("{PEER_COUNT} peers and {NODE_COUNT} agents know each other"));
        Ok(())
    }

    /// Makes one Redis Cluster of the six servers, and waits until it is healthy and Rollcall knows the roles.
    pub async fn form_redis_cluster(&mut self) -> Result<()> {
        let addresses: Vec<SocketAddr> = self.members.iter().map(|member| member.address).collect();
        form::form(&form::arguments(&addresses)).await?;
        self.samplers = Some(Samplers::start(&self.members, &self.seen, self.clock));
        form::wait_until_healthy(&self.seen, NODE_COUNT).await?;
        self.save_redis_config().await?;
        self.wait_for("the roles that Redis shows", async |site| {
            let members = site.api.group(GROUP).await?.members;
            let role = |name: &String| site.seen.ask(|seen| seen.latest.get(name).and_then(|look| look.primary));
            Ok(members.iter().all(|member| role(&member.node_name) == Some(member.primary)))
        })
        .await?;
        self.screen.say("one Redis Cluster: 3 primaries, 3 replicas; each is looked at every 50 ms from here on");
        Ok(())
    }

    /// Whether Rollcall itself takes every member for healthy.
    pub async fn members_are_healthy(&self) -> Result<bool> {
        use v1::Health::{Healthy, Warning};
        let members = self.api.group(GROUP).await?.members;
        Ok(members.iter().all(|member| matches!(member.health(), Healthy | Warning)))
    }

    /// Redis doesn't sync what `CLUSTER REPLICATE` changes (it does what an election changes): a member that lost its
    /// power would come back as a primary without slots, and its primary would stay without a replica for good.
    async fn save_redis_config(&self) -> Result<()> {
        for member in &self.members {
            Link::connect(member.address).await?.ask::<String>(&["CLUSTER", "SAVECONFIG"]).await?;
        }
        Ok(())
    }

    /// Starts to write, and waits until there is traffic.
    pub async fn start_load(&self) -> Result<Load> {
        let load = Load::start(&self.topology, &self.ledger, self.clock).await?;
        self.wait_for("enough writes", async |site| Ok(site.ledger.acknowledged_count() >= TRAFFIC_FLOOR)).await?;
        self.screen.say("six clients write; a write counts once it is synced and a replica has it (WAIT 1)");
        Ok(load)
    }

    /// The names of all nodes.
    pub fn node_names(&self) -> Vec<String> {
        self.members.iter().map(|member| member.name.clone()).collect()
    }

    /// What the nodes' hooks wrote onto their own disks.
    pub fn journals(&self) -> Result<BTreeMap<String, Vec<Record>>> {
        let mut journals = BTreeMap::new();
        for node in &self.nodes {
            let path = node.disk().join("agent/svc").join(GROUP).join("data/hooks.journal");
            let text = std::fs::read_to_string(&path).with_context(|| format!("no journal at {}", path.display()))?;
            let records = text.lines().map(|line| {
                Record::parse(Duration::ZERO, line)
                    .with_context(|| format!("{}: {line:?} is no record", path.display()))
            });
            journals.insert(node.name().to_owned(), records.collect::<Result<_>>()?);
        }
        Ok(journals)
    }

    /// Keeps the run's folder, with a copy of each disk, and says where it is.
    pub fn keep(&mut self) {
        self.run.keep();
        for machine in self.peers.iter().chain(&self.nodes).filter(|machine| machine.is_running()) {
            if let Err(error) = machine.keep_copy_of_disk() {
                self.screen.say(&format!("{error:#}"));
            }
        }
        self.screen.say(&format!("logs are kept in {}", self.run.path().display()));
    }

    async fn wait_for(&self, what: &str, is_there: impl AsyncFn(&Self) -> Result<bool>) -> Result<()> {
        let deadline = tokio::time::Instant::now() + THERE_WITHIN;
        while !is_there(self).await? {
            if tokio::time::Instant::now() > deadline {
                bail!("after {THERE_WITHIN:?} there are not yet {what}");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }
}

/// Makes machines.
struct Maker<'a> {
    run: &'a RunDir,
    binaries: Binaries,
    launcher: PathBuf,
    durability: Durability,
    ends: UnboundedSender<End>,
}

impl<'a> Maker<'a> {
    fn new(args: &Args, run: &'a RunDir, ends: UnboundedSender<End>) -> Result<Self> {
        let durability = if args.strict { Durability::Strict } else { Durability::Journaled };
        let launcher = std::env::current_exe().context("can't tell where this program is")?;
        Ok(Self { run, binaries: Binaries::find()?, launcher, durability, ends })
    }

    fn machine(&self, name: String, number: u8) -> Result<Machine> {
        let folder = self.run.path().join(&name);
        let plan = Plan { name, number, durability: self.durability, launcher: self.launcher.clone() };
        Machine::create(folder, plan, self.ends.clone())
    }

    fn peer(&self, number: usize) -> Result<Machine> {
        let mut machine = self.machine(format!("peer-{number}"), u8::try_from(number)?)?;
        let config = machine.folder().join("coordinator.toml");
        let (grpc, http) = (grpc_of(&machine), format!("{}:7480", machine.address()));
        machine.lay_folder("peer")?;
        PeerConfig { data_dir: &machine.disk().join("peer"), grpc: &grpc, http: &http }.write(&config)?;
        machine.set_command(command(&self.binaries.coordinator, &config));
        Ok(machine)
    }

    fn node(&self, number: usize, config: impl FnOnce(&str, SocketAddr) -> AgentConfig) -> Result<Machine> {
        let mut machine = self.machine(format!("redis-{number}"), FIRST_NODE + u8::try_from(number)? - 1)?;
        let mut config = config(machine.name(), redis_of(&machine, number));
        machine.lay_folder("agent")?;
        config.data_dir = machine.disk().join("agent");
        let path = machine.folder().join("agent.toml");
        config.write(&path)?;
        machine.set_command(command(&self.binaries.node, &path));
        Ok(machine)
    }

    fn reboot_command(&self) -> Vec<String> {
        vec![self.launcher.display().to_string(), "reboot".to_owned()]
    }
}

fn command(program: &Path, config: &Path) -> Vec<String> {
    vec![program.display().to_string(), "--config".to_owned(), config.display().to_string()]
}

fn grpc_of(peer: &Machine) -> String {
    format!("{}:7400", peer.address())
}

/// Every Redis has its own port too: what people read names it by that.
fn redis_of(node: &Machine, number: usize) -> SocketAddr {
    SocketAddr::from((node.address(), 7_000 + u16::try_from(number).unwrap_or_default()))
}

fn service_config(redis: SocketAddr, witness: &Witness, reboots_itself: bool) -> BTreeMap<String, toml::Value> {
    BTreeMap::from([
        ("port".to_owned(), i64::from(redis.port()).into()),
        ("host".to_owned(), redis.ip().to_string().into()),
        ("witness".to_owned(), witness.address().into()),
        ("appendfsync".to_owned(), "always".into()),
        // Its network ends at the bridge.
        ("protected_mode".to_owned(), "no".into()),
        ("reboots_itself".to_owned(), reboots_itself.into()),
    ])
}

fn agent_config(
    name: &str,
    endpoints: &[String],
    source: String,
    config: BTreeMap<String, toml::Value>,
    reboot_command: Vec<String>,
) -> AgentConfig {
    let service = ServiceConfig { group: GROUP.to_owned(), source, health_check_interval: "500ms".to_owned(), config };
    AgentConfig {
        name: name.to_owned(),
        endpoints: endpoints.to_vec(),
        reboot_command,
        service: vec![service],
        ..AgentConfig::default()
    }
}

fn group() -> v1::GroupSpec {
    let policy = v1::Policy {
        order: Some("name".to_owned()),
        primary_last: Some(true),
        max_unavailable: Some("1".to_owned()),
        on_warning: Some("pass".to_owned()),
        min_healthy_time_ms: Some(1_000),
        healthy_deadline_ms: Some(120_000),
        progress_deadline_ms: Some(300_000),
        // Each cut of a node in its install is one.
        max_reboots: Some(20),
        ..Default::default()
    };
    v1::GroupSpec {
        name: GROUP.to_owned(),
        package: Some("acme/redis".to_owned()),
        policy: Some(policy),
        ..Default::default()
    }
}

/// Waits until a peer takes connections.
pub async fn wait_until_listening(peer: &Machine) -> Result<()> {
    let deadline = tokio::time::Instant::now() + THERE_WITHIN;
    while tokio::net::TcpStream::connect(grpc_of(peer)).await.is_err() {
        if tokio::time::Instant::now() > deadline {
            bail!("{} doesn't listen after {THERE_WITHIN:?}; its log: {}", peer.name(), peer.log().display());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}
