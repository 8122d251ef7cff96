//! One run: builds the system that a seed draws, lets time pass, has happen what is scheduled, and ends with a verdict.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::Context as _;
use rand::Rng as _;
use rand::rngs::StdRng;
use rollcall_steps::Hook;
use tempfile::TempDir;
use turmoil::Sim;

use crate::judge::{Judge, Violation};
use crate::machines::{Machines, PeerMachine};
use crate::node::{self, Machine};
use crate::operator::{self, Desk, Stage};
use crate::schedule::{Event, Fault};
use crate::setup::{Setup, stream};
use crate::trace::Trace;
use crate::{clock, disk, faults, panics, peer};

/// How far time goes at once: messages arrive, and machines die, between two of these.
const TICK: Duration = Duration::from_millis(5);

/// BOUND: for the cluster to be made, and the nodes to come; everything is well meanwhile.
const FOUNDING_MS: u64 = 60_000;

/// BOUND: for everything to end once nothing goes wrong any more: two rollouts of four nodes, each of which may have to wait for a
/// deadline of its policy first, and a progress deadline before a person looks.
const SETTLING_MS: u64 = 400_000;

/// BOUND: for the last peer to apply what the others have.
const CATCHING_UP_MS: u64 = 30_000;

/// What a run came to.
#[derive(Debug, Clone)]
pub struct Report {
    /// What must not happen, and happened.
    pub violation: Option<Violation>,
    /// How long it took, in the system's time.
    pub took_ms: u64,
    /// Lines of its trace.
    pub lines: u64,
    /// Their digest.
    pub digest: String,
    /// What it has seen.
    pub counts: BTreeMap<&'static str, u64>,
}

/// Runs a seed, without these events of its schedule.
///
/// # Errors
/// The machine that simulates fails; nothing is known of the system then.
pub fn run(setup: Setup, without: &BTreeSet<usize>, sinks: Vec<Box<dyn Write + Send>>) -> anyhow::Result<Report> {
    let shared_memory = std::path::Path::new("/dev/shm");
    let parent = if shared_memory.is_dir() { shared_memory.to_owned() } else { std::env::temp_dir() };
    let dir =
        tempfile::Builder::new().prefix("rollcall-sim-").tempdir_in(parent).context("no place for the peers' data")?;
    let judge = Judge::new(Trace::new(sinks), setup.limits());
    let panicked = panics::catch();
    clock::stop_for_this_thread();
    let ran = catch_unwind(AssertUnwindSafe(|| Run::new(setup, without, &dir, judge.clone()).finish()));
    match ran {
        Ok(result) => result?,
        Err(_) => judge.accuse(Violation::new("panic", panicked.last())),
    }
    let (lines, digest) = judge.trace();
    Ok(Report { violation: judge.verdict(), took_ms: judge.now_ms(), lines, digest, counts: judge.counts() })
}

/// A run that is under way.
pub(crate) struct Run<'a> {
    pub sim: Sim<'a>,
    pub setup: Rc<Setup>,
    pub judge: Judge,
    pub machines: Arc<Machines>,
    pub nodes: Vec<Rc<RefCell<Machine>>>,
    pub rng: StdRng,
    desk: Rc<Desk>,
    schedule: Vec<Event>,
    /// What ends, or begins again, when.
    pub later: Vec<(u64, Later)>,
    /// Hosts that are down, and will be started.
    pub down: BTreeSet<String>,
    troubled_since: Option<u64>,
    /// What waits for a node to begin a hook.
    pub armed: Vec<(Hook, u64, Fault)>,
}

/// What follows from a fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Later {
    Start(String),
    Repair(Vec<(String, String)>),
    RepairOneWay(String, String),
    Release(Vec<(String, String)>),
    NormalLatency,
    NoLoss,
    DiskWell(usize),
    Fault(Fault),
}

