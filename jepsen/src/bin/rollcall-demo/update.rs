//! The main job: release 2 under load, with a leader killed and a node's power cut on the way.

use std::time::Duration;

use anyhow::{Context, Result};
use rollcall_jepsen::check::{Outcome, Verdict, overall};
use rollcall_jepsen::redis::form;
use rollcall_jepsen::redis::read_back::read_back;
use rollcall_jepsen::report;
use rollcall_jepsen::screen::Tone;
use rollcall_proto::v1::Rollout;

use crate::args::Args;
use crate::disturb::Disturber;
use crate::idle;
use crate::judge::{self, Evidence};
use crate::progress::{self, Teller};
use crate::scene::{NODE_COUNT, Scene};

/// BOUND: the rollout with both faults in it.
const ENDS_WITHIN: Duration = Duration::from_secs(150);

/// Plays it and judges it.
pub async fn play(args: &Args, scene: &mut Scene) -> Result<Vec<Verdict>> {
    scene.bring_up_release_one(Duration::from_secs(60)).await?;
    scene.screen.heading("Release 2, under load");
    let load = scene.start_load().await?;
    let begun_at = scene.clock.now();
    let target = scene.releases.second.clone();
    let rollout_id = scene.promote(&target).await?;
    let mut disturber = Disturber::default();
    let rollout = follow(args, scene, &rollout_id, &mut disturber).await?;
    form::wait_until_healthy(&scene.seen, NODE_COUNT).await?;
    let ended_at = scene.clock.now();
    load.stop().await;

    scene.screen.say("the writers stop; every write of the run is read back");
    let writes = scene.ledger.writes();
    let read_back = read_back(&scene.topology, &writes).await?;
    scene.rollcall.show(&["rollout", "status", &rollout_id]).await?;

    let evidence = Evidence { begun_at, ended_at, target, rollout, writes, read_back, disturber };
    let verdicts = judge::update(scene, &evidence, !args.no_faults);
    show(scene, &evidence, &verdicts);
    if args.idle {
        idle::watch(scene).await?;
    }
    Ok(verdicts)
}

/// Follows the rollout, disturbs it, and brings back what was killed.
async fn follow(args: &Args, scene: &mut Scene, rollout_id: &str, disturber: &mut Disturber) -> Result<Rollout> {
    let mut teller = Teller::default();
    let mut watch = scene.api.watch(rollout_id);
    let deadline = tokio::time::Instant::now() + ENDS_WITHIN;
    loop {
        let next_return = disturber.next_return().unwrap_or(deadline);
        tokio::select! {
            state = tokio::time::timeout_at(deadline, watch.next()) => {
                let state = state.with_context(|| format!("{rollout_id} is not at its end after {ENDS_WITHIN:?}"))?;
                let rollout = state.and_then(|state| state.rollout).context("the watch ended too early")?;
                teller.tell(scene, &rollout);
                if progress::is_at_rest(&rollout) && disturber.next_return().is_none() {
                    scene.screen.live("");
                    progress::ensure_succeeded(&rollout)?;
                    return Ok(rollout);
                }
                if !args.no_faults {
                    disturber.look(scene, &rollout).await?;
                }
            }
            () = tokio::time::sleep_until(next_return) => disturber.bring_back(scene)?,
        }
        scene.cluster.ensure_alive()?;
    }
}

fn show(scene: &mut Scene, evidence: &Evidence, verdicts: &[Verdict]) {
    let terminal = scene.screen.is_terminal();
    let rows = report::step_rows(&evidence.rollout);
    scene.screen.heading("Steps");
    scene.screen.raw(&report::steps_table(&rows, |node| judge::note(scene, evidence, node), terminal));
    scene.screen.heading("Measured");
    let facts = judge::facts(scene, evidence, &rows);
    scene.screen.raw(&report::facts_table(&facts, terminal));
    conclude(scene, verdicts);
}

/// The judgements and the last word.
pub fn conclude(scene: &Scene, verdicts: &[Verdict]) {
    scene.screen.heading("Promises");
    scene.screen.raw(&report::verdicts_table(verdicts, scene.screen.is_terminal()));
    let last = match overall(verdicts) {
        Outcome::Held => scene.screen.tint(Tone::Green, "Every promise held."),
        Outcome::Unknown => scene.screen.tint(Tone::Yellow, "There is not enough evidence."),
        Outcome::Violated => scene.screen.tint(Tone::Red, "A promise was broken."),
    };
    scene.screen.raw(&format!("\n{last}"));
}
