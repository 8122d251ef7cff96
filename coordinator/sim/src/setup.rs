//! What a seed draws: how large the system is, how fast its parts are, which faults there are in this run, and what happens when.
//!
//! Swarm testing: most runs have few kinds of faults, and those often. What all runs have a little of hides what one kind alone
//! would show.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{Rng as _, SeedableRng as _};
use rollcall_coordinator::raft::Tuning;
use rollcall_steps::Hook;

use crate::judge::Limits;
use crate::node::HookRates;
use crate::operator::MIN_HEALTHY_MS;
use crate::schedule::{Event, Fault, Kind, Verb};

/// Releases that operators start; the last one is kept for the end.
const STARTED: std::ops::Range<usize> = 1..4;

/// Hooks in which a node may die: what they begun is what its journal must not lose.
const DEADLY: [Hook; 6] = [Hook::Drain, Hook::PreStop, Hook::PostStop, Hook::Install, Hook::Init, Hook::Undrain];

/// Hooks behind which there is a commit point.
const UNCOMMITTED: [Hook; 2] = [Hook::ReadyToUpdate, Hook::Drain];

/// Everything about a run that isn't left to the system.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The seed.
    pub seed: u64,
    /// How many peers.
    pub peers: usize,
    /// How many nodes.
    pub nodes: usize,
    /// The group's policy.
    pub max_parallel: usize,
    /// The group's budget.
    pub max_unavailable: usize,
    /// What happens when a step fails: pause, or rollback.
    pub failure_action: &'static str,
    /// For how long a node may be away before it counts as departed.
    pub lost_after_ms: u64,
    /// The numbers of consensus.
    pub tuning: Tuning,
    /// How long messages take.
    pub latency_ms: (u64, u64),
    /// How long a peer's disk takes for a sync, at most; and a node's.
    pub sync_ms: (u64, u64),
    /// How much faster than time each peer's clock runs, in millionths.
    pub drift_ppm: Vec<i64>,
    /// What the hooks of nodes do.
    pub rates: HookRates,
    /// How long something may happen, from the moment at which the cluster is there.
    pub troubled_ms: u64,
    /// What happens in it, in order.
    pub schedule: Vec<Event>,
}

/// Chance for one purpose: what one part draws doesn't change what another does.
#[must_use]
pub fn stream(seed: u64, purpose: &str) -> StdRng {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&seed.to_le_bytes()).update(purpose.as_bytes());
    StdRng::from_seed(*hasher.finalize().as_bytes())
}

impl Setup {
    /// What this seed draws.
    #[must_use]
    pub fn draw(seed: u64) -> Self {
        let rng = &mut stream(seed, "setup");
        let peers = if rng.random_bool(0.8) { 3 } else { 5 };
        let nodes = rng.random_range(2..=4);
        let max_unavailable = rng.random_range(1..=2.min(nodes - 1));
        let troubled_ms = rng.random_range(20_000..60_000);
        let kinds = draw_kinds(rng);
        let tuning = Tuning {
            snapshot_every: *[20, 40, 120, 5_000].choose(rng).expect("there are some"),
            keep_entries: rng.random_range(5..50),
            purge_batch: rng.random_range(1..20),
            ..Tuning::default()
        };
        let misbehaves = kinds.contains(&Kind::Hooks);
        let rate = |rng: &mut StdRng, most: u32| if misbehaves { rng.random_range(0..most) } else { 0 };
        let rates = HookRates {
            fail: rate(rng, 60),
            hang: rate(rng, 40),
            again: rate(rng, 400),
            reboot: rate(rng, 500),
            sick: rate(rng, 60),
            crash: rate(rng, 100),
            flap: rate(rng, 500),
            repeat: if kinds.contains(&Kind::Repeats) { rng.random_range(100..800) } else { 0 },
            longest_ms: *[200, 400, 2_000].choose(rng).expect("there are some"),
        };
        let drift = |rng: &mut StdRng| if kinds.contains(&Kind::Clock) { rng.random_range(-20_000..20_000) } else { 0 };
        let mut setup = Self {
            seed,
            peers,
            nodes,
            max_parallel: rng.random_range(1..=2),
            max_unavailable,
            failure_action: if rng.random_bool(0.7) { "pause" } else { "rollback" },
            lost_after_ms: *[4_000, 8_000, 30_000].choose(rng).expect("there are some"),
            tuning,
            latency_ms: (1, rng.random_range(2..40)),
            sync_ms: (rng.random_range(1..40), rng.random_range(1..40)),
            drift_ppm: (0..peers).map(|_| drift(rng)).collect(),
            rates,
            troubled_ms,
            schedule: Vec::new(),
        };
        setup.schedule = setup.draw_schedule(&kinds);
        setup
    }

    /// What the judge knows of the group's policy.
    #[must_use]
    pub fn limits(&self) -> Limits {
        let Self { max_parallel, max_unavailable, .. } = *self;
        Limits { max_parallel, max_unavailable, min_healthy_ms: MIN_HEALTHY_MS }
    }

