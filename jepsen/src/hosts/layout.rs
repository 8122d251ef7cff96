//! Lays the hosts of a run out in its folder, and switches them on.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::agent::AgentConfig;
use crate::api::Api;
use crate::binaries::Binaries;
use crate::clock::Clock;
use crate::depot::Depot;
use crate::hosts::Hosts;
use crate::hosts::door::Door;
use crate::hosts::host::{Host, lay_program};
use crate::hosts::sight::Lookout;
use crate::peer::PeerConfig;
use crate::power::disk::Durability;
use crate::power::machine::{End, Machine, Plan};
use crate::power::network;
use crate::sample;
use crate::witness::Witness;

/// The first node's number in the network; the peers' begin at 1.
const FIRST_NODE: u8 = 11;

/// BOUND: until a process listens, and agents are known.
const THERE_WITHIN: Duration = Duration::from_secs(60);

/// What faketime reads the offset from, in a machine's folder.
pub const OFFSET: &str = "clock-offset";

/// What there is to be.
#[derive(Debug, Clone)]
pub struct Layout {
    /// The run's folder.
    pub folder: PathBuf,
    /// How many peers.
    pub peer_count: usize,
    /// How many nodes.
    pub node_count: usize,
    /// Disks that keep a name only when its folder is synced.
    pub strict: bool,
    /// The library that lets a peer's wall clock jump; none: clocks can't be moved.
    pub faketime: Option<PathBuf>,
    /// A fault that is planted in each peer.
    pub planted: Option<String>,
}

impl Layout {
    /// Switches everything on and makes a cluster of the peers. Also the depot, for those who roll releases.
    pub async fn switch_on(&self, clock: Clock) -> Result<(Hosts, Depot)> {
        let (sender, ends) = unbounded_channel();
        let maker = Maker::new(self, sender)?;
        let depot = Depot::create(self.folder.join("depot"))?;
        let witness = Witness::start_at(network::HARNESS.into(), &self.folder.join("witness.jsonl"), clock).await?;
        let mut peers = (1..=self.peer_count).map(|number| maker.peer(number)).collect::<Result<Vec<Host>>>()?;
        let endpoints: Vec<String> = peers.iter().map(|peer| peer.grpc().to_owned()).collect();
        let mut nodes = (1..=self.node_count)
            .map(|number| maker.node(number, &endpoints, &depot, &witness))
            .collect::<Result<Vec<Host>>>()?;
        let doors = peers.iter().map(|peer| Door::to(peer.name(), peer.grpc())).collect::<Result<Vec<Door>>>()?;
        for peer in &mut peers {
            peer.machine.switch_on().await?;
        }
        for peer in &peers {
            await_listening(peer).await?;
        }
        Api::new(&endpoints)?.init_cluster(&endpoints[1..]).await?;
        for node in &mut nodes {
            node.machine.switch_on().await?;
        }
        let lookout = Lookout::start(&doors, &self.folder.join("sights.jsonl"), clock)?;
        let next_release = maker.next_release;
        let hosts = Hosts { peers, nodes, doors, lookout, witness, ends, next_release, to_rebuild: Vec::new() };
        hosts.await_recovery().await?;
        Ok((hosts, depot))
    }
}

/// Makes hosts.
struct Maker<'a> {
    layout: &'a Layout,
    binaries: Binaries,
    next_release: Option<Binaries>,
    launcher: PathBuf,
    ends: UnboundedSender<End>,
}

impl<'a> Maker<'a> {
    fn new(layout: &'a Layout, ends: UnboundedSender<End>) -> Result<Self> {
        let launcher = std::env::current_exe().context("can't tell where this program is")?;
        let mut binaries = Binaries::find()?;
        let next_release = binaries.next_release(&layout.folder)?;
        if layout.planted.is_some() {
            let next =
                next_release.as_ref().context("no peer is built that a fault can be planted in: scripts/next-level")?;
            binaries.coordinator.clone_from(&next.coordinator);
        }
        Ok(Self { layout, binaries, next_release, launcher, ends })
    }

