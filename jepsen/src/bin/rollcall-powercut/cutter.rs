//! Follows a rollout and cuts the power as planned: each node at its moments, each peer at one, and nobody twice.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rollcall_jepsen::power::disk::Loss;
use rollcall_jepsen::power::machine::{End, Machine};
use rollcall_jepsen::report::seconds;
use rollcall_jepsen::screen::Tone;
use rollcall_jepsen::witness::Told;
use rollcall_proto::ShortName;
use rollcall_proto::v1::{Phase, Rollout, RolloutStatus};
use tokio::time::Instant;

use crate::plan::{Moment, Plan, Point};
use crate::site::{NODE_COUNT, Site, wait_until_listening};

/// BOUND: how long no step of a rollout may enter another phase. Longer than what a change of leader and an election of
/// Redis take.
const MOVES_WITHIN: Duration = Duration::from_secs(90);

/// How often it is looked at whether a halted rollout may go on.
const LOOKS_EVERY: Duration = Duration::from_millis(100);

/// How long a machine takes that reboots by itself.
const REBOOT_TAKES: Duration = Duration::from_millis(500);

/// A cut as it was done.
#[derive(Debug, Clone)]
pub struct Cut {
    /// At which moment of whose step.
    pub point: Point,
    /// Whose power: the node itself, or a peer.
    pub machine: String,
    /// The node's boot before it.
    pub boot: String,
    /// What went with it.
    pub loss: Loss,
}

/// What was done in a rollout.
#[derive(Debug, Default)]
pub struct Done {
    /// Cuts of nodes.
    pub nodes: BTreeMap<Point, Cut>,
    /// Cuts of peers.
    pub peers: Vec<Cut>,
    /// Nodes that rebooted themselves, once for each time.
    pub reboots: Vec<String>,
    /// How often an updated member that a cut had hit halted the rollout, and a person let it go on.
    pub resumed_count: usize,
}

/// Carries a plan out.
pub struct Cutter<'a> {
    plan: &'a Plan,
    rollout_id: String,
    /// What was done.
    pub done: Done,
    /// Machines without power, by their names, and when they get it back.
    away: BTreeMap<String, Instant>,
    told: BTreeMap<String, Phase>,
    /// The revision at which the rollout was let go on.
    resumed_at: u64,
}

impl<'a> Cutter<'a> {
    /// For one rollout.
    pub fn new(plan: &'a Plan, rollout_id: &str) -> Self {
        let (done, away, told) = (Done::default(), BTreeMap::new(), BTreeMap::new());
        Self { plan, rollout_id: rollout_id.to_owned(), done, away, told, resumed_at: 0 }
    }

    /// Follows the rollout to its end, or until it waits for a person; by then every machine has power again.
    pub async fn follow(&mut self, site: &mut Site) -> Result<Rollout> {
        let mut held = site.witness.hold();
        let mut watch = site.api.watch(&self.rollout_id);
        let mut at_rest: Option<Rollout> = None;
        let mut moved_at = Instant::now();
        loop {
            if self.away.is_empty()
                && let Some(rollout) = &at_rest
            {
                if !self.waits_for_a_member(rollout) {
                    return Ok(rollout.clone());
                }
                if self.resume_if_all_are_healthy(site).await? {
                    (at_rest, moved_at) = (None, Instant::now());
                }
            }
            let next_return = self.away.values().min().copied();
            tokio::select! {
                told = held.recv() => self.hear(site, told.context("the witness is gone")?).await?,
                end = site.ends.recv() => self.mourn(site, end.context("no machine is left")?).await?,
                state = watch.next(), if at_rest.is_none() => {
                    let state = state.context("the watch ended too early")?;
                    // What was said before it was let go on, is over.
                    if state.revision < self.resumed_at {
                        continue;
                    }
                    let rollout = state.rollout.context("a state without its rollout")?;
                    if self.tell(site, &rollout) {
                        moved_at = Instant::now();
                    }
                    at_rest = Some(rollout).filter(is_at_rest);
                }
                () = until(next_return) => self.bring_back(site).await?,
                () = tokio::time::sleep(LOOKS_EVERY), if at_rest.is_some() => {}
                () = tokio::time::sleep_until(moved_at + MOVES_WITHIN) => {
                    let explained = site.api.rollout("", &self.rollout_id).await?.rollout.unwrap_or_default();
                    bail!("{} hasn't moved for {MOVES_WITHIN:?}: {}", self.rollout_id, stands(&explained));
                }
            }
        }
    }

