//! What was promised, held against what was seen.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rollcall_jepsen::check::{
    Verdict, accepted_release, fences, installs, lost_writes, no_repeat, no_skip, order, runs, serial, width,
};
use rollcall_jepsen::redis::ledger::{Fate, Write, longest_gap};
use rollcall_jepsen::redis::writer::SHARD_COUNT;
use rollcall_jepsen::report::{StepRow, mebibytes, median, milliseconds, seconds};
use rollcall_proto::v1::Rollout;

use crate::disturb::{CutMachine, Disturber};
use crate::scene::{NODE_COUNT, Scene};

/// The budget of the group.
const BUDGET: usize = 1;

/// Targets, not promises: shown, and not part of the exit code.
const COORDINATION_TARGET: Duration = Duration::from_millis(50);
const PEER_MEMORY_TARGET: u64 = 64 * 1024 * 1024;
const AGENT_MEMORY_TARGET: u64 = 24 * 1024 * 1024;

/// All that was seen of one rollout.
pub struct Evidence {
    /// Just before the promotion.
    pub begun_at: Duration,
    /// When everything was healthy again.
    pub ended_at: Duration,
    /// The release.
    pub target: String,
    /// As the log has it.
    pub rollout: Rollout,
    /// All writes.
    pub writes: Vec<Write>,
    /// What is there at the end.
    pub read_back: BTreeMap<String, Option<String>>,
    /// Which faults were installed.
    pub disturber: Disturber,
}

/// The judgements of the main job.
pub fn update(scene: &Scene, evidence: &Evidence, with_faults: bool) -> Vec<Verdict> {
    let history = scene.witness.history();
    let seen = scene.seen.snapshot();
    let nodes = scene.node_names();
    let target = &evidence.target;
    let release = target.rsplit('/').next().unwrap_or(target);
    let turns = order::turns(&history, target, |node, at| seen.was_primary(node, at));
    let least_looks = seen.looks.values().copied().min().unwrap_or(0);
    let mut verdicts = vec![
        accepted_release::check(&seen.latest, release, NODE_COUNT),
        width::check(&seen.outages_since(evidence.begun_at), least_looks, BUDGET),
        serial::check(&history, target),
        order::check(&turns),
        lost_writes::check(&evidence.writes, &evidence.read_back, &scene.ledger.missed()),
        installs::check(&history, target, &nodes),
        runs::check(&history, target, &nodes),
        no_skip::check(&history, &evidence.rollout.rollout_id, target, &nodes),
        no_repeat::check(&history),
        fences::check(&history, &BTreeSet::new()),
    ];
    if !scene.hosts.is_empty() {
        verdicts.push(leadership_was_elsewhere(&evidence.disturber.cut_machines, scene.hosts.len()));
    } else if with_faults {
        verdicts.push(faults_were_installed(&evidence.disturber));
    }
    verdicts
}

/// A run without its faults proves nothing about them.
fn faults_were_installed(disturber: &Disturber) -> Verdict {
    let promise = "both faults were installed in the middle of a step";
    match (&disturber.killed_peer, &disturber.cut_node) {
        (Some(peer), Some(node)) => Verdict::held(promise, format!("{peer} killed as leader, power of {node} cut")),
        (peer, node) => Verdict::unknown(promise, format!("leader killed: {peer:?}, power cut: {node:?}")),
    }
}

/// The leader's machine goes down only once it isn't the leader's any more.
fn leadership_was_elsewhere(cuts: &[CutMachine], machines: usize) -> Verdict {
    let promise = "each peer's machine went down in its step, and never the leader's";
    if let Some(cut) = cuts.iter().find(|cut| cut.leader == cut.peer) {
        return Verdict::violated(promise, format!("{} went down with the peer at {}, which led", cut.node, cut.peer));
    }
    let names: Vec<&str> = cuts.iter().map(|cut| cut.node.as_str()).collect();
    let evidence = format!("power cut, in this order: {}", names.join(", "));
    if cuts.len() == machines { Verdict::held(promise, evidence) } else { Verdict::unknown(promise, evidence) }
}

/// The role that a node had when its turn came, and what we did to it.
pub fn note(scene: &Scene, evidence: &Evidence, node: &str) -> String {
    let turns = order::turns(&scene.witness.history(), &evidence.target, |node, at| {
        scene.seen.ask(|seen| seen.was_primary(node, at))
    });
    let role = match turns.iter().find(|turn| turn.node == node).and_then(|turn| turn.primary) {
        Some(true) => "primary",
        Some(false) => "replica",
        None => "?",
    };
    let disturber = &evidence.disturber;
    let was_cut =
        disturber.cut_node.as_deref() == Some(node) || disturber.cut_machines.iter().any(|cut| cut.node == node);
    if was_cut { format!("{role}, cut") } else { role.to_owned() }
}

/// The numbers.
pub fn facts(scene: &mut Scene, evidence: &Evidence, rows: &[StepRow]) -> Vec<(String, String)> {
    let (from, to) = (evidence.begun_at, evidence.ended_at);
    let acknowledged = evidence.writes.iter().filter(|write| write.fate == Fate::Acknowledged).count();
    let missing = evidence
        .writes
        .iter()
        .filter(|write| write.fate == Fate::Acknowledged)
        .filter(|write| evidence.read_back.get(&write.key).is_some_and(|found| found.as_ref() != Some(&write.value)))
        .count();
    let gaps: Vec<String> =
        (0..SHARD_COUNT).map(|shard| seconds(longest_gap(&evidence.writes, from, to, Some(shard)))).collect();
    let coordination: Vec<Duration> = rows.iter().filter_map(StepRow::coordination).collect();
    let outages = scene.seen.ask(|seen| seen.outages_since(from));
    let peers = scene.cluster.peers.iter_mut().map(|peer| peer.measure()).max().unwrap_or(0);
    let agents = scene.cluster.agents.iter_mut().map(|agent| agent.measure()).max().unwrap_or(0);
    let row = |name: &str, value: String| (name.to_owned(), value);
    vec![
        row("whole rollout", seconds(to.saturating_sub(from))),
        row("coordination per step", against(median(coordination.clone()), coordination.iter().max())),
        row("members not healthy at once, at most", width::widest(&outages).0.to_string()),
        row("writes acknowledged / lost", format!("{acknowledged} / {missing}")),
        row("writes of unknown fate", (evidence.writes.len() - acknowledged).to_string()),
        row("read back meanwhile", scene.ledger.read_count().to_string()),
        row("longest gap between acknowledged writes", seconds(longest_gap(&evidence.writes, from, to, None))),
        row("the same per shard (its replica is away then)", gaps.join(", ")),
        row("memory of a peer, at most", limited(peers, PEER_MEMORY_TARGET)),
        row("memory of an agent, at most", limited(agents, AGENT_MEMORY_TARGET)),
    ]
}

fn against(median: Option<Duration>, most: Option<&Duration>) -> String {
    let Some((median, most)) = median.zip(most) else { return "not told by the nodes".into() };
    let target = milliseconds(COORDINATION_TARGET);
    let met = if median < COORDINATION_TARGET { "met" } else { "MISSED" };
    format!("{} at the median, {} at most (target: under {target}, {met})", milliseconds(median), milliseconds(*most))
}

fn limited(bytes: u64, target: u64) -> String {
    let met = if bytes < target { "met" } else { "MISSED" };
    format!("{} (target: under {}, {met})", mebibytes(bytes), mebibytes(target))
}
