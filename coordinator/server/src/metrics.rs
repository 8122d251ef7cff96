//! Metrics. Their names are a contract (`docs/`): dashboards and alarms are written against them.
//!
//! What can be seen in the applied state is read from it when somebody scrapes: nothing is counted twice, and what is
//! gone is gone from the metrics too. BOUND: labels are names of groups, nodes and enums, never free text.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use rollcall_ident::{ClusterTime, Millis};
use rollcall_rollout::{RolloutStatus, State};
use strum::IntoEnumIterator as _;

use crate::convert;
use crate::raft::{Consensus, Observers, Peer};
use crate::services::ClusterClock;
use crate::sessions::Sessions;

/// Half a millisecond, which a fast disk takes, to about 16 seconds.
fn latency_buckets() -> impl Iterator<Item = f64> {
    exponential_buckets(0.0005, 2.0, 16)
}

/// Ten microseconds, which an entry takes, to about a third of a second.
fn compute_buckets() -> impl Iterator<Item = f64> {
    exponential_buckets(0.00001, 2.0, 16)
}

/// What is measured as it happens.
#[derive(Debug, Clone)]
pub struct Metrics {
    commit_duration: Histogram,
    apply_duration: Histogram,
}

impl Default for Metrics {
    fn default() -> Self {
        Self { commit_duration: Histogram::new(latency_buckets()), apply_duration: Histogram::new(compute_buckets()) }
    }
}

impl Metrics {
    /// Are told how long things take.
    pub fn observers(&self) -> Observers {
        let (commit, apply) = (self.commit_duration.clone(), self.apply_duration.clone());
        Observers {
            commit: Some(Arc::new(move |duration| commit.observe(duration.as_secs_f64()))),
            apply: Some(Arc::new(move |duration| apply.observe(duration.as_secs_f64()))),
        }
    }

    /// All metrics of this peer.
    pub fn registry(&self, peer: Peer, sessions: Sessions, clock: ClusterClock) -> Registry {
        let mut registry = Registry::default();
        registry.register(
            "rollcall_commit_duration_seconds",
            "From the proposal of a write, on the leader, to its outcome",
            self.commit_duration.clone(),
        );
        registry.register(
            "rollcall_apply_duration_seconds",
            "Of one entry, applied to this peer's state",
            self.apply_duration.clone(),
        );
        registry.register_collector(Box::new(PeerCollector { peer, sessions, clock }));
        registry
    }
}

/// Reads the applied state when somebody scrapes.
struct PeerCollector {
    peer: Peer,
    sessions: Sessions,
    clock: ClusterClock,
}

impl fmt::Debug for PeerCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PeerCollector")
    }
}

impl Collector for PeerCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let sessions = i64::try_from(self.sessions.count()).unwrap_or(i64::MAX);
        gauge(&mut encoder, "rollcall_sessions", "Sessions of agents that this peer hosts", sessions)?;
        let Some(consensus) = self.peer.consensus() else { return Ok(()) };
        encode_consensus(&mut encoder, &consensus)?;
        let view = consensus.state();
        for family in families(&view.state, self.clock.now(&consensus, &view).cluster_time) {
            family.encode(&mut encoder)?;
        }
        Ok(())
    }
}

fn encode_consensus(encoder: &mut DescriptorEncoder<'_>, consensus: &Consensus) -> fmt::Result {
    let leads = consensus.leadership().borrow().is_some_and(|leadership| leadership.is_me);
    gauge(encoder, "rollcall_is_leader", "Whether this peer leads", i64::from(leads))?;
    if leads {
        let help = "Voters that may still be lost; only the leader knows";
        let margin = convert::quorum_margin(&consensus.members_here());
        gauge(encoder, "rollcall_quorum_margin", help, i64::from(margin))?;
    }
    let entries = i64::try_from(consensus.status().log_entries).unwrap_or(i64::MAX);
    gauge(encoder, "rollcall_log_entries", "Entries in this peer's log", entries)?;
    if let Some(bytes) = consensus.snapshot_bytes() {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        gauge(encoder, "rollcall_snapshot_bytes", "This peer's newest snapshot", bytes)?;
    }
    let log = consensus.log_metrics();
    let mut fsync = encoder.encode_descriptor(
        "rollcall_fsync_duration_seconds",
        "Syncs of the log; appends that wait together share one",
        None,
        MetricType::Histogram,
    )?;
    let buckets = [(f64::INFINITY, log.sync_count)];
    fsync.encode_histogram::<[(&str, &str); 0]>(log.sync_time.as_secs_f64(), log.sync_count, &buckets, None)
}

