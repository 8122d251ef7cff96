//! SIGKILL of any one process, or of all peers, at any phase boundary of a rollout: it never makes two members unhealthy at once, never
//! repeats or skips a step, and the rollout still ends.
//!
//! In CI a sample that has each phase and each kind of process once; with `ROLLCALL_FULL=1` all of them. Needs the
//! product's binaries in the target folder, as `scripts/test` builds them.

#![allow(clippy::unwrap_used, reason = "a test that can't go on, fails")]

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rand::Rng;
use rollcall_jepsen::api::Api;
use rollcall_jepsen::availability::SharedAvailability;
use rollcall_jepsen::binaries::Binaries;
use rollcall_jepsen::check::{
    Outcome, Verdict, accepted_release, fences, installs, no_repeat, no_skip, runs, serial, width,
};
use rollcall_jepsen::clock::Clock;
use rollcall_jepsen::cluster::Cluster;
use rollcall_jepsen::depot::Depot;
use rollcall_jepsen::run_dir::RunDir;
use rollcall_jepsen::sample::{self, GROUP, Samplers};
use rollcall_jepsen::witness::Witness;
use rollcall_proto::v1::{self, Phase, RolloutStatus};

const NODES: [&str; 3] = ["node-1", "node-2", "node-3"];

/// The fault comes in the second node's step: there is one before it and one after it.
const STRICKEN_STEP: usize = 1;

/// BOUND: three steps, and a change of leader.
const ENDS_WITHIN: Duration = Duration::from_secs(60);

const PHASES: [Phase; 6] =
    [Phase::Preparing, Phase::Draining, Phase::Stopping, Phase::Installing, Phase::Starting, Phase::Verifying];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    Leader,
    FirstFollower,
    SecondFollower,
    AllPeers,
    SteppingAgent,
    Service,
    OtherAgent,
}

const VICTIMS: [Victim; 7] = [
    Victim::Leader,
    Victim::FirstFollower,
    Victim::SecondFollower,
    Victim::AllPeers,
    Victim::SteppingAgent,
    Victim::Service,
    Victim::OtherAgent,
];

/// Between the stop and the start there is no service to kill.
fn exists(phase: Phase, victim: Victim) -> bool {
    victim != Victim::Service || !matches!(phase, Phase::Stopping | Phase::Installing)
}

/// All pairs, or a sample with each phase and each victim in it.
fn scenarios() -> Vec<(Phase, Victim)> {
    let all = std::env::var_os("ROLLCALL_FULL").is_some();
    let shift = rand::rng().random_range(0..VICTIMS.len());
    let mut chosen = Vec::new();
    for (row, phase) in PHASES.into_iter().enumerate() {
        for (column, victim) in VICTIMS.into_iter().enumerate() {
            if exists(phase, victim) && (all || (row + shift) % VICTIMS.len() == column) {
                chosen.push((phase, victim));
            }
        }
    }
    // One victim more than there are phases, and one pair that doesn't exist: each dies in each sample.
    for victim in VICTIMS {
        if !chosen.iter().any(|(_, chosen)| *chosen == victim) {
            chosen.push((if victim == Victim::Service { Phase::Verifying } else { Phase::Installing }, victim));
        }
    }
    chosen
}

struct Stage {
    api: Api,
    seen: SharedAvailability,
    witness: Witness,
    depot: Depot,
    clock: Clock,
    _samplers: Samplers,
    cluster: Cluster,
    run: RunDir,
}

