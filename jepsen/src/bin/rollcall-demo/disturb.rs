//! The two faults of the main job, each at its moment: SIGKILL to the peer that leads, and a power cut of the node that
//! is being updated. Where peers run on nodes' machines, the power of each of these is cut in its step instead.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use rollcall_jepsen::procfs;
use rollcall_jepsen::screen::Tone;
use rollcall_proto::v1::{Phase, Rollout, Step};

use crate::progress::is_under_way;
use crate::scene::Scene;

/// The step during which the leader is killed, counted from 0: a replica's.
const LEADER_DIES_IN_STEP: usize = 1;

/// The step during which a node's power goes: that of the first primary, which has become a replica by then.
const POWER_GOES_IN_STEP: usize = 3;

/// How long the leader's machine stays away: longer than an election.
const PEER_AWAY: Duration = Duration::from_secs(4);

/// How long the node stays away: as a quick reboot.
const NODE_AWAY: Duration = Duration::from_secs(3);

/// Something to bring back, and when.
#[derive(Debug)]
enum Away {
    Peer(String),
    Node(String),
}

/// A machine that went down with its peer.
#[derive(Debug)]
pub struct CutMachine {
    /// The node.
    pub node: String,
    /// The peer's address.
    pub peer: String,
    /// Who led just before.
    pub leader: String,
}

/// Which faults were installed.
#[derive(Debug, Default)]
pub struct Disturber {
    /// The peer that was killed while it led.
    pub killed_peer: Option<String>,
    /// The node whose power was cut.
    pub cut_node: Option<String>,
    /// The machines of peers whose power was cut.
    pub cut_machines: Vec<CutMachine>,
    away: Vec<(tokio::time::Instant, Away)>,
}

impl Disturber {
    /// Does what this state of the rollout is the moment for.
    pub async fn look(&mut self, scene: &mut Scene, rollout: &Rollout) -> Result<()> {
        let Some((place, step)) = rollout.steps.iter().enumerate().find(|(_, step)| is_under_way(step.phase())) else {
            return Ok(());
        };
        if !scene.hosts.is_empty() {
            return self.look_at_machine(scene, step).await;
        }
        if place == LEADER_DIES_IN_STEP && self.killed_peer.is_none() && has_begun_to_stop(step) {
            self.kill_leader(scene, step).await?;
        }
        if place == POWER_GOES_IN_STEP && self.cut_node.is_none() && step.phase() == Phase::Verifying {
            self.cut_power(scene, step)?;
        }
        Ok(())
    }

    /// When the next one is due back.
    pub fn next_return(&self) -> Option<tokio::time::Instant> {
        self.away.iter().map(|(at, _)| *at).min()
    }

    /// Brings back whoever is due.
    pub fn bring_back(&mut self, scene: &mut Scene) -> Result<()> {
        let now = tokio::time::Instant::now();
        let (due, away) = std::mem::take(&mut self.away).into_iter().partition(|(at, _)| *at <= now);
        self.away = away;
        let due: Vec<(tokio::time::Instant, Away)> = due;
        for (_, who) in due {
            match who {
                Away::Peer(address) => {
                    let peer = scene.cluster.peer_at(&address)?;
                    peer.start()?;
                    let name = peer.name.clone();
                    scene.screen.say(&format!("{name} is started again"));
                }
                Away::Node(name) => {
                    scene.cluster.agent_named(&name)?.start()?;
                    scene.screen.say(&format!("{name} is back: its agent starts and reads its step journal"));
                }
            }
        }
        Ok(())
    }

    /// The power of a peer's machine goes once its service is being stopped: nobody could have known.
    async fn look_at_machine(&mut self, scene: &mut Scene, step: &Step) -> Result<()> {
        let node = &step.node_name;
        let Some(peer) = scene.hosts.get(node).cloned() else { return Ok(()) };
        if !has_begun_to_stop(step) || self.cut_machines.iter().any(|cut| cut.node == *node) {
            return Ok(());
        }
        let leader = scene.api.leader_address().await?;
        scene.cluster.peer_at(&peer)?.kill()?;
        self.away.push((tokio::time::Instant::now() + NODE_AWAY, Away::Peer(peer.clone())));
        self.cut_power(scene, step)?;
        scene.screen.say(&format!("the peer at {peer} went down with it; the one at {leader} leads"));
        self.cut_machines.push(CutMachine { node: node.clone(), peer, leader });
        Ok(())
    }

    async fn kill_leader(&mut self, scene: &mut Scene, step: &Step) -> Result<()> {
        let address = scene.api.leader_address().await?;
        let peer = scene.cluster.peer_at(&address)?;
        peer.kill()?;
        let name = peer.name.clone();
        let what = format!("SIGKILL to {name}, which leads, while {} is down", step.node_name);
        scene.screen.say(&scene.screen.tint(Tone::Yellow, &what));
        self.killed_peer = Some(name);
        self.away.push((tokio::time::Instant::now() + PEER_AWAY, Away::Peer(address)));
        Ok(())
    }

    fn cut_power(&mut self, scene: &mut Scene, step: &Step) -> Result<()> {
        let node = step.node_name.clone();
        let look = scene.seen.ask(|seen| seen.latest.get(&node).cloned()).unwrap_or_default();
        let count = scene.cluster.agent_named(&node)?.cut_power()?;
        if look.pid.is_some_and(procfs::is_alive) {
            bail!("the power of {node} was cut, and its Redis runs on");
        }
        scene.witness.killed(&node, "all")?;
        let role = match look.primary {
            Some(true) => "a primary",
            Some(false) => "a replica since its drain",
            None => "of unknown role",
        };
        let what = format!("power cut: SIGKILL to the agent of {node} and its Redis, {role} ({count} processes)");
        scene.screen.say(&scene.screen.tint(Tone::Yellow, &what));
        self.cut_node = Some(node);
        let name = self.cut_node.clone().context("just set")?;
        self.away.push((tokio::time::Instant::now() + NODE_AWAY, Away::Node(name)));
        Ok(())
    }
}

/// Whether the step's node is down, or about to be.
fn has_begun_to_stop(step: &Step) -> bool {
    matches!(step.phase(), Phase::Stopping | Phase::Installing | Phase::Starting | Phase::Verifying)
}