    fn machine(&self, name: String, number: u8) -> Result<Machine> {
        let durability = if self.layout.strict { Durability::Strict } else { Durability::Journaled };
        let folder = self.layout.folder.join(&name);
        let plan = Plan { name, number, durability, launcher: self.launcher.clone() };
        Machine::create(folder, plan, self.ends.clone())
    }

    fn peer(&self, number: usize) -> Result<Host> {
        let mut machine = self.machine(format!("peer-{number}"), u8::try_from(number)?)?;
        let (grpc, http) = (format!("{}:7400", machine.address()), format!("{}:7480", machine.address()));
        machine.lay_folder("peer")?;
        let (data, config) = (machine.disk().join("peer"), machine.folder().join("coordinator.toml"));
        PeerConfig { data_dir: &data, grpc: &grpc, http: &http }.write(&config)?;
        let mut environment =
            self.layout.faketime.as_deref().map_or(Ok(Vec::new()), |library| fake(&machine, library))?;
        environment.extend(self.layout.planted.iter().map(|fault| format!("ROLLCALL_PLANT={fault}")));
        machine.set_command(self.kept(&machine, &self.binaries.coordinator, &config, environment)?);
        Ok(Host::new(machine, self.binaries.coordinator.clone(), data, Some(grpc)))
    }

    fn node(&self, number: usize, endpoints: &[String], depot: &Depot, witness: &Witness) -> Result<Host> {
        let mut machine = self.machine(format!("node-{number}"), FIRST_NODE + u8::try_from(number)? - 1)?;
        machine.lay_folder("agent")?;
        // What the service shows of itself isn't synced: it is gone with the power.
        machine.lay_folder("state")?;
        let state = machine.disk().join("state");
        let config = sample::agent_config(machine.name(), endpoints, depot, witness, &state);
        let reboot_command = vec![self.launcher.display().to_string(), "reboot".to_owned()];
        let data = machine.disk().join("agent");
        let config = AgentConfig { data_dir: data.clone(), reboot_command, ..config };
        let path = machine.folder().join("agent.toml");
        config.write(&path)?;
        machine.set_command(self.kept(&machine, &self.binaries.node, &path, Vec::new())?);
        Ok(Host::new(machine, self.binaries.node.clone(), data, None))
    }

    /// The keeper's command, and in it the program's, by a name that may lead to another one later.
    fn kept(&self, machine: &Machine, program: &Path, config: &Path, environment: Vec<String>) -> Result<Vec<String>> {
        let text = |path: &Path| path.display().to_string();
        let mut command =
            vec![text(&self.launcher), "keep".into(), "--folder".into(), text(machine.folder()), "--".into()];
        if !environment.is_empty() {
            command.push("env".into());
            command.extend(environment);
        }
        command.extend([text(&lay_program(machine.folder(), program)?), "--config".into(), text(config)]);
        Ok(command)
    }
}

/// A clock that can be moved: what a program's environment needs for it.
fn fake(machine: &Machine, library: &Path) -> Result<Vec<String>> {
    let offset = machine.folder().join(OFFSET);
    std::fs::write(&offset, "+0\n")?;
    Ok(vec![
        format!("LD_PRELOAD={}", library.display()),
        format!("FAKETIME_TIMESTAMP_FILE={}", offset.display()),
        // Timers go by the monotonic clock, and hang when that is moved.
        "FAKETIME_DONT_FAKE_MONOTONIC=1".into(),
        "FAKETIME_CACHE_DURATION=1".into(),
        "NO_FAKE_STAT=1".into(),
    ])
}

/// Waits until a peer takes connections.
pub async fn await_listening(peer: &Host) -> Result<()> {
    let deadline = tokio::time::Instant::now() + THERE_WITHIN;
    while tokio::net::TcpStream::connect(peer.grpc()).await.is_err() {
        if tokio::time::Instant::now() > deadline {
            bail!("{} doesn't listen after {THERE_WITHIN:?}; its log: {}", peer.name(), peer.machine.log().display());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}
