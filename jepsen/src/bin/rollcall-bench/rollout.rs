//! Rollouts over few and over many nodes whose hooks end at once: steps per second, and what a step costs the peers.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rollcall_proto::v1;

use crate::chart::{Axis, Chart, Series};
use crate::fleet::{FIRST, Fleet, PACKAGE, SECOND};
use crate::report::Findings;
use crate::rollcall::Rollcall;
use crate::row::Row;
use crate::sessions::cpu;
use crate::system::System;

const GROUP: &str = "bench.rollout";

/// BOUND: for a rollout; what takes longer is no result.
const ENDS_WITHIN: Duration = Duration::from_secs(300);

/// The most nodes that are played by real sessions here.
const MOST: usize = 10_000;

/// By how much a step over the most nodes may cost more than one over the fewest.
const GROWTH: f64 = 1.3;

/// What a rollout took.
struct Ran {
    nodes: usize,
    steps_per_second: f64,
    /// CPU time of all peers together per step.
    cpu_us: f64,
}

/// Measures it.
pub async fn measure(quick: bool) -> Result<Findings> {
    let sizes: &[usize] = if quick { &[100, 1_000] } else { &[100, 1_000, MOST] };
    let mut ran = Vec::new();
    for nodes in sizes {
        ran.push(roll(*nodes).await.with_context(|| format!("a rollout over {nodes} nodes"))?);
    }
    let mut rows = Vec::new();
    for Ran { nodes, steps_per_second, cpu_us } in &ran {
        let row =
            Row::new(format!("P6.steps.{nodes}"), format!("rollout over {nodes} nodes"), *steps_per_second, "steps/s");
        rows.push(if *nodes == MOST { row.at_least(1_000.0) } else { row });
        rows.push(Row::new(format!("P6.cost.{nodes}"), "CPU of all peers together, per step", *cpu_us, "µs"));
    }
    let mut series = vec![Series {
        name: "all peers".to_owned(),
        points: ran.iter().map(|ran| (ran.nodes as f64, ran.cpu_us)).collect(),
    }];
    if let [first, .., last] = &ran[..] {
        let what = format!("cost of a step over {} nodes, beside one over {}", last.nodes, first.nodes);
        rows.push(Row::new("P6.growth", what, last.cpu_us, "µs").beside(first.cpu_us).at_most_times(GROWTH));
    }
    let applied = applied_costs();
    if let [(fewest, cheapest), .., (most, dearest)] = applied[..] {
        let what = format!("the state machine alone: a step over {most} nodes, beside one over {fewest}");
        rows.push(Row::new("P6.apply.growth", what, dearest, "µs").beside(cheapest).at_most_times(GROWTH));
        let points = applied.iter().map(|(nodes, us)| (*nodes as f64, *us)).collect();
        series.push(Series { name: "apply alone".to_owned(), points });
    }
    let chart = Chart {
        file: "steps",
        title: "What a step of a rollout costs".to_owned(),
        x: Axis::log("nodes of the group"),
        y: Axis::log("µs of CPU time per step"),
        series,
    };
    Ok(Findings { rows, charts: vec![chart] })
}

async fn roll(nodes: usize) -> Result<Ran> {
    let rollcall = Rollcall::start().await?;
    let policy = v1::Policy {
        max_parallel: Some("10%".to_owned()),
        max_unavailable: Some("10%".to_owned()),
        min_healthy_time_ms: Some(1),
        ..Default::default()
    };
    let spec = v1::GroupSpec {
        name: GROUP.to_owned(),
        package: Some(PACKAGE.to_owned()),
        policy: Some(policy),
        ..Default::default()
    };
    rollcall.api.apply_group(spec).await?;
    let fleet = Fleet::start(nodes, GROUP, rollcall.addresses()).await?;
    let (cpu_before, began) = (cpu(&rollcall)?, Instant::now());
    rollcall.api.start_rollout(GROUP, SECOND, "bench").await?;
    let revision = fleet.await_finished(nodes, ENDS_WITHIN).await?;
    let (took, cpu) = (began.elapsed(), cpu(&rollcall)? - cpu_before);
    fleet.ensure_nothing_refused()?;
    await_success(&rollcall, revision).await?;
    let steps = nodes as f64;
    Ok(Ran { nodes, steps_per_second: steps / took.as_secs_f64(), cpu_us: cpu.as_secs_f64() * 1e6 / steps })
}

/// The log says so itself, with or after the last step's end.
async fn await_success(rollcall: &Rollcall, last_step: u64) -> Result<()> {
    let deadline = Instant::now() + ENDS_WITHIN;
    let mut since = last_step - 1;
    while Instant::now() < deadline {
        let (events, until) = rollcall.events_since(since).await?;
        if let Some(end) = events.iter().find(|event| event.kind == "rollout_ended") {
            return if end.message.ends_with("succeeded") { Ok(()) } else { bail!("{}", end.message) };
        }
        since = until;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    bail!("all steps from {FIRST} are finished, and the rollout hasn't succeeded")
}

/// What criterion left of `coordinator/rollout/benches/steps.rs` in this build's folder: microseconds per step by nodes.
fn applied_costs() -> Vec<(usize, f64)> {
    let own = std::env::current_exe().unwrap_or_default();
    let folder: PathBuf = own.ancestors().nth(2).map(|target| target.join("criterion/step")).unwrap_or_default();
    let sizes = [100, 1_000, 10_000, 100_000];
    let cost = |nodes: &usize| -> Option<(usize, f64)> {
        let text = std::fs::read_to_string(folder.join(format!("{nodes}/new/estimates.json"))).ok()?;
        let estimates: serde_json::Value = serde_json::from_str(&text).ok()?;
        // One iteration is fifty steps.
        Some((*nodes, estimates["median"]["point_estimate"].as_f64()? / 50.0 / 1_000.0))
    };
    sizes.iter().filter_map(cost).collect()
}
