//! A run as it lies in its folder: everything that a judgement needs, so that it can be judged again without a cluster.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::check::{
    Outcome, Verdict, available, control, coverage, fences, grants, linearizable, no_repeat, no_skip, one_plan,
    one_token, overall, registers, same_log, unhealthy_stops, watches, way_back,
};
use crate::history::History;
use crate::hosts::evidence::Logged;
use crate::nemesis::Fault;
use crate::nemesis::conductor::Inflicted;
use crate::ops::book::read_lines;
use crate::ops::{Kind, Op};
use crate::workload::crew::last_revision_of;
use crate::workload::rollout::Steered;
use crate::workload::{Plant, Workload};

/// What was asked for, and how it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// What clients did.
    pub workloads: Vec<Workload>,
    /// Which faults were asked for.
    pub faults: Vec<Fault>,
    /// For how long, in seconds.
    pub time_limit_s: u64,
    /// What everything was drawn from.
    pub seed: u64,
    /// How many peers.
    pub peers: usize,
    /// How many nodes.
    pub nodes: usize,
    /// How many clients.
    pub clients: u64,
    /// How many registers.
    pub keys: usize,
    /// Operations that each client tries in a second.
    pub rate: u64,
    /// Disks that keep a name only when its folder is synced.
    pub strict: bool,
    /// What is wrong with the clients.
    #[serde(default)]
    pub plant: Option<Plant>,
    /// What is wrong with the peers.
    #[serde(default)]
    pub plant_in_peers: Option<String>,
}

/// How the end of a run went: whether everything worked again once the faults were over.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    /// How long until all peers served again, in milliseconds; none: they didn't.
    pub recovered_in_ms: Option<u64>,
    /// What failed.
    pub failed: Option<String>,
    /// What was odd at the end, though it broke no promise.
    #[serde(default)]
    pub notes: Vec<String>,
    /// What each node runs at the end, where there are nodes.
    #[serde(default)]
    pub runs: BTreeMap<String, String>,
    /// Nanoseconds since the run began when the first fault might have come, and when all were over.
    pub faults_from: u64,
    /// See above.
    pub faults_to: u64,
}

/// What a run came to.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Results {
    /// The worst of all judgements.
    pub outcome: Outcome,
    /// What was asked for.
    pub settings: Settings,
    /// How it ended.
    pub ending: Ending,
    /// All judgements.
    pub verdicts: Vec<Verdict>,
    /// All faults.
    pub faults: Vec<Inflicted>,
    /// Client operations by what was asked and how it came out.
    pub operations: BTreeMap<String, usize>,
}

/// A run.
#[derive(Debug)]
pub struct Stored {
    /// Where it lies.
    pub folder: PathBuf,
    /// What was asked for.
    pub settings: Settings,
    /// How it ended.
    pub ending: Ending,
    /// What clients did.
    pub history: Vec<Op>,
    /// What was done to the hosts.
    pub faults: Vec<Inflicted>,
    /// What the peers' logs say.
    pub log: Vec<Logged>,
    /// What the nodes' hooks told.
    pub witness: History,
}

impl Stored {
    /// Reads a run's folder.
    pub fn load(folder: &Path) -> Result<Self> {
        Ok(Self {
            folder: folder.to_path_buf(),
            settings: load_json(&folder.join("settings.json"))?,
            ending: load_json(&folder.join("ending.json"))?,
            history: read_lines(&folder.join("history.jsonl"))?,
            faults: load_json(&folder.join("faults.json"))?,
            log: read_lines(&folder.join("log.jsonl"))?,
            witness: History { records: read_lines(&folder.join("witness.jsonl"))? },
        })
    }