impl Stage {
    async fn set() -> Self {
        let clock = Clock::start();
        let run = RunDir::create("rollcall-kill-").unwrap();
        let depot = Depot::create(run.path().join("depot")).unwrap();
        let witness = Witness::start(&run.path().join("witness.jsonl"), clock).await.unwrap();
        let mut cluster = Cluster::create(&run, Binaries::find().unwrap(), 3).unwrap();
        let endpoints = cluster.endpoints();
        let members: Vec<(String, PathBuf)> =
            NODES.iter().map(|node| ((*node).to_owned(), run.folder(&format!("state-{node}")).unwrap())).collect();
        for (name, state) in &members {
            let config = sample::agent_config(name, &endpoints, &depot, &witness, state);
            cluster.add_agent(&run, config).unwrap();
        }
        cluster.start_peers().await.unwrap();
        let api = Api::new(&endpoints).unwrap();
        api.init_cluster(&endpoints[1..]).await.unwrap();
        cluster.start_agents().unwrap();
        let seen = SharedAvailability::default();
        let _samplers = Samplers::start(&members, &seen, clock);
        let stage = Self { api, seen, witness, depot, clock, _samplers, cluster, run };
        stage.api.apply_group(group()).await.unwrap();
        stage.wait_for_members().await;
        stage
    }

