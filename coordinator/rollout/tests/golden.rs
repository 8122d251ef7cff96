//! Golden scripts: what a person would type and see, as text. Refactors don't touch them.
//!
//! A block is commands, a line `----`, and what they print. `UPDATE_GOLDEN=1 cargo test -p rollcall-rollout --test
//! golden` writes what they print now; read the difference before you commit it.

#![allow(clippy::disallowed_methods, reason = "the test may write its scripts, the crate may not")]
#![allow(clippy::unwrap_used, reason = "a test that can't go on panics")]

mod support;

use std::fmt::Write as _;
use std::path::Path;

use rollcall_ident::Millis;
use rollcall_rollout::{
    Applied, Command, GroupPatch, Health, PolicyPatch, Report, RolloutVerb, StepEvent, StepReport, Subject, explain,
    preview,
};
use support::{World, group, release};

#[test]
fn scripts_print_what_they_printed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty());
    for file in files {
        let before = std::fs::read_to_string(&file).unwrap();
        let after = replay(&before);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&file, after).unwrap();
        } else {
            let differs = before.lines().zip(after.lines()).enumerate().find(|(_, (before, after))| before != after);
            if let Some((line, (before, after))) = differs {
                panic!("{}:{}:\n  was {before}\n  is  {after}", file.display(), line + 1);
            }
            assert_eq!(before.len(), after.len(), "{}: one is the other's beginning", file.display());
        }
    }
}

fn replay(script: &str) -> String {
    let mut world = World::new();
    let mut out = String::new();
    let blocks: Vec<&str> = script.split("\n\n").collect();
    for (i, block) in blocks.iter().enumerate() {
        let commands = block.split("----").next().unwrap().trim_end_matches('\n');
        if i > 0 {
            out.push('\n');
        }
        writeln!(out, "{commands}").unwrap();
        let lines: Vec<&str> = commands.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).collect();
        if lines.is_empty() {
            continue;
        }
        writeln!(out, "----").unwrap();
        for line in lines {
            out.push_str(&run(&mut world, line));
        }
    }
    out
}

/// One command of the script's language; returns what it prints.
fn run(world: &mut World, line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let mut before = world.log.len();
    let id = || world.state.latest_rollout(&group()).map(|rollout| rollout.id).unwrap_or_default();
    let steer = |world: &mut World, verb| {
        let rollout = world.state.latest_rollout(&group()).map(|rollout| rollout.id).unwrap_or_default();
        world.propose(Command::Steer { rollout, verb })
    };
    let applied = match words[..] {
        ["group", ref settings @ ..] => world.propose(Command::ApplyGroup { patch: patch(settings) }),
        ["join" | "back", ref names @ ..] => {
            let mut out = String::new();
            for name in names {
                let applied = world.connect(name);
                out.push_str(&show(&applied));
            }
            return out;
        }
        ["reboot", name] => {
            let machine = world.machine(name);
            machine.boot += 1;
            machine.instance = None;
            if machine.release.is_some() {
                machine.health = Health::Unknown;
            }
            world.connect(name)
        }
        ["leave", name] => world.disconnect(name, Millis(0)),
        ["remove", name] => {
            let node = world.id(name);
            world.propose(Command::RemoveNode { node, force: false })
        }
        ["remove", name, "--force"] => {
            let node = world.id(name);
            world.propose(Command::RemoveNode { node, force: true })
        }
        ["promote", version] => promote(world, version),
        ["demote", version] => {
            let command = Command::Demote { releases: vec![release(version)], channel: "stable".parse().unwrap() };
            world.propose(command)
        }
        ["start", version] => world.start(version),
        ["pause"] => steer(world, RolloutVerb::Pause { until: None }),
        ["resume"] => steer(world, RolloutVerb::Resume { until: None }),
        ["stop"] => steer(world, RolloutVerb::Stop),
        ["retry"] => steer(world, RolloutVerb::Retry { node: None }),
        ["clock", by] => world.advance(by.parse().unwrap()),
        ["plan"] => {
            let granted = world.plan();
            return granted.iter().map(show).collect();
        }
        ["primary", name, is_primary] => {
            world.machine(name).primary = is_primary == "yes";
            world.report_status(name).unwrap();
            return shown_since(world, &mut before);
        }
        ["zone", name, zone] => {
            world.machines.get_mut(name).unwrap().zone = Some(zone.to_owned());
            return String::new();
        }
        ["health", name, health] => {
            world.machine(name).health = match health {
                "healthy" => Health::Healthy,
                "warning" => Health::Warning,
                "critical" => Health::Critical,
                other => panic!("{other}"),
            };
            world.report_status(name).unwrap();
            return shown_since(world, &mut before);
        }
        ["cant-prefetch", name] => {
            world.machine(name).can_prefetch = false;
            return String::new();
        }
        ["prefetch", ref names @ ..] => {
            for name in names {
                world.prefetch(name);
            }
            return shown_since(world, &mut before);
        }
        // The agent of the node takes its next so many actions.
        ["act", name, times] => {
            for _ in 0..times.parse::<u32>().unwrap() {
                world.act(name, true);
            }
            return shown_since(world, &mut before);
        }
        ["fail", name, reason] => {
            let phase = world.orders(name).unwrap().step.unwrap().phase;
            let (reason, detail, output) = (reason.to_owned(), "exit code 1".to_owned(), String::new());
            world.report_step(name, StepEvent::Failed { phase, reason, detail, output }).unwrap();
            return shown_since(world, &mut before);
        }
        ["rebooting", name] => {
            let boot_id = rollcall_ident::BootId([world.machine(name).boot; 16]);
            world.report_step(name, StepEvent::RebootBegun { boot_id }).unwrap();
            return shown_since(world, &mut before);
        }
        ["report-with-fence", name, fence] => {
            let order = world.orders(name).unwrap().step.unwrap();
            let report = StepReport {
                group: group(),
                rollout: order.rollout,
                fence: rollcall_ident::Fence(fence.parse().unwrap()),
                attempt: order.attempt,
                event: StepEvent::Prepared,
            };
            return match world.report(name, Report::Step(report)) {
                Ok(()) => "ok\n".to_owned(),
                Err(refusal) => format!("refused: {}: {refusal}\n", refusal.name()),
            };
        }
        ["run"] => {
            world.run_to_end(true);
            return shown_since(world, &mut before);
        }
        ["run-bad"] => {
            world.run_to_end(false);
            return shown_since(world, &mut before);
        }
        ["status"] => return status(world),
        ["explain", "rollout"] => return explained(world, &Subject::Rollout(id())),
        ["explain", "group"] => return explained(world, &Subject::Group(group())),
        ["explain", name] => {
            let id = world.id(name);
            return explained(world, &Subject::Node(id));
        }
        ["preview", version] => return previewed(world, version),
        ref other => panic!("what is {other:?}?"),
    };
    show(&applied)
}