impl Run<'_> {
    fn new<'a>(setup: Setup, without: &BTreeSet<usize>, dir: &TempDir, judge: Judge) -> Run<'a> {
        let setup = Rc::new(setup);
        let seed = setup.seed;
        let mut builder = turmoil::Builder::new();
        builder
            .rng_seed(stream(seed, "network").random())
            .epoch(UNIX_EPOCH)
            .tick_duration(TICK)
            .simulation_duration(Duration::from_secs(86_400))
            .min_message_latency(Duration::from_millis(setup.latency_ms.0))
            .max_message_latency(Duration::from_millis(setup.latency_ms.1))
            .tcp_capacity(4_096)
            .enable_random_order();
        let mut sim = builder.build();
        let peers = (0..setup.peers).map(|peer| {
            let name = peer_name(peer);
            PeerMachine::new(&name, dir.path().join(&name), setup.sync_ms.0, setup.drift_ppm[peer])
        });
        let machines = Machines::new(peers.collect(), stream(seed, "machines").random(), judge.clone());
        rollcall_coordinator::world::stand_in(machines.clone());
        for peer in 0..setup.peers {
            let (machines, tuning, judge) = (machines.clone(), setup.tuning, judge.clone());
            sim.host(peer_name(peer), move || peer::run(peer, machines.clone(), tuning, judge.clone()));
        }
        let endpoints: Vec<_> = (0..setup.peers).map(|peer| peer::address(&peer_name(peer))).collect();
        let mut nodes = Vec::new();
        for number in 1..=setup.nodes {
            let seed = stream(seed, &format!("node {number}")).random();
            let machine = Rc::new(RefCell::new(Machine::new(number, seed, setup.rates, setup.sync_ms.1)));
            nodes.push(machine.clone());
            let (endpoints, judge) = (endpoints.clone(), judge.clone());
            let name = machine.borrow().name.clone();
            sim.host(name, move || node::run(machine.clone(), endpoints.clone(), judge.clone()));
        }
        let desk = Rc::new(Desk::default());
        let (told, works, looks) = (setup.clone(), desk.clone(), judge.clone());
        sim.host("op", move || operator::run(told.clone(), works.clone(), looks.clone()));
        let schedule = setup.schedule.iter().filter(|event| !without.contains(&event.number)).cloned().collect();
        Run {
            sim,
            judge,
            machines,
            nodes,
            rng: stream(seed, "run"),
            desk,
            schedule,
            later: Vec::new(),
            down: BTreeSet::new(),
            troubled_since: None,
            armed: Vec::new(),
            setup,
        }
    }

    fn finish(mut self) -> anyhow::Result<()> {
        while self.judge.verdict().is_none() {
            self.step()?;
            let now_ms = self.judge.now_ms();
            match (self.desk.stage.get(), self.troubled_since) {
                (Stage::Founding, _) if now_ms > FOUNDING_MS => self.is_late("the cluster isn't there"),
                (Stage::Founding, _) => {}
                (Stage::Troubled, None) => self.troubled_since = Some(now_ms),
                (Stage::Troubled, Some(since)) => {
                    self.have_happen(now_ms - since);
                    if now_ms - since > self.setup.troubled_ms {
                        self.heal();
                    }
                }
                (Stage::Settling, since) => {
                    let end_ms = since.unwrap_or(now_ms) + self.setup.troubled_ms + SETTLING_MS;
                    if now_ms > end_ms {
                        let waits = self.desk.waits_for.borrow().clone();
                        self.is_late(&format!("it doesn't come to an end: {waits}"));
                    }
                }
                (Stage::Settled, _) => return self.compare(),
            }
        }
        Ok(())
    }

    fn is_late(&self, what: &str) {
        self.judge.accuse(Violation::new("R13", what));
    }

    /// Time passes.
    fn step(&mut self) -> anyhow::Result<()> {
        self.sim.step().map_err(|error| anyhow::anyhow!("the simulation fails: {error}"))?;
        let now_ms = u64::try_from(self.sim.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.judge.advance(now_ms);
        for machine in self.nodes.clone() {
            let (is_well, wants_reboot, name) = {
                let mut machine = machine.borrow_mut();
                (machine.is_well(now_ms), machine.wants_reboot, machine.name.clone())
            };
            self.judge.witness(|witness, at_ms| {
                witness.is_well(&name, is_well, at_ms);
                None
            });
            if wants_reboot && !self.down.contains(&name) {
                let away_ms = self.rng.random_range(500..6_000);
                self.sim.crash(name.clone());
                machine.borrow_mut().reboot();
                self.judge.note(&name, "reboots");
                self.judge.count("reboots");
                self.start_later(name, away_ms);
            }
        }
        for peer in 0..self.setup.peers {
            let name = peer_name(peer);
            if !self.down.contains(&name) && !self.sim.is_host_running(name.clone()) {
                let away_ms = self.rng.random_range(500..3_000);
                self.start_later(name, away_ms);
            }
        }
        for (name, hook) in self.judge.fresh_hooks() {
            faults::spring(self, &name, hook);
        }
        let emptied = self.desk.emptied.take();
        emptied.into_iter().for_each(|peer| self.empty(peer));
        let (due, later) = std::mem::take(&mut self.later).into_iter().partition(|(at_ms, _)| *at_ms <= now_ms);
        self.later = later;
        let due: Vec<(u64, Later)> = due;
        due.into_iter().for_each(|(_, what)| self.do_now(what));
        Ok(())
    }

    /// Exchanges the disk of a peer for an empty one.
    fn empty(&mut self, peer: usize) {
        let name = peer_name(peer);
        if !self.down.contains(&name) {
            self.sim.crash(name.clone());
            self.start_later(name.clone(), 200);
        }
        let emptied = self.machines.with(peer, |machine, _| {
            machine.disk.synced_nothing();
            std::fs::remove_dir_all(&machine.data_dir)
        });
        self.judge.note(&name, format_args!("gets an empty disk: {}", emptied.is_ok()));
    }

    /// Starts a host again after a while.
    pub(crate) fn start_later(&mut self, host: String, in_ms: u64) {
        self.down.insert(host.clone());
        self.later.push((self.judge.now_ms() + in_ms, Later::Start(host)));
    }

    fn do_now(&mut self, what: Later) {
        match what {
            Later::Start(host) => {
                self.down.remove(&host);
                self.sim.bounce(host);
            }
            Later::Repair(pairs) => pairs.into_iter().for_each(|(a, b)| self.sim.repair(a, b)),
            Later::RepairOneWay(from, to) => self.sim.repair_oneway(from, to),
            Later::Release(pairs) => pairs.into_iter().for_each(|(a, b)| self.sim.release(a, b)),
            Later::NormalLatency => {
                self.sim.set_max_message_latency(Duration::from_millis(self.setup.latency_ms.1));
            }
            Later::NoLoss => self.sim.set_fail_rate(0.0),
            Later::Fault(fault) => faults::inject(self, fault),
            Later::DiskWell(peer) => self.machines.with(peer, |machine, _| machine.disk.mood = disk::Mood::Well),
        }
    }

    /// Has happen what is due by then.
    fn have_happen(&mut self, at_ms: u64) {
        while self.schedule.first().is_some_and(|event| event.at_ms <= at_ms) {
            let event = self.schedule.remove(0);
            self.judge.note("--", &event);
            match event.fault {
                Fault::Say(verb) => self.desk.said.borrow_mut().push_back(verb),
                fault => faults::inject(self, fault),
            }
        }
    }

    /// Nothing goes wrong any more: what is down is started, what is cut is mended.
    fn heal(&mut self) {
        self.judge.note("--", "nothing goes wrong any more");
        self.armed.clear();
        for (_, what) in std::mem::take(&mut self.later) {
            if !matches!(what, Later::Fault(_)) {
                self.do_now(what);
            }
        }
        for peer in 0..self.setup.peers {
            self.do_now(Later::DiskWell(peer));
            self.machines.with(peer, |machine, _| machine.wall_offset_ms = 0);
        }
        let now_ms = self.judge.now_ms();
        self.nodes.iter().for_each(|machine| machine.borrow_mut().heal(now_ms));
        self.desk.stage.set(Stage::Settling);
    }

    /// In the end all peers hold the same, and all that was promised.
    fn compare(&mut self) -> anyhow::Result<()> {
        let until_ms = self.judge.now_ms() + CATCHING_UP_MS;
        let names: Vec<_> = (0..self.setup.peers).map(peer_name).collect();
        while self.judge.verdict().is_none() && !self.judge.agree(&names) {
            if self.judge.now_ms() > until_ms {
                self.is_late("the peers don't come to the same revision");
            }
            self.step()?;
        }
        self.judge.pledge(|pledges| pledges.broken()).into_iter().for_each(|violation| self.judge.accuse(violation));
        if self.judge.verdict().is_none() && self.judge.unread() > 0 {
            let what = format!("{} records have no predecessor", self.judge.unread());
            self.judge.accuse(Violation::new("L6", what));
        }
        self.judge.note("--", "it has come to an end");
        Ok(())
    }
}

/// The host of a peer.
pub(crate) fn peer_name(peer: usize) -> String {
    format!("p{}", peer + 1)
}