    /// A hook waits for its answer: now or never.
    async fn hear(&mut self, site: &mut Site, told: Told) -> Result<()> {
        let record = &told.record;
        let of_rollout = record.rollout == self.rollout_id && record.to == site.releases.second;
        let Some(moment) = Moment::of(record).filter(|_| of_rollout) else {
            told.answer();
            return Ok(());
        };
        let point = (record.node.clone(), moment);
        let cut = Cut {
            point: point.clone(),
            machine: record.node.clone(),
            boot: record.boot.clone(),
            loss: Loss::default(),
        };
        if let Some((peer, away)) = self.plan.peers.get(&point).copied() {
            self.cut_peer(site, peer, away, cut.clone()).await?;
        }
        match self.plan.nodes.get(&point).copied().filter(|_| !self.done.nodes.contains_key(&point)) {
            // Its hook never gets an answer, and nothing of it is left when this returns.
            Some(away) => self.cut_node(site, away, cut).await?,
            None => told.answer(),
        }
        Ok(())
    }

    async fn cut_node(&mut self, site: &mut Site, away: Duration, mut cut: Cut) -> Result<()> {
        let node = named(&mut site.nodes, &cut.machine)?;
        if !node.is_running() {
            return Ok(());
        }
        cut.loss = node.cut_power().await?;
        site.witness.killed(&cut.machine, "all")?;
        self.tell_cut(site, &cut, away);
        self.away.insert(cut.machine.clone(), Instant::now() + away);
        self.done.nodes.insert(cut.point.clone(), cut);
        Ok(())
    }

    /// Once each, and never two at a time: one that is still away comes back before.
    async fn cut_peer(&mut self, site: &mut Site, peer: usize, away: Duration, mut cut: Cut) -> Result<()> {
        let name = site.peers.get(peer).context("the plan names a peer that isn't there")?.name().to_owned();
        if self.done.peers.iter().any(|done| done.machine == name) {
            return Ok(());
        }
        for other in site.peers.iter_mut().filter(|other| !other.is_running()) {
            other.switch_on().await?;
            self.away.remove(other.name());
            wait_until_listening(other).await?;
        }
        let peer = &mut site.peers[peer];
        cut.machine = name;
        cut.loss = peer.cut_power().await?;
        self.tell_cut(site, &cut, away);
        self.away.insert(cut.machine.clone(), Instant::now() + away);
        self.done.peers.push(cut);
        Ok(())
    }

    /// A machine's first process ended: a reboot that a hook did, a cut of ours that is known, or a failure.
    async fn mourn(&mut self, site: &mut Site, end: End) -> Result<()> {
        let all = site.nodes.iter_mut().chain(&mut site.peers);
        let Some(machine) = all.into_iter().find(|machine| machine.number() == end.number) else { return Ok(()) };
        if !machine.is_running() || machine.boot_count() != end.boot {
            return Ok(());
        }
        if !end.rebooted {
            bail!("the program of {} ended by itself; its log: {}", machine.name(), machine.log().display());
        }
        let loss = machine.clean_up().await?;
        let name = machine.name().to_owned();
        site.witness.killed(&name, "all")?;
        site.screen.say(&format!("{name} reboots itself in its install hook{}", lost(loss)));
        self.away.insert(name.clone(), Instant::now() + REBOOT_TAKES);
        self.done.reboots.push(name);
        Ok(())
    }