    fn draw_schedule(&self, kinds: &[Kind]) -> Vec<Event> {
        let rng = &mut stream(self.seed, "schedule");
        let mut events = Vec::new();
        // There is always something to do.
        let mut at_ms = rng.random_range(0..2_000);
        events.push((at_ms, Fault::Say(Verb::Start(STARTED.start))));
        while at_ms < self.troubled_ms {
            at_ms += rng.random_range(1_500..12_000);
            let verb = self.draw_verb(rng);
            events.push((at_ms, Fault::Say(verb)));
            // Who was in the middle of a step is soon at it again, under another fence.
            if verb == Verb::Pause && rng.random_bool(0.6) {
                events.push((at_ms + rng.random_range(300..3_000), Fault::Say(Verb::Resume)));
            }
        }
        let faults: Vec<_> = kinds.iter().filter(|kind| !matches!(kind, Kind::Hooks | Kind::Repeats)).collect();
        let pace_ms = rng.random_range(1_500..10_000);
        let mut at_ms = rng.random_range(0..5_000);
        while at_ms < self.troubled_ms && !faults.is_empty() {
            let kind = **faults.choose(rng).expect("there are some");
            events.push((at_ms, self.draw_fault(kind, rng)));
            at_ms += rng.random_range(200..pace_ms);
        }
        events.sort_by_key(|(at_ms, _)| *at_ms);
        let numbered = events.into_iter().enumerate();
        numbered.map(|(number, (at_ms, fault))| Event { number, at_ms, fault }).collect()
    }

    fn draw_verb(&self, rng: &mut StdRng) -> Verb {
        let node = rng.random_range(0..self.nodes);
        match rng.random_range(0..30) {
            0..=4 => Verb::Start(rng.random_range(STARTED)),
            5..=7 => Verb::Pause,
            8..=10 => Verb::Resume,
            11 => Verb::Stop,
            12 => Verb::Abort,
            13..=14 => Verb::Retry,
            15 => Verb::Skip(node),
            16..=17 => Verb::Hold(node),
            18 => Verb::Release(node),
            19..=20 => Verb::Revoke(node),
            21 => Verb::TransferLeader(rng.random_range(0..self.peers)),
            22 => Verb::Undo,
            23..=27 => Verb::Repeat(rng.random_range(0..12)),
            _ => Verb::ReplacePeer(rng.random_range(0..self.peers)),
        }
    }

    fn draw_fault(&self, kind: Kind, rng: &mut StdRng) -> Fault {
        let (peer, node) = (rng.random_range(0..self.peers), rng.random_range(0..self.nodes));
        let for_ms = match rng.random_range(0..4) {
            0 => rng.random_range(50..1_000),
            1 | 2 => rng.random_range(500..5_000),
            _ => rng.random_range(3_000..20_000),
        };
        match kind {
            Kind::PeerCrash => Fault::KillPeer { peer, for_ms },
            Kind::PeerPower => Fault::CutPeerPower { peer, for_ms, is_silent: rng.random_bool(0.5) },
            Kind::AgentCrash | Kind::NodePower if rng.random_bool(0.6) => Fault::DieInHook {
                hook: *DEADLY.choose(rng).expect("there are some"),
                after_ms: rng.random_range(0..800),
                // Often for so long that it counts as departed.
                for_ms: if rng.random_bool(0.5) { for_ms } else { rng.random_range(5_000..15_000) },
                is_power: kind == Kind::NodePower,
            },
            Kind::AgentCrash => Fault::KillAgent { node, for_ms },
            Kind::NodePower => Fault::CutNodePower { node, for_ms, is_silent: rng.random_bool(0.5) },
            Kind::Service if rng.random_bool(0.4) => Fault::UpsetOther {
                hook: *UNCOMMITTED.choose(rng).expect("there are some"),
                after_ms: rng.random_range(0..200),
                for_ms,
            },
            Kind::Service if rng.random_bool(0.5) => Fault::CrashService { node },
            Kind::Service => Fault::Sicken { node, for_ms },
            Kind::Partition => {
                let all = self.peers + self.nodes;
                let side: Vec<usize> = (0..all).filter(|_| rng.random_bool(0.5)).collect();
                Fault::Partition { side, for_ms }
            }
            Kind::OneWay => {
                let all = self.peers + self.nodes;
                let from = rng.random_range(0..all);
                let to = (from + rng.random_range(1..all)) % all;
                Fault::CutOneWay { from, to, for_ms }
            }
            Kind::Stall => Fault::Stall { side: vec![peer], for_ms: for_ms.min(4_000) },
            Kind::Slow => Fault::SlowNetwork { latency_ms: rng.random_range(50..600), for_ms },
            Kind::Loss => Fault::LoseMessages { permille: rng.random_range(1..40), for_ms },
            Kind::Disk => match rng.random_range(0..3) {
                0 => Fault::FillDisk { peer, for_ms },
                1 => Fault::FailSync { peer },
                _ => Fault::SlowDisk { peer, for_ms },
            },
            Kind::Clock => Fault::JumpClock { peer, by_ms: rng.random_range(-7_200_000..7_200_000) },
            Kind::Hooks | Kind::Repeats => Fault::Sicken { node, for_ms },
            Kind::Planner => Fault::ErrInPlanning { node },
            Kind::Amnesia => Fault::AmnesiaQuorum {
                follower: peer,
                before_ms: rng.random_range(300..1_500),
                after_ms: rng.random_range(500..2_500),
            },
        }
    }
}

/// Each kind in some runs; few in most.
fn draw_kinds(rng: &mut StdRng) -> Vec<Kind> {
    let likely = *[0.1, 0.2, 0.4, 0.8].choose(rng).expect("there are some");
    Kind::ALL.into_iter().filter(|_| rng.random_bool(likely)).collect()
}
