//! Golden scripts: what a person would type and see, as text. Refactors don't touch them.
//!
//! A block is commands, a line `----`, and what they print. `UPDATE_GOLDEN=1 cargo test -p rollcall-rollout --test
//! golden` writes what they print now; read the difference before you commit it.

#![allow(clippy::disallowed_methods, reason = "the test may write its scripts, the crate may not")]
#![allow(clippy::unwrap_used, reason = "a test that can't go on panics")]

mod script;
mod support;

use std::fmt::Write as _;
use std::path::Path;

use rollcall_ident::Millis;
use rollcall_rollout::{Applied, Health, Report, StepEvent, StepReport, Subject, Way, explain, next_leaders, preview};
use support::{World, release};

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

/// One command of the script's language; returns what it prints. `in GROUP:` and `as ACTOR:` go before one.
fn run(world: &mut World, line: &str) -> String {
    if let Some((head, rest)) = line.split_once(": ") {
        if let Some(name) = head.strip_prefix("in ") {
            return world.within(&name.parse().unwrap(), |world| run(world, rest));
        }
        if let Some(actor) = head.strip_prefix("as ") {
            let before = std::mem::replace(&mut world.actor, actor.to_owned());
            let out = run(world, rest);
            world.actor = before;
            return out;
        }
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    let mut before = world.log.len();
    if let Some(applied) = script::operator(world, &words).or_else(|| script::node(world, &words)) {
        return show(&applied);
    }
    // What an agent says of a step that it isn't ordered to take is no part of a story.
    if let ["fail" | "rebooting" | "report-with-fence", name, ..] = words[..]
        && world.orders(name).is_none_or(|orders| orders.step.is_none())
    {
        return format!("{name} has no step\n");
    }
    match words[..] {
        ["join" | "back", ref names @ ..] => {
            let shown: Vec<String> = names.iter().map(|name| show(&world.connect(name))).collect();
            return shown.concat();
        }
        ["plan"] => {
            let granted = world.plan();
            return granted.iter().map(show).collect();
        }
        ["report-with-fence", name, fence] => return report_with_fence(world, name, fence),
        ["status"] => return status(world),
        ["explain", "rollout"] => {
            let id = world.state.latest_rollout(&world.group).map(|rollout| rollout.id).unwrap_or_default();
            return explained(world, &Subject::Rollout(id));
        }
        ["explain", "group"] => return explained(world, &Subject::Group(world.group.clone())),
        ["explain", name] => return explained(world, &Subject::Node(world.id(name))),
        ["preview", version] => return previewed(world, version),
        // The rest is what the world does; what came of it is shown.
        ["primary", name, is_primary] => {
            world.service(name).primary = is_primary == "yes";
            world.report_status(name).unwrap();
        }
        ["priority", name, priority] => {
            world.service(name).priority = Some(priority.parse().unwrap());
            world.report_status(name).unwrap();
        }
        ["zone", name, zone] => world.machines.get_mut(name).unwrap().zone = Some(zone.to_owned()),
        ["configure", name, group, is_member] => world.configure(name, &group.parse().unwrap(), is_member == "yes"),
        ["hosts-peer", name, peer] => world.machine(name).hosts_peer = Some(peer.to_owned()),
        ["next-leaders"] => {
            let leaders: Vec<String> = next_leaders(&world.state).iter().map(ToString::to_string).collect();
            return format!("next leaders: {}\n", leaders.join(" "));
        }
        ["one-way", version] => world.one_way.push(release(version)),
        ["health", name, health] => {
            world.service(name).health = match health {
                "healthy" => Health::Healthy,
                "warning" => Health::Warning,
                "critical" => Health::Critical,
                other => panic!("{other}"),
            };
            world.report_status(name).unwrap();
        }
        ["runs", name, version] => {
            world.start_process(name, &release(version));
            world.service(name).health = Health::Healthy;
            world.report_status(name).unwrap();
        }
        ["cant-prefetch", name] => world.service(name).can_prefetch = false,
        ["prefetch", ref names @ ..] => names.iter().for_each(|name| {
            world.prefetch(name);
        }),
        // The agent of the node takes its next so many actions.
        ["act", name, times] => (0..times.parse::<u32>().unwrap()).for_each(|_| {
            world.act(name, true);
        }),
        ["fail", name, reason] => {
            let phase = world.orders(name).unwrap().step.unwrap().phase;
            let (reason, detail, output) = (reason.to_owned(), "exit code 1".to_owned(), String::new());
            world.report_step(name, StepEvent::Failed { phase, reason, detail, output }).unwrap();
        }
        ["rebooting", name] => {
            let boot_id = rollcall_ident::BootId([world.machine(name).boot; 16]);
            world.report_step(name, StepEvent::RebootBegun { boot_id }).unwrap();
        }
        // Everybody does what there is to do, without the clock; with it.
        ["go"] => world.run(true),
        ["run"] => world.run_to_end(true),
        ["run-bad"] => world.run_to_end(false),
        // The same, and only the last lines of it.
        ["run-quietly"] => {
            world.run_to_end(true);
            before = world.log.len();
        }
        ref other => panic!("what is {other:?}?"),
    }
    shown_since(world, &mut before)
}

fn report_with_fence(world: &mut World, name: &str, fence: &str) -> String {
    let order = world.orders(name).unwrap().step.unwrap();
    let report = StepReport {
        group: world.group.clone(),
        rollout: order.rollout,
        fence: rollcall_ident::Fence(fence.parse().unwrap()),
        attempt: order.attempt,
        event: StepEvent::Prepared,
    };
    match world.report(name, Report::Step(report)) {
        Ok(()) => "ok\n".to_owned(),
        Err(refusal) => format!("refused: {}: {refusal}\n", refusal.name()),
    }
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
    let Some(rollout) = world.state.latest_rollout(&world.group) else { return "no rollout\n".to_owned() };
    let mut out = format!("{} {} {}\n", rollout.id, rollout.target, rollout.status);
    for step in rollout.steps.values() {
        let node =
            &world.state.nodes().get(&step.node).map_or_else(|| "removed".to_owned(), |node| node.name.to_string());
        let way = if step.way == Way::Back { " back" } else { "" };
        writeln!(out, "  {node} {}{way} attempt {}", step.phase, step.attempt).unwrap();
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
    match preview(&world.state, &world.group, &release(version)) {
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
            if let Some(takes) = preview.takes {
                writeln!(out, "takes about {takes}").unwrap();
            }
            if let Some(window) = preview.window {
                let hours = |at: rollcall_ident::WallTime| Millis(at.0 - support::MIDNIGHT);
                let until = window.closes_at.map_or("ever".to_owned(), |at| hours(at).to_string());
                let from = hours(window.opens_at);
                writeln!(out, "window from {from} to {until} after midnight, fits: {:?}", window.fits).unwrap();
            }
            out
        }
    }
}