fn gauge(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: i64) -> fmt::Result {
    encoder.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)
}

/// A gauge with labels.
struct Family {
    name: &'static str,
    help: &'static str,
    values: Vec<(Vec<(&'static str, String)>, i64)>,
}

impl Family {
    fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        if self.values.is_empty() {
            return Ok(());
        }
        let mut family = encoder.encode_descriptor(self.name, self.help, None, MetricType::Gauge)?;
        self.values.iter().try_for_each(|(labels, value)| family.encode_family(labels)?.encode_gauge(value))
    }
}

fn families(state: &State, now: ClusterTime) -> Vec<Family> {
    let family = |name, help| Family { name, help, values: Vec::new() };
    let mut states = family("rollcall_rollout_state", "1 for the state of the group's active or else latest rollout");
    let mut steps = family("rollcall_rollout_steps", "Steps of that rollout by phase");
    let mut paused =
        family("rollcall_rollout_paused_seconds", "For how long the group's rollout has been paused as it is");
    let mut waiting = family("rollcall_waiting_on", "1 for the reason why the group's active rollout doesn't move");
    let mut health = family("rollcall_node_health", "Members by their health");
    let mut tokens = family("rollcall_token_held_seconds", "For how long a node may have been down");
    for group in state.groups().values() {
        let name = || ("group", group.name.to_string());
        health.values.extend(counted(
            name(),
            "health",
            state.members(group).map(|(node, service)| node.health_of(service).to_string()),
        ));
        let Some(rollout) = state.latest_rollout(&group.name) else { continue };
        for each in RolloutStatus::iter() {
            let is_it = i64::from(each == rollout.status);
            states.values.push((vec![name(), ("state", each.to_string())], is_it));
        }
        steps.values.extend(rollout.tally.iter().map(|(phase, count)| {
            (vec![name(), ("phase", phase.to_string())], i64::try_from(count).unwrap_or(i64::MAX))
        }));
        let Some(on) = rollout.waiting.as_ref().filter(|_| rollout.is_active()) else { continue };
        waiting.values.push((vec![name(), ("reason", on.on.name().to_owned())], 1));
        if rollout.status == RolloutStatus::Paused {
            paused.values.push((vec![name()], seconds(now.since(on.since.cluster_time))));
        }
    }
    for (id, token) in state.tokens().iter() {
        let node = state.nodes().get(id).map_or_else(|| id.to_string(), |node| node.name.to_string());
        let held = seconds(now.since(token.granted_at.cluster_time));
        tokens.values.push((vec![("group", token.group.to_string()), ("node", node)], held));
    }
    vec![states, steps, paused, waiting, health, tokens]
}

fn seconds(duration: Millis) -> i64 {
    i64::try_from(duration.0 / 1000).unwrap_or(i64::MAX)
}

/// How often each value of a label occurs.
fn counted(
    first: (&'static str, String),
    label: &'static str,
    values: impl Iterator<Item = String>,
) -> Vec<(Vec<(&'static str, String)>, i64)> {
    let mut counts = BTreeMap::<String, i64>::new();
    for value in values {
        *counts.entry(value).or_default() += 1;
    }
    counts.into_iter().map(|(value, count)| (vec![first.clone(), (label, value)], count)).collect()
}