    /// Judges it, and writes what came of it into its folder.
    pub fn judge(&self) -> Result<Results> {
        let deeds: Vec<&str> = self.settings.workloads.iter().flat_map(|workload| workload.deeds()).copied().collect();
        let mut verdicts = Vec::new();
        for workload in &self.settings.workloads {
            match workload {
                Workload::Register => {
                    verdicts.extend(registers::check(&self.history, &self.log));
                    verdicts.push(linearizable::check(&self.history));
                }
                Workload::Watch => {
                    verdicts.extend(watches::check(&self.history, &self.log, last_revision_of(&self.history)));
                }
                Workload::Rollout => verdicts.extend(self.judge_rollouts()),
            }
        }
        verdicts.push(same_log::check(&self.log, self.settings.peers));
        let Ending { faults_from, faults_to, .. } = self.ending;
        verdicts.push(available::check(&self.history, &self.faults, self.settings.peers, faults_from, faults_to));
        verdicts.extend(coverage::check(&self.history, &self.faults, &deeds, &self.settings.faults));
        verdicts.push(self.judge_ending());
        let mut operations = BTreeMap::new();
        for op in self.history.iter().filter(|op| op.process.is_some()) {
            let kind = serde_json::to_value(op.kind)?;
            *operations.entry(format!("{} {}", op.f, kind.as_str().unwrap_or_default())).or_default() += 1;
        }
        let results = Results {
            outcome: overall(&verdicts),
            settings: self.settings.clone(),
            ending: self.ending.clone(),
            verdicts,
            faults: self.faults.clone(),
            operations,
        };
        store_json(&self.folder.join("results.json"), &results)?;
        Ok(results)
    }

    fn judge_rollouts(&self) -> Vec<Verdict> {
        let (witness, log) = (&self.witness, &self.log);
        let steered: Vec<Steered> = self
            .history
            .iter()
            .filter(|op| op.kind == Kind::Ok)
            .filter_map(|op| serde_json::from_value(op.value.clone()).ok())
            .collect();
        let revoked = grants::revoked_fences(log);
        let rolled_back = steered.iter().filter(|seen| seen.status == "rolled_back").map(|seen| seen.rollout.clone());
        let mut verdicts = vec![
            one_token::check(&witness.records, &revoked),
            fences::check(witness, &revoked),
            grants::check(&witness.records, log),
            no_repeat::check(witness),
            unhealthy_stops::check(&witness.records, log),
            way_back::check(&witness.records, log, &rolled_back.collect()),
            one_plan::check(&witness.records),
        ];
        verdicts.extend(control::check(&self.history, &witness.records, log));
        let nodes: Vec<String> = self.ending.runs.keys().cloned().collect();
        let last = self.history.iter().rev().find(|op| op.f == "look" && op.kind == Kind::Ok);
        if let Some(last) = last.and_then(|op| serde_json::from_value::<Steered>(op.value.clone()).ok())
            && !nodes.is_empty()
        {
            verdicts.push(no_skip::check(witness, &last.rollout, &last.target, &nodes));
            verdicts.push(runs_target(&self.ending.runs, &last.target));
        }
        verdicts
    }

    fn judge_ending(&self) -> Verdict {
        const PROMISE: &str = "R13 once the faults are over everything works again";
        match (&self.ending.failed, self.ending.recovered_in_ms) {
            (None, Some(ms)) => Verdict::held(PROMISE, format!("after {ms} ms; the last reads and writes succeeded")),
            (Some(why), _) => Verdict::violated(PROMISE, why),
            (None, None) => Verdict::unknown(PROMISE, "the run was cut short"),
        }
    }
}

/// R5, by the nodes' own processes.
fn runs_target(runs: &BTreeMap<String, String>, target: &str) -> Verdict {
    let others = runs.iter().filter(|(_, release)| *release != target);
    let violations: Vec<String> = others.map(|(node, release)| format!("{node}: {release}")).collect();
    Verdict::from_violations("R5 at the end every node runs the last target", target, &violations)
}

/// Writes a value for people and programs.
pub fn store_json(path: &Path, value: &impl Serialize) -> Result<()> {
    std::fs::write(path, serde_json::to_string_pretty(value)?)
        .with_context(|| format!("can't write {}", path.display()))
}

fn load_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T> {
    let text = std::fs::read_to_string(path).with_context(|| format!("{} is no run's folder", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("can't understand {}", path.display()))
}
