//! From the sample that proves one node to the start of the next one's first hook: real agents, with real hooks that say
//! when they run.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rollcall_jepsen::agent::{AgentConfig, ServiceConfig};
use rollcall_jepsen::depot::Depot;
use rollcall_proto::v1;

use crate::floor::Floor;
use crate::report::Findings;
use crate::rollcall::Rollcall;
use crate::row::Row;
use crate::times::{Times, ms};

pub const GROUP: &str = "bench.default";
const PACKAGE: &str = "acme/bench";
const NODES: usize = 5;

/// Entries of the log between the two: the sample, the end of the soak, the end of the step, the next grant.
const COMMITS: u32 = 4;

/// What agents sync between the two: that the step ends, and the fence and the step of the next.
const AGENT_SYNCS: u32 = 2;

/// BOUND: for one rollout.
const ENDS_WITHIN: Duration = Duration::from_secs(120);

/// Measures it.
pub async fn measure(quick: bool) -> Result<Findings> {
    let rollouts = if quick { 5 } else { 26 };
    let mut rollcall = Rollcall::start().await?;
    let marks = rollcall.run.path().join("marks");
    let depot = Depot::create(rollcall.run.folder("depot")?)?;
    let releases: Vec<String> =
        (0..=rollouts).map(|number| add_release(&depot, rollcall.run.path(), &marks, number)).collect::<Result<_>>()?;
    rollcall.add_agents((1..=NODES).map(|number| agent(&depot, number))).await?;
    let policy = v1::Policy { min_healthy_time_ms: Some(1), ..Default::default() };
    let spec = v1::GroupSpec {
        name: GROUP.to_owned(),
        package: Some(PACKAGE.to_owned()),
        policy: Some(policy),
        ..Default::default()
    };
    rollcall.api.apply_group(spec).await?;
    let mut times = Vec::new();
    for (number, release) in releases.iter().enumerate() {
        roll(&rollcall, release).await?;
        // The first one finds no service to hand over from.
        if number > 0 {
            let text = std::fs::read_to_string(&marks)?;
            times.extend(hand_overs(&parse(&text)?, release)?);
        }
    }
    let times = Times::new(times);
    let floor = Floor::measure(rollcall.run.path())?;
    let least = ms(floor.commit() * COMMITS + floor.sync * AGENT_SYNCS);
    let note = format!(
        "floor: {COMMITS} commits of {:.1} ms, {AGENT_SYNCS} syncs of {:.1} ms",
        ms(floor.commit()),
        ms(floor.sync)
    );
    let rows = vec![
        Row::new("P3.p50", "hand-over, p50", times.percentile_ms(50.0), "ms")
            .beside(least)
            .at_most_times(3.0)
            .note(note),
        Row::new("P3.p99", "hand-over, p99", times.percentile_ms(99.0), "ms")
            .beside(least)
            .at_most(20.0)
            .note(format!("of {}", times.count())),
    ];
    Ok(Findings { rows, charts: Vec::new() })
}

/// An agent as a process, that runs the sample.
pub fn agent(depot: &Depot, number: usize) -> AgentConfig {
    let service = ServiceConfig {
        group: GROUP.to_owned(),
        source: depot.source(),
        health_check_interval: "30s".to_owned(),
        config: BTreeMap::new(),
    };
    AgentConfig { name: format!("node-{number}"), service: vec![service], ..AgentConfig::default() }
}

/// A release whose process does nothing, and whose hooks write down when they ran.
pub fn add_release(depot: &Depot, scratch: &Path, marks: &Path, number: usize) -> Result<String> {
    use std::os::unix::fs::PermissionsExt as _;
    let ident = format!("{PACKAGE}/1.0/202601010{number:05}");
    let layer = scratch.join("layer");
    std::fs::create_dir_all(layer.join("hooks"))?;
    let mark = |hook: &str| {
        format!(
            "#!/bin/bash\necho \"$EPOCHREALTIME $ROLLCALL_NODE {hook} $ROLLCALL_PKG_IDENT ${{ROLLCALL_TO:--}}\" >>'{}'\n",
            marks.display()
        )
    };
    let hooks = [
        ("ready-to-update", mark("ready-to-update")),
        ("run", mark("run") + "exec sleep infinity\n"),
        ("health-check", mark("health-check")),
    ];
    for (name, text) in hooks {
        let path = layer.join("hooks").join(name);
        std::fs::write(&path, text)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
    }
    depot.add(&ident, &[&layer], "\n[service]\nstop_timeout = \"3s\"\n")?;
    Ok(ident)
}

