//! Which power is cut when: drawn from a seed, before anything runs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rollcall_jepsen::history::{EventKind, Record};

/// How long a machine is away: a quick reboot, or a slower one.
const AWAY_MS: std::ops::Range<u64> = 300..2_500;

/// How many nodes reboot themselves in their install hook.
pub const REBOOTING_NODES: usize = 3;

/// A phase boundary of a step, as its hooks show it: the first of a phase is about to act, or the last has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Moment {
    /// Granted, and about to prepare.
    Preparing,
    /// Prepared, and about to drain.
    Draining,
    /// Drained, and about to stop.
    Stopping,
    /// Stopped, and about to install.
    Installing,
    /// Installed, and about to start: the hook has ended, and its outcome may not be on the disk yet.
    Installed,
    /// Started, and about to verify: the new process is there and has not begun to serve.
    Starting,
    /// Verified, and about to end.
    Undraining,
    /// At its end: the last hook has ended, and that may not be on the disk yet.
    Ended,
}

impl Moment {
    /// In the order in which a step goes through them.
    pub const ALL: [Self; 8] = [
        Self::Preparing,
        Self::Draining,
        Self::Stopping,
        Self::Installing,
        Self::Installed,
        Self::Starting,
        Self::Undraining,
        Self::Ended,
    ];

    /// What a hook tells, and in which phase it has to be then.
    const fn sign(self) -> (EventKind, &'static str, &'static str) {
        match self {
            Self::Preparing => (EventKind::Begin, "ready-to-update", "preparing"),
            Self::Draining => (EventKind::Begin, "drain", "draining"),
            Self::Stopping => (EventKind::Begin, "pre-stop", "stopping"),
            Self::Installing => (EventKind::Begin, "install", "installing"),
            Self::Installed => (EventKind::End, "install", "installing"),
            Self::Starting => (EventKind::Begin, "run", "starting"),
            Self::Undraining => (EventKind::Begin, "undrain", "verifying"),
            Self::Ended => (EventKind::End, "undrain", "verifying"),
        }
    }

    /// Which one a hook's word is. The same hook in another phase is none: `undrain` also turns a step back.
    pub fn of(record: &Record) -> Option<Self> {
        Self::ALL.into_iter().find(|moment| {
            let (event, hook, phase) = moment.sign();
            let said = (record.event, record.hook.as_str(), record.phase.as_str());
            said == (event, hook, phase) && (event == EventKind::Begin || record.exit == Some(0))
        })
    }

    /// For people.
    pub fn name(self) -> String {
        let (event, hook, _) = self.sign();
        format!("{hook} {}", if event == EventKind::Begin { "begins" } else { "has ended" })
    }
}

/// A node and a moment of its step.
pub type Point = (String, Moment);

/// What is done in one rollout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Nodes whose power goes at that moment of their own step, and for how long.
    pub nodes: BTreeMap<Point, Duration>,
    /// Peers whose power goes at that moment of somebody's step, and for how long.
    pub peers: BTreeMap<Point, (usize, Duration)>,
    /// Who reboots in the install hook.
    pub rebooting: BTreeSet<String>,
}

impl Plan {
    /// Draws `count` cuts of nodes (`None`: all there are), a cut of each peer, and who reboots.
    pub fn draw(seed: u64, nodes: &[String], peer_count: usize, count: Option<usize>) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let away = |random: &mut StdRng| Duration::from_millis(random.random_range(AWAY_MS));
        // Each node and each moment once before any comes a second time.
        let (mut order, mut moments) = (nodes.to_vec(), Moment::ALL);
        order.shuffle(&mut random);
        moments.shuffle(&mut random);
        let points: Vec<Point> = (0..moments.len())
            .flat_map(|round| (0..order.len()).map(move |place| (round, place)))
            .map(|(round, place)| (order[place].clone(), moments[(place + round) % moments.len()]))
            .collect();
        let chosen: Vec<Point> = points.iter().take(count.unwrap_or(points.len())).cloned().collect();
        let nodes_cut = chosen.iter().map(|point| (point.clone(), away(&mut random))).collect();

        // Peers go at other moments where there are any, each in another node's step: never two at a time.
        let mut peers = BTreeMap::new();
        order.shuffle(&mut random);
        for (peer, node) in (0..peer_count).zip(&order) {
            let mut free: Vec<Moment> = Moment::ALL.to_vec();
            free.retain(|moment| !chosen.contains(&(node.clone(), *moment)));
            let from = if free.is_empty() { &Moment::ALL[..] } else { &free };
            let moment = from[random.random_range(0..from.len())];
            peers.insert((node.clone(), moment), (peer, away(&mut random)));
        }
        order.shuffle(&mut random);
        let rebooting = order.into_iter().take(REBOOTING_NODES).collect();
        Self { nodes: nodes_cut, peers, rebooting }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes() -> Vec<String> {
        (1..=6).map(|number| format!("redis-{number}")).collect()
    }

    #[test]
    fn in_full_each_node_is_cut_at_each_moment() {
        let plan = Plan::draw(1, &nodes(), 3, None);
        assert_eq!(plan.nodes.len(), nodes().len() * Moment::ALL.len());
        assert_eq!((plan.peers.len(), plan.rebooting.len()), (3, 3));
    }

    #[test]
    fn a_sample_has_each_node_and_as_many_moments_as_it_can() {
        for seed in 0..200 {
            let plan = Plan::draw(seed, &nodes(), 3, Some(6));
            let distinct: BTreeSet<Moment> = plan.nodes.keys().map(|(_, moment)| *moment).collect();
            let who: BTreeSet<&String> = plan.nodes.keys().map(|(node, _)| node).collect();
            assert_eq!((plan.nodes.len(), distinct.len(), who.len()), (6, 6, 6), "seed {seed}");
            assert!(plan.peers.keys().all(|point| !plan.nodes.contains_key(point)));
            let peers: BTreeSet<usize> = plan.peers.values().map(|(peer, _)| *peer).collect();
            assert_eq!(peers, BTreeSet::from([0, 1, 2]));
        }
    }

    #[test]
    fn a_seed_draws_the_same_again() {
        assert_eq!(Plan::draw(7, &nodes(), 3, Some(6)), Plan::draw(7, &nodes(), 3, Some(6)));
        assert_ne!(Plan::draw(7, &nodes(), 3, Some(6)), Plan::draw(8, &nodes(), 3, Some(6)));
    }

    #[test]
    fn a_moment_is_known_by_its_hooks_word() {
        let mut record = Record::new(Duration::ZERO, EventKind::End, "a", "install");
        (record.exit, record.phase) = (Some(0), "installing".into());
        assert_eq!(Moment::of(&record), Some(Moment::Installed));
        record.exit = Some(1);
        assert_eq!(Moment::of(&record), None);
        record.event = EventKind::Begin;
        assert_eq!(Moment::of(&record), Some(Moment::Installing));
        record.phase = "draining".into();
        assert_eq!(Moment::of(&record), None);
    }
}