fn promote(world: &mut World, version: &str) -> Applied {
    world.propose(Command::Promote { releases: vec![(release(version), None)], channel: "stable".parse().unwrap() })
}

fn patch(settings: &[&str]) -> GroupPatch {
    let mut patch = GroupPatch {
        name: group(),
        package: Some("acme/redis".parse().unwrap()),
        channel: None,
        update_condition: None,
        policy: PolicyPatch::default(),
        windows: None,
    };
    for setting in settings {
        let (key, value) = setting.split_once('=').unwrap();
        let policy = &mut patch.policy;
        match key {
            "channel" => patch.channel = Some(Some(value.parse().unwrap())),
            "update_condition" => patch.update_condition = Some(value.parse().unwrap()),
            "max_parallel" => policy.max_parallel = Some(value.parse().unwrap()),
            "max_unavailable" => policy.max_unavailable = Some(value.parse().unwrap()),
            "order" => policy.order = Some(value.parse().unwrap()),
            "inventory" => policy.inventory = Some(value.split(',').map(str::to_owned).collect()),
            "min_healthy_time" => policy.min_healthy_time = Some(value.parse().unwrap()),
            "healthy_deadline" => policy.healthy_deadline = Some(value.parse().unwrap()),
            "progress_deadline" => policy.progress_deadline = Some(value.parse().unwrap()),
            "max_attempts" => policy.max_attempts = Some(value.parse().unwrap()),
            other => panic!("what is {other}?"),
        }
    }
    patch
}

/// Everything that happened since, one event a line.
fn shown_since(world: &World, before: &mut usize) -> String {
    let mut state = World::new().state;
    let mut out = String::new();
    for (i, (revision, entry)) in world.log.iter().enumerate() {
        if *revision <= state.revision() {
            continue;
        }
        let applied = state.apply(*revision, entry);
        if i >= *before {
            out.push_str(&show_events(&applied));
        }
    }
    *before = world.log.len();
    out
}

fn show(applied: &Applied) -> String {
    match &applied.outcome {
        Ok(_) => show_events(applied),
        Err(refusal) => format!("refused: {}: {refusal}\n{}", refusal.name(), show_events(applied)),
    }
}

fn show_events(applied: &Applied) -> String {
    let mut out = String::new();
    for event in &applied.record.events {
        writeln!(out, "{} {event}", applied.record.revision).unwrap();
    }
    out
}

fn status(world: &World) -> String {
    let Some(rollout) = world.state.latest_rollout(&group()) else { return "no rollout\n".to_owned() };
    let mut out = format!("{} {} {}\n", rollout.id, rollout.target, rollout.status);
    for step in rollout.steps.values() {
        let node =
            &world.state.nodes().get(&step.node).map_or_else(|| "removed".to_owned(), |node| node.name.to_string());
        writeln!(out, "  {node} {} attempt {}", step.phase, step.attempt).unwrap();
    }
    if let Some(waiting) = &rollout.waiting {
        writeln!(out, "  waits on {}: {}", waiting.on.name(), waiting.on).unwrap();
    }
    out
}

fn explained(world: &World, subject: &Subject) -> String {
    let mut out = String::new();
    for link in explain(&world.state, subject).unwrap() {
        let indent = "  ".repeat(link.depth as usize);
        writeln!(out, "{indent}{} [{}] {} → {}", link.subject, link.reason, link.text, link.released_by).unwrap();
    }
    out
}

fn previewed(world: &World, version: &str) -> String {
    match preview(&world.state, &group(), &release(version)) {
        Err(refusal) => format!("refused: {}: {refusal}\n", refusal.name()),
        Ok(preview) => {
            let mut out = String::new();
            for (i, round) in preview.rounds.iter().enumerate() {
                let steps: Vec<String> =
                    round.steps.iter().map(|step| format!("{} ({})", step.node, step.placed_by)).collect();
                let gate = if round.awaits_promotion { " after a promotion" } else { "" };
                writeln!(out, "{}. {}{gate}", i + 1, steps.join(", ")).unwrap();
            }
            for blocker in &preview.blockers {
                writeln!(out, "blocked by {}: {blocker}", blocker.name()).unwrap();
            }
            out
        }
    }
}
