//! Verb by state, and verb by phase: what each does, and what is refused and changes nothing. The tables of
//! `docs/state-machines.md` are written from here; `UPDATE_GOLDEN=1` writes them.

#![allow(clippy::unwrap_used, reason = "a test that can't go on panics")]

mod script;
mod support;

use std::fmt::Write as _;

use rollcall_ident::Millis;
use rollcall_rollout::{Phase, RolloutStatus, State, Turn};
use strum::IntoEnumIterator as _;
use support::World;

const VERBS: [&str; 16] = [
    "approve",
    "deny",
    "pause",
    "resume",
    "promote-batch",
    "promote-batch --full",
    "next",
    "retry",
    "skip a",
    "skip c",
    "stop",
    "abort",
    "undo",
    "start 1",
    "start 2",
    "start 3",
];

fn say(world: &mut World, line: &str) -> Result<(), String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let applied = script::operator(world, &words).or_else(|| script::node(world, &words)).unwrap();
    applied.outcome.map(|_| ()).map_err(|refusal| {
        assert!(!refusal.to_string().is_empty());
        refusal.name().to_owned()
    })
}

/// Three members on release 1, which ran release 0 before.
fn settled() -> World {
    let mut world = World::new();
    say(&mut world, "group channel=stable min_healthy_time=2s").unwrap();
    for name in ["a", "b", "c"] {
        world.connect(name).outcome.unwrap();
    }
    world.start("0").outcome.unwrap();
    world.run_to_end(true);
    world.start("1").outcome.unwrap();
    world.run_to_end(true);
    world
}

/// A rollout to release 2 in `status`.
fn in_status(status: RolloutStatus) -> World {
    let mut world = settled();
    if status == RolloutStatus::AwaitingPromotion {
        say(&mut world, "group canary=1").unwrap();
    }
    if matches!(status, RolloutStatus::AwaitingApproval | RolloutStatus::Denied) {
        say(&mut world, "group approval_required=true").unwrap();
    }
    world.start("2").outcome.unwrap();
    world.actor = "second".to_owned();
    if !matches!(status, RolloutStatus::AwaitingApproval | RolloutStatus::Denied) {
        world.run(true);
        say(&mut world, "clock 2s").unwrap();
        world.run(true);
    }
    match status {
        RolloutStatus::AwaitingApproval | RolloutStatus::AwaitingPromotion | RolloutStatus::Running => {}
        RolloutStatus::Paused => say(&mut world, "pause").unwrap(),
        RolloutStatus::RollingBack => say(&mut world, "abort").unwrap(),
        RolloutStatus::Succeeded => world.run_to_end(true),
        RolloutStatus::Stopped => say(&mut world, "stop").unwrap(),
        RolloutStatus::RolledBack => {
            say(&mut world, "abort").unwrap();
            world.run_to_end(true);
        }
        RolloutStatus::Superseded => {
            // The rollout that took its place has a place of its own in this table.
            say(&mut world, "start 3").unwrap();
        }
        RolloutStatus::Denied => say(&mut world, "deny").unwrap(),
    }
    world
}

/// What a refused command may change: nothing but the revision and what has come with time.
fn assert_untouched(before: &State, after: &State, what: &str) {
    assert_eq!(before.groups(), after.groups(), "{what}");
    assert_eq!(before.rollouts(), after.rollouts(), "{what}");
    assert_eq!(before.nodes(), after.nodes(), "{what}");
    assert_eq!(before.tokens(), after.tokens(), "{what}");
    assert_eq!(before.quarantine(), after.quarantine(), "{what}");
    assert_eq!(before.next_deadline(), after.next_deadline(), "{what}");
    assert_eq!(before.next_alarm(), after.next_alarm(), "{what}");
}

#[test]
fn every_verb_in_every_state() {
    let mut table = format!("| rollout to 2 is | {} |\n", VERBS.join(" | "));
    writeln!(table, "| --- |{}", " --- |".repeat(VERBS.len())).unwrap();
    for status in RolloutStatus::iter().filter(|status| *status != RolloutStatus::Superseded) {
        write!(table, "| {status} |").unwrap();
        for verb in VERBS {
            let mut world = in_status(status);
            let before = world.state.clone();
            assert_eq!(world.state.latest_rollout(&world.group).unwrap().status, status);
            let cell = match say(&mut world, verb) {
                Ok(()) => format!("→ {}", world.state.latest_rollout(&world.group).unwrap().status),
                Err(reason) => {
                    assert_untouched(&before, &world.state, &format!("{verb} while {status}"));
                    reason
                }
            };
            write!(table, " {cell} |").unwrap();
        }
        table.push('\n');
    }
    support::docs::keep("state-machines.md", "verbs-by-state", &table);
}

const IN_FLIGHT: [&str; 10] = [
    "pause",
    "freeze all",
    "stop",
    "abort",
    "start 3",
    "skip a",
    "revoke a --force",
    "hold a",
    "set-health a unhealthy",
    "remove a --force",
];

/// A rollout to release 2 whose first step stands in `phase`.
fn in_phase(phase: Phase) -> World {
    let mut world = settled();
    world.start("2").outcome.unwrap();
    for name in ["a", "b", "c"] {
        world.prefetch(name);
    }
    world.plan();
    while standing(&world).0 != phase {
        if phase == Phase::Rebooting && standing(&world).0 == Phase::Installing {
            let boot_id = rollcall_ident::BootId([1; 16]);
            world.report_step("a", rollcall_rollout::StepEvent::RebootBegun { boot_id }).unwrap();
        } else {
            assert!(world.act("a", true), "{phase} isn't reached");
        }
    }
    world
}

/// Where the first step to release 2 stands, and whether it has been turned.
fn standing(world: &World) -> (Phase, Option<Turn>) {
    let target = support::release("2");
    let rollout = world.state.rollouts().values().rev().find(|rollout| rollout.target == target).unwrap();
    let step = rollout.steps.values().next().unwrap();
    (step.phase, step.turn.clone())
}

#[test]
fn every_verb_in_every_phase() {
    let mut table = format!("| the step is | {} |\n", IN_FLIGHT.join(" | "));
    writeln!(table, "| --- |{}", " --- |".repeat(IN_FLIGHT.len())).unwrap();
    for phase in Phase::iter().filter(|phase| phase.holds_token()) {
        write!(table, "| {phase} |").unwrap();
        for verb in IN_FLIGHT {
            let mut world = in_phase(phase);
            if verb.starts_with("remove") {
                world.disconnect("a", Millis(0)).outcome.unwrap();
            }
            let before = world.state.clone();
            let cell = match say(&mut world, verb) {
                Err(reason) => {
                    assert_untouched(&before, &world.state, &format!("{verb} while {phase}"));
                    reason
                }
                Ok(()) => outcome(&world, phase),
            };
            write!(table, " {cell} |").unwrap();
        }
        table.push('\n');
    }
    support::docs::keep("state-machines.md", "verbs-by-phase", &table);
}

/// What became of the step, in a word.
fn outcome(world: &World, before: Phase) -> String {
    let (phase, turn) = standing(world);
    let has_token = world.state.tokens().len() == 1;
    match turn {
        Some(turn) => format!("turns: {turn}"),
        None if phase == before && has_token => "goes on".to_owned(),
        None => format!("→ {phase}"),
    }
}