/// Moves all nodes to a release.
pub async fn roll(rollcall: &Rollcall, release: &str) -> Result<()> {
    let rollout = rollcall.api.start_rollout(GROUP, release, &release.replace('/', ".")).await?;
    let mut watch = rollcall.api.watch(&rollout.rollout_id);
    let ended = async {
        while let Some(seen) = watch.next().await {
            let Some(seen) = seen.rollout.filter(|seen| seen.ended_at.is_some()) else { continue };
            return match seen.status() {
                v1::RolloutStatus::Succeeded => Ok(()),
                other => bail!("the rollout to {release} has ended as {}", other.as_str_name()),
            };
        }
        bail!("the watch has ended before the rollout")
    };
    tokio::time::timeout(ENDS_WITHIN, ended).await.context("the rollout doesn't end")?
}

/// A line of a hook.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mark {
    at: Duration,
    node: String,
    hook: String,
    release: String,
    to: String,
}

fn parse(text: &str) -> Result<Vec<Mark>> {
    let line = |line: &str| {
        let mut words = line.split(' ').map(str::to_owned);
        let mut next = || words.next().with_context(|| format!("a hook wrote {line:?}"));
        // In some languages it has a comma.
        let at = next()?.replace(',', ".").parse().map(Duration::from_secs_f64)?;
        Ok(Mark { at, node: next()?, hook: next()?, release: next()?, to: next()? })
    };
    let mut marks: Vec<Mark> = text.lines().map(line).collect::<Result<_>>()?;
    marks.sort_by_key(|mark| mark.at);
    Ok(marks)
}

/// How long each node of the rollout to `release` waited after the one before it was proved.
fn hand_overs(marks: &[Mark], release: &str) -> Result<Vec<Duration>> {
    let mut asked: Vec<&Mark> = Vec::new();
    for mark in marks.iter().filter(|mark| mark.hook == "ready-to-update" && mark.to == release) {
        if asked.iter().all(|earlier| earlier.node != mark.node) {
            asked.push(mark);
        }
    }
    if asked.len() != NODES {
        bail!("{} nodes were asked whether they are ready for {release}", asked.len());
    }
    let proved = |node: &str| {
        // Each rollout has a release of its own. Its `run` may say so later: both are scripts that start side by side.
        let is_it = |mark: &&Mark| mark.node == node && mark.release == release && mark.hook == "health-check";
        Some(marks.iter().find(is_it)?.at)
    };
    asked
        .windows(2)
        .map(|pair| {
            let proved = proved(&pair[0].node).with_context(|| format!("{} was never looked at", pair[0].node))?;
            pair[1].at.checked_sub(proved).with_context(|| format!("{} didn't wait", pair[1].node))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(last: f64) -> Vec<Mark> {
        let mut text = String::new();
        for number in 0..NODES {
            let at = number as f64;
            for (hook, after, release) in [("ready-to-update", 0.0, "1"), ("run", 0.5, "2"), ("health-check", 0.9, "2")]
            {
                text += &format!("{:.6} n{number} {hook} {release} 2\n", at + after);
            }
        }
        let last_node = NODES - 1;
        let on_time = format!("{:.6} n{last_node} ready", last_node as f64);
        let there = text.replace(&on_time, &format!("{last:.6} n{last_node} ready"));
        parse(&there).unwrap()
    }

    #[test]
    fn a_hand_over_lasts_from_the_proof_to_the_question() {
        let times = hand_overs(&marks(4.0), "2").unwrap();
        assert_eq!(times.len(), NODES - 1);
        assert!(
            times.iter().all(|time| time.abs_diff(Duration::from_millis(100)) < Duration::from_millis(1)),
            "{times:?}"
        );
    }

    #[test]
    fn a_node_that_did_not_wait_is_seen() {
        let error = hand_overs(&marks(3.8), "2").unwrap_err().to_string();
        assert!(error.contains("didn't wait"), "{error}");
    }
}