    async fn wait_for_members(&self) {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
        loop {
            let members = self.api.group(GROUP).await.unwrap().members;
            if members.iter().filter(|member| member.presence == "present").count() == NODES.len() {
                return;
            }
            assert!(tokio::time::Instant::now() < deadline, "only {members:?} are present");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// The last one may have been taken for up while the sampler looked away: until each was looked at from here on.
    async fn look_once_more(&self) {
        let before = self.seen.ask(|seen| seen.looks.clone());
        let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
        // The next look may have begun already.
        while !self.seen.ask(|seen| before.iter().all(|(member, looks)| seen.looks[member] >= looks + 2)) {
            assert!(tokio::time::Instant::now() < deadline, "nobody looks any more");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// A rollout to a new release; `fault` is done once when its phase is entered.
    async fn roll(&mut self, number: usize, fault: Option<(Phase, Victim)>) -> (String, v1::Rollout) {
        let target = sample::add_release(&self.depot, number).unwrap();
        let id = self.api.start_rollout(GROUP, &target, &format!("kill-{number}")).await.unwrap().rollout_id;
        let mut watch = self.api.watch(&id);
        let mut struck = false;
        let deadline = tokio::time::Instant::now() + ENDS_WITHIN;
        loop {
            let state = tokio::time::timeout_at(deadline, watch.next()).await;
            let Ok(state) = state else {
                self.run.keep();
                panic!("{fault:?}: {id} isn't at its end after {ENDS_WITHIN:?}; see {}", self.run.path().display());
            };
            let rollout = state.and_then(|state| state.rollout).expect("the watch lasts until the end");
            if let Some((phase, victim)) = fault
                && !struck
                && rollout.steps.get(STRICKEN_STEP).is_some_and(|step| has_reached(step.phase(), phase))
            {
                struck = true;
                self.strike(victim, &rollout.steps[STRICKEN_STEP].node_name).await;
            }
            if rollout.ended_at.is_some() || rollout.status() == RolloutStatus::Paused {
                assert_eq!(struck, fault.is_some(), "{fault:?} never came to be");
                return (target, rollout);
            }
        }
    }

    /// SIGKILL, a moment of absence, and back.
    async fn strike(&mut self, victim: Victim, stepping: &str) {
        let away = Duration::from_millis(300);
        match victim {
            Victim::Leader | Victim::FirstFollower | Victim::SecondFollower => {
                let leader = self.api.leader_address().await.unwrap();
                let address = match victim {
                    Victim::Leader => leader,
                    Victim::FirstFollower => self.cluster.endpoints().into_iter().find(|a| *a != leader).unwrap(),
                    _ => self.cluster.endpoints().into_iter().rfind(|a| *a != leader).unwrap(),
                };
                self.cluster.peer_at(&address).unwrap().kill().unwrap();
                tokio::time::sleep(away).await;
                self.cluster.peer_at(&address).unwrap().start().unwrap();
            }
            Victim::AllPeers => {
                self.cluster.peers.iter_mut().for_each(|peer| peer.kill().unwrap());
                tokio::time::sleep(away).await;
                self.cluster.start_peers().await.unwrap();
            }
            Victim::SteppingAgent | Victim::OtherAgent => {
                let other = NODES.iter().find(|node| **node != stepping).unwrap();
                let name = if victim == Victim::SteppingAgent { stepping } else { other };
                self.cluster.agent_named(name).unwrap().kill().unwrap();
                self.witness.killed(name, "agent").unwrap();
                tokio::time::sleep(away).await;
                self.cluster.agent_named(name).unwrap().start().unwrap();
            }
            Victim::Service => {
                let pid = self.seen.ask(|seen| seen.latest[stepping].pid).expect("the service has told its pid");
                // In `starting` the process may not have said yet that it is up: the old one is gone then.
                let _ = kill(Pid::from_raw(i32::try_from(pid).unwrap()), Signal::SIGKILL);
                self.witness.killed(stepping, "service").unwrap();
            }
        }
    }

    fn judge(&self, target: &str, rollout: &v1::Rollout, since: Duration) -> Vec<Verdict> {
        let history = self.witness.history();
        let seen = self.seen.snapshot();
        let nodes: Vec<String> = NODES.iter().map(|node| (*node).to_owned()).collect();
        let release = target.rsplit('/').next().unwrap();
        vec![
            accepted_release::check(&seen.latest, release, NODES.len()),
            width::check(&seen.outages_since(since), 100, 1),
            serial::check(&history, target),
            no_skip::check(&history, &rollout.rollout_id, target, &nodes),
            no_repeat::check(&history),
            runs::check(&history, target, &nodes),
            fences::check(&history, &BTreeSet::new()),
        ]
    }
}

fn group() -> v1::GroupSpec {
    let policy = v1::Policy {
        min_healthy_time_ms: Some(500),
        healthy_deadline_ms: Some(30_000),
        progress_deadline_ms: Some(60_000),
        ..Default::default()
    };
    v1::GroupSpec {
        name: GROUP.to_owned(),
        package: Some(sample::PACKAGE.to_owned()),
        policy: Some(policy),
        ..Default::default()
    }
}

/// How a rollout stands, for a failure's message.
fn brief(rollout: &v1::Rollout) -> String {
    let mut lines = vec![format!("{} {:?} {:?}", rollout.rollout_id, rollout.status(), rollout.pause_causes)];
    lines.extend(rollout.steps.iter().map(|step| {
        let failure = step.failure.as_ref().map(|failure| format!("{}: {}", failure.reason, failure.detail));
        format!("{} {:?} attempt {} {}", step.node_name, step.phase(), step.attempt, failure.unwrap_or_default())
    }));
    lines.join("\n")
}

/// Whether a step stands in the phase or after it: short ones may be over when we hear of them.
fn has_reached(phase: Phase, wanted: Phase) -> bool {
    phase != Phase::Unspecified && i32::from(phase) >= i32::from(wanted)
}

#[tokio::test(flavor = "multi_thread")]
async fn any_one_process_and_all_peers_may_die_at_any_phase_boundary() {
    let mut stage = Stage::set().await;
    let (first, rollout) = stage.roll(0, None).await;
    assert_eq!(rollout.status(), RolloutStatus::Succeeded, "{rollout:#?}");
    let nodes: Vec<String> = NODES.iter().map(|node| (*node).to_owned()).collect();
    assert_eq!(installs::check(&stage.witness.history(), &first, &nodes).outcome, Outcome::Held);

    for (number, (phase, victim)) in scenarios().into_iter().enumerate() {
        let since = stage.clock.now();
        let (target, rollout) = stage.roll(number + 1, Some((phase, victim))).await;
        stage.look_once_more().await;
        println!("{phase:?} {victim:?}: {:?} after {:?}", rollout.status(), stage.clock.now() - since);
        let broken: Vec<Verdict> = stage
            .judge(&target, &rollout, since)
            .into_iter()
            .filter(|verdict| verdict.outcome != Outcome::Held)
            .collect();
        if rollout.status() != RolloutStatus::Succeeded || !broken.is_empty() {
            stage.run.keep();
            let how = brief(&rollout);
            panic!("{phase:?}, {victim:?}: {broken:#?}\n{how}\nsee {}", stage.run.path().display());
        }
    }
}
