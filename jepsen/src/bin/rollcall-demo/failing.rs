//! The bad release: its health never becomes good. The rollout must stop at its first node, say why, and the way back
//! must repair that node.

use std::time::Duration;

use anyhow::{Context, Result};
use rollcall_jepsen::check::{Verdict, accepted_release, lost_writes, runs, untouched, width};
use rollcall_jepsen::redis::form;
use rollcall_jepsen::redis::read_back::read_back;
use rollcall_jepsen::report;
use rollcall_proto::v1::{Rollout, RolloutStatus};

use crate::progress;
use crate::scene::{GROUP, NODE_COUNT, Scene};
use crate::update::conclude;

/// How long a node may take to become healthy.
const HEALTHY_DEADLINE: Duration = Duration::from_secs(10);

/// Plays it and judges it.
pub async fn play(scene: &mut Scene) -> Result<Vec<Verdict>> {
    scene.bring_up_release_one(HEALTHY_DEADLINE).await?;
    scene.screen.heading("Release 3, which never becomes healthy");
    let load = scene.start_load().await?;
    let begun_at = scene.clock.now();
    let before = scene.seen.snapshot().latest;
    let (first, failing) = (scene.releases.first.clone(), scene.releases.failing.clone());

    let rollout_id = scene.promote(&failing).await?;
    let paused = progress::follow(scene, &rollout_id).await?;
    scene.screen.say("the rollout moves no more by itself; five nodes were not touched");
    let at_pause = scene.seen.snapshot().latest;
    let untouched = untouched::check(&scene.witness.history(), &failing, &before, &at_pause);
    let explained = scene.rollcall.show(&["explain", GROUP]).await?;

    scene.screen.heading("The way back");
    scene.rollcall.show(&["rollout", "start", GROUP, "--to", &first, "--reason", "release 3 is bad"]).await?;
    let back_id = progress::rollout_to(scene, &first).await?;
    let back = progress::follow(scene, &back_id).await?;
    progress::ensure_succeeded(&back)?;
    form::wait_until_healthy(&scene.seen, NODE_COUNT).await?;
    load.stop().await;
    let writes = scene.ledger.writes();
    let read_back = read_back(&scene.topology, &writes).await?;
    scene.rollcall.show(&["rollout", "history", GROUP]).await?;

    let seen = scene.seen.snapshot();
    let release = first.rsplit('/').next().unwrap_or(&first);
    let least_looks = seen.looks.values().copied().min().unwrap_or(0);
    let failed_node = paused.steps.iter().find(|step| step.failure.is_some()).map(|step| step.node_name.clone());
    let verdicts = vec![
        paused_with_a_reason(&paused, &explained),
        untouched,
        accepted_release::check(&seen.latest, release, NODE_COUNT),
        width::check(&seen.outages_since(begun_at), least_looks, 1),
        lost_writes::check(&writes, &read_back, &scene.ledger.missed()),
        runs::check(&scene.witness.history(), &failing, &failed_node.into_iter().collect::<Vec<_>>()),
    ];
    scene.screen.heading("Steps of the way back");
    let rows = report::step_rows(&back);
    scene.screen.raw(&report::steps_table(&rows, |_| "failed".to_owned(), scene.screen.is_terminal()));
    conclude(scene, &verdicts);
    Ok(verdicts)
}

/// Paused because its step failed, and `explain` names the node and what its health check said.
fn paused_with_a_reason(paused: &Rollout, explained: &str) -> Verdict {
    let promise = "paused, and explain says why";
    if paused.status() != RolloutStatus::Paused || !paused.pause_causes.iter().any(|cause| cause == "step_failed") {
        return Verdict::violated(promise, format!("status {:?}, causes {:?}", paused.status(), paused.pause_causes));
    }
    let failed = paused.steps.iter().find_map(|step| Some((&step.node_name, step.failure.as_ref()?)));
    let Some((node, failure)) = failed.context("no step failed").ok() else {
        return Verdict::violated(promise, "no step is said to have failed");
    };
    // The CLI breaks its lines to the width of the terminal.
    let explained = explained.split_whitespace().collect::<Vec<_>>().join(" ");
    if !explained.contains(node.as_str()) || !explained.contains("link is down") {
        return Verdict::violated(promise, format!("explain doesn't name {node} and its replication link"));
    }
    Verdict::held(promise, format!("{node}: {}", failure.reason))
}