    async fn bring_back(&mut self, site: &mut Site) -> Result<()> {
        let now = Instant::now();
        for machine in site.nodes.iter_mut().chain(&mut site.peers) {
            if self.away.get(machine.name()).is_some_and(|at| *at <= now) {
                machine.switch_on().await?;
                self.away.remove(machine.name());
            }
        }
        Ok(())
    }

    /// An updated member that isn't healthy any more halts the rollout, whatever the reason, and what comes next is for a
    /// person to say. Here it has lost its power at the end of its step, or its primary has before the drain. Without a
    /// cut to explain it, it is a failure.
    fn waits_for_a_member(&self, rollout: &Rollout) -> bool {
        rollout.status() == RolloutStatus::Paused
            && rollout.pause_causes == ["member_unhealthy"]
            && self.done.nodes.len() > self.done.resumed_count
    }

    /// That person: once all members are healthy, from outside and by Rollcall's own word, it goes on.
    async fn resume_if_all_are_healthy(&mut self, site: &Site) -> Result<bool> {
        if site.seen.ask(|seen| seen.healthy_count()) < NODE_COUNT || !site.members_are_healthy().await? {
            return Ok(false);
        }
        self.resumed_at = site.api.resume_rollout(&self.rollout_id).await?;
        self.done.resumed_count += 1;
        site.screen
            .say("halted by an updated member that a cut has hit; all are healthy again: rollcall rollout resume");
        Ok(true)
    }

    fn tell_cut(&self, site: &Site, cut: &Cut, away: Duration) {
        let (node, moment) = &cut.point;
        let whose = if cut.machine == *node { String::new() } else { format!("of {node} ") };
        let what =
            format!("{}  power cut: {} {whose}for {}{}", cut.machine, moment.name(), seconds(away), lost(cut.loss));
        site.screen.say(&site.screen.tint(Tone::Yellow, &what));
    }

    /// Tells what is new; whether anything is.
    fn tell(&mut self, site: &Site, rollout: &Rollout) -> bool {
        let mut moved = false;
        for (place, step) in rollout.steps.iter().enumerate() {
            let phase = step.phase();
            if self.told.insert(step.node_name.clone(), phase) == Some(phase) {
                continue;
            }
            moved = true;
            let place = format!("{}/{}", place + 1, rollout.steps.len());
            match phase {
                Phase::Succeeded => {
                    let done = site.screen.tint(Tone::Green, "healthy on its new release");
                    site.screen.say(&format!("{place}  {}  {done}", step.node_name));
                }
                Phase::Failed => {
                    let failure = step.failure.clone().unwrap_or_default();
                    let what = format!("{place}  {}  failed: {}: {}", step.node_name, failure.reason, failure.detail);
                    site.screen.say(&site.screen.tint(Tone::Red, &what));
                }
                _ => {}
            }
        }
        moved
    }
}

/// An error where it ended otherwise than it should.
pub fn ensure_succeeded(rollout: &Rollout) -> Result<()> {
    if rollout.status() != RolloutStatus::Succeeded {
        let why = rollout.waiting_on.as_ref().map(|waiting| waiting.detail.clone()).unwrap_or_default();
        let causes = rollout.pause_causes.join(", ");
        bail!("rollout {} is {} {causes} {why}", rollout.rollout_id, rollout.status().short_name());
    }
    Ok(())
}

/// Where each step stands.
fn stands(rollout: &Rollout) -> String {
    let steps = rollout.steps.iter().map(|step| format!("{} {}", step.node_name, step.phase().short_name()));
    steps.collect::<Vec<_>>().join(", ")
}

fn is_at_rest(rollout: &Rollout) -> bool {
    rollout.ended_at.is_some() || rollout.status() == RolloutStatus::Paused
}

fn named<'a>(machines: &'a mut [Machine], name: &str) -> Result<&'a mut Machine> {
    machines.iter_mut().find(|machine| machine.name() == name).with_context(|| format!("no machine named {name}"))
}

fn lost(loss: Loss) -> String {
    if loss == Loss::default() { String::new() } else { format!("; lost {} bytes, {} names", loss.bytes, loss.names) }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
