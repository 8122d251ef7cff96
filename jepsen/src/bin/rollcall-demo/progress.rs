//! Follows a rollout and says what happens, one line per step.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rollcall_jepsen::report::seconds;
use rollcall_jepsen::screen::Tone;
use rollcall_proto::ShortName;
use rollcall_proto::v1::{Phase, Rollout, RolloutStatus, Step};

use crate::scene::{GROUP, Scene};

/// BOUND: a rollout of six nodes, with two faults in it.
const ENDS_WITHIN: Duration = Duration::from_secs(150);

/// What was told of a rollout already.
#[derive(Debug, Default)]
pub struct Teller {
    told: BTreeMap<String, Phase>,
}

impl Teller {
    /// Tells what is new.
    pub fn tell(&mut self, scene: &Scene, rollout: &Rollout) {
        let count = rollout.steps.len();
        for (place, step) in rollout.steps.iter().enumerate() {
            let phase = step.phase();
            let before = self.told.insert(step.node_name.clone(), phase);
            if before == Some(phase) {
                continue;
            }
            let place = format!("{}/{count}", place + 1);
            match phase {
                Phase::Succeeded => {
                    let took = duration_of(step).map_or(String::new(), |took| format!("  {}", seconds(took)));
                    let release = step.to.rsplit('/').next().unwrap_or_default();
                    let done = scene.screen.tint(Tone::Green, &format!("healthy on {release}"));
                    scene.screen.say(&format!("{place}  {}  {done}{took}", step.node_name));
                }
                Phase::Failed => {
                    let failure = step.failure.clone().unwrap_or_default();
                    let failed = scene.screen.tint(Tone::Red, &format!("failed: {}", failure.reason));
                    scene.screen.say(&format!("{place}  {}  {failed}: {}", step.node_name, failure.detail));
                }
                _ => {}
            }
        }
        scene.screen.live(&live_line(scene, rollout));
    }
}

/// One line that says where things stand.
fn live_line(scene: &Scene, rollout: &Rollout) -> String {
    let bar: String = rollout
        .steps
        .iter()
        .map(|step| match step.phase() {
            Phase::Succeeded => '●',
            Phase::Queued | Phase::Unspecified => '○',
            Phase::Failed => '✗',
            _ => '◐',
        })
        .collect();
    let current = rollout.steps.iter().find(|step| is_under_way(step.phase()));
    let what = match (current, &rollout.waiting_on) {
        (Some(step), _) => format!("{} {}", step.node_name, step.phase().short_name()),
        (None, Some(waiting)) => format!("waits: {}", waiting.detail),
        (None, None) => rollout.status().short_name(),
    };
    let writes = scene.ledger.acknowledged_count();
    let healthy = scene.seen.ask(|seen| (seen.healthy_count(), seen.latest.len()));
    let members = if healthy.1 == 0 { String::new() } else { format!("  {}/{} healthy", healthy.0, healthy.1) };
    let written = if writes == 0 { String::new() } else { format!("  {writes} writes acknowledged") };
    format!("          {bar}  {what}{members}{written}")
}

/// Whether a step in this phase holds the token.
pub fn is_under_way(phase: Phase) -> bool {
    !matches!(phase, Phase::Unspecified | Phase::Queued | Phase::Succeeded | Phase::Failed | Phase::Skipped)
}

fn duration_of(step: &Step) -> Option<Duration> {
    let at = |phase: Phase| {
        let time = step.history.iter().rev().find(|time| time.phase() == phase)?;
        Some(time.entered_at.as_ref()?.cluster_time_ms)
    };
    Some(Duration::from_millis(at(Phase::Succeeded)?.saturating_sub(at(Phase::Granted)?)))
}

/// The rollout of the group to `target`, which a promotion has just started.
pub async fn rollout_to(scene: &Scene, target: &str) -> Result<String> {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    loop {
        if let Ok(answer) = scene.api.rollout(GROUP, "").await
            && let Some(rollout) = answer.rollout
            && rollout.target == target
        {
            return Ok(rollout.rollout_id);
        }
        if tokio::time::Instant::now() > deadline {
            bail!("no rollout to {target} has started 10 s after its promotion");
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Follows a rollout until it ends or pauses, and tells it.
pub async fn follow(scene: &Scene, rollout_id: &str) -> Result<Rollout> {
    let mut teller = Teller::default();
    let mut watch = scene.api.watch(rollout_id);
    let deadline = tokio::time::Instant::now() + ENDS_WITHIN;
    loop {
        let state = tokio::time::timeout_at(deadline, watch.next())
            .await
            .with_context(|| format!("rollout {rollout_id} is not at its end after {ENDS_WITHIN:?}"))?;
        let rollout = state.and_then(|state| state.rollout).context("the watch ended before the rollout did")?;
        teller.tell(scene, &rollout);
        if is_at_rest(&rollout) {
            scene.screen.live("");
            return Ok(rollout);
        }
    }
}

/// Whether it moves no more by itself.
pub fn is_at_rest(rollout: &Rollout) -> bool {
    rollout.ended_at.is_some() || rollout.status() == RolloutStatus::Paused
}

/// An error where it ended otherwise.
pub fn ensure_succeeded(rollout: &Rollout) -> Result<()> {
    if rollout.status() != RolloutStatus::Succeeded {
        let why = rollout.waiting_on.as_ref().map(|waiting| waiting.detail.clone()).unwrap_or_default();
        let causes = rollout.pause_causes.join(", ");
        bail!("rollout {} is {} {causes} {why}", rollout.rollout_id, rollout.status().short_name());
    }
    Ok(())
}
