//! The words of the golden scripts that enter the log: what operators say, and what happens to machines.

#![allow(clippy::unwrap_used, reason = "a test that can't go on panics")]

use rollcall_ident::{GroupName, Millis, PeerId, WallTime};
use rollcall_rollout::{Applied, Command, Day, GroupPatch, PeerFacts, PeerStanding, PolicyPatch, RolloutVerb, Window};

use crate::support::{MIDNIGHT, World, release};

/// What an operator says, if it is that.
pub fn operator(world: &mut World, words: &[&str]) -> Option<Applied> {
    if let Some(verb) = verb(world, words) {
        return Some(world.steer(verb));
    }
    let group = world.group.clone();
    Some(world.propose(match *words {
        ["group", ref settings @ ..] => Command::ApplyGroup { patch: patch(&group, settings) },
        ["promote", ref versions @ ..] => Command::Promote {
            releases: versions.iter().map(|version| (release(version), None)).collect(),
            channel: "stable".parse().unwrap(),
        },
        ["demote", ref versions @ ..] => Command::Demote {
            releases: versions.iter().map(|version| release(version)).collect(),
            channel: "stable".parse().unwrap(),
        },
        ["start", version] => return Some(world.start(version)),
        ["undo"] => Command::UndoRollout { group, to: None },
        ["undo", to] => Command::UndoRollout { group, to: Some(to.parse().unwrap()) },
        ["hold", name] => Command::HoldNode { node: world.id(name), until: None },
        ["hold", name, hour] => Command::HoldNode { node: world.id(name), until: Some(at(hour)) },
        ["release", name] => Command::ReleaseNode { node: world.id(name) },
        ["set-health", name, health] => {
            let is_healthy = match health {
                "healthy" => Some(true),
                "unhealthy" => Some(false),
                _ => None,
            };
            Command::SetHealth { node: world.id(name), is_healthy }
        }
        ["revoke", name] => Command::RevokeToken { node: world.id(name), force: false },
        ["revoke", name, "--force"] => Command::RevokeToken { node: world.id(name), force: true },
        ["quarantine", version] => Command::AddQuarantine { release: release(version) },
        ["unquarantine", version] => Command::RemoveQuarantine { release: release(version) },
        ["window", "add", ref spec @ ..] => Command::AddWindow { group, window: window(spec) },
        ["window", "remove", id] => Command::RemoveWindow { group, window: id.parse().unwrap() },
        ["freeze", "all"] => Command::CreateFreeze { groups: Vec::new(), from: None, until: None },
        ["freeze", from, until] => {
            Command::CreateFreeze { groups: vec![group], from: Some(at(from)), until: Some(at(until)) }
        }
        ["lift", id] => Command::LiftFreeze { freeze: id.parse().unwrap() },
        ["remove", name] => Command::RemoveNode { node: world.id(name), force: false },
        ["remove", name, "--force"] => Command::RemoveNode { node: world.id(name), force: true },
        ["replace", old, new] => Command::ReplaceNode { old: world.id(old), new: world.id(new), force: false },
        ["replace", old, new, "--force"] => {
            Command::ReplaceNode { old: world.id(old), new: world.id(new), force: true }
        }
        _ => return None,
    }))
}

/// What is said to the group's latest rollout.
fn verb(world: &World, words: &[&str]) -> Option<RolloutVerb> {
    Some(match *words {
        ["approve"] => RolloutVerb::Approve,
        ["deny"] => RolloutVerb::Deny,
        ["pause"] => RolloutVerb::Pause { until: None },
        ["pause", hour] => RolloutVerb::Pause { until: Some(at(hour)) },
        ["resume"] => RolloutVerb::Resume { until: None },
        ["resume", hour] => RolloutVerb::Resume { until: Some(at(hour)) },
        ["promote-batch"] => RolloutVerb::Promote { full: false },
        ["promote-batch", "--full"] => RolloutVerb::Promote { full: true },
        ["next"] => RolloutVerb::Next,
        ["stop"] => RolloutVerb::Stop,
        ["abort"] => RolloutVerb::Abort,
        ["retry"] => RolloutVerb::Retry { node: None },
        ["retry", name] => RolloutVerb::Retry { node: Some(world.id(name)) },
        ["skip", name] => RolloutVerb::Skip { node: world.id(name) },
        _ => return None,
    })
}

/// What happens to machines and to time, if it is that.
pub fn node(world: &mut World, words: &[&str]) -> Option<Applied> {
    Some(match *words {
        ["reboot", name] => world.reboot(name),
        ["leave", name] => world.disconnect(name, Millis(0)),
        ["clock", by] => world.advance(by.parse().unwrap()),
        ["add-peer", address] => world.propose(Command::AddPeer { address: address.to_owned() }),
        ["remove-peer", id] => world.propose(Command::RemovePeer { peer: peer(id) }),
        ["peer", id, "on", name] => {
            let facts =
                PeerFacts { machine_id: format!("machine of {name}"), version: "0.1.0".to_owned(), feature_level: 1 };
            world.propose(Command::DescribePeer { peer: peer(id), facts })
        }
        ["leads", id, ref others @ ..] => {
            let standings = others.iter().map(|other| standing(other)).chain([(peer(id), PeerStanding::CaughtUp)]);
            world.propose(Command::NotePeers { leader: peer(id), standings: standings.collect() })
        }
        _ => return None,
    })
}

fn peer(id: &str) -> PeerId {
    PeerId(id.parse().unwrap())
}

/// `2` is caught up, `2=silent` says what else it is.
fn standing(words: &str) -> (PeerId, PeerStanding) {
    let (id, standing) = words.split_once('=').unwrap_or((words, "caught_up"));
    let standing = match standing {
        "caught_up" => PeerStanding::CaughtUp,
        "lagging" => PeerStanding::Lagging,
        "silent" => PeerStanding::Silent,
        other => panic!("what is {other}?"),
    };
    (peer(id), standing)
}

/// So long after the midnight with which cluster time begins.
fn at(after_midnight: &str) -> WallTime {
    WallTime(MIDNIGHT + after_midnight.parse::<Millis>().unwrap().0)
}

/// `mon,tue 02:00 2h Europe/Berlin`
fn window(spec: &[&str]) -> Window {
    let [days, start, length, ref zone @ ..] = *spec else { panic!("what is {spec:?}?") };
    let days: Vec<&str> = if days == "daily" { Vec::new() } else { days.split(',').collect() };
    let (hour, minute) = start.split_once(':').unwrap();
    Window {
        days: days.into_iter().map(|day| day.parse::<Day>().unwrap()).collect(),
        start_minute: hour.parse::<u32>().unwrap() * 60 + minute.parse::<u32>().unwrap(),
        length: length.parse().unwrap(),
        time_zone: zone.first().unwrap_or(&"UTC").to_string(),
    }
}

fn patch(group: &GroupName, settings: &[&str]) -> GroupPatch {
    let mut patch = GroupPatch {
        name: group.clone(),
        package: Some("acme/redis".parse().unwrap()),
        channel: None,
        update_condition: None,
        policy: PolicyPatch::default(),
        config: None,
        windows: None,
    };
    for setting in settings {
        let (key, value) = setting.split_once('=').unwrap();
        let policy = &mut patch.policy;
        match key {
            "channel" => patch.channel = Some(Some(value.parse().unwrap())),
            "update_condition" => patch.update_condition = Some(value.parse().unwrap()),
            // `config=` with a text, `config=none` without one.
            "config" => patch.config = Some((value != "none").then(|| format!("setting = \"{value}\"\n"))),
            "mode" => policy.mode = Some(value.parse().unwrap()),
            "approval_required" => policy.approval_required = Some(value.parse().unwrap()),
            "max_parallel" => policy.max_parallel = Some(value.parse().unwrap()),
            "max_unavailable" => policy.max_unavailable = Some(value.parse().unwrap()),
            "batches" => policy.batches = Some(value.split(',').map(|size| size.parse().unwrap()).collect()),
            "order" => policy.order = Some(value.parse().unwrap()),
            "inventory" => policy.inventory = Some(value.split(',').map(str::to_owned).collect()),
            "primary_last" => policy.primary_last = Some(value.parse().unwrap()),
            "canary" => policy.canary = Some(value.parse().unwrap()),
            "auto_promote" => policy.auto_promote = Some(value.parse().unwrap()),
            "delay" => policy.delay = Some(value.parse().unwrap()),
            "on_warning" => policy.on_warning = Some(value.parse().unwrap()),
            "success_threshold" => policy.success_threshold = Some(value.parse().unwrap()),
            "failure_threshold" => policy.failure_threshold = Some(value.parse().unwrap()),
            "min_healthy_time" => policy.min_healthy_time = Some(value.parse().unwrap()),
            "healthy_deadline" => policy.healthy_deadline = Some(value.parse().unwrap()),
            "progress_deadline" => policy.progress_deadline = Some(value.parse().unwrap()),
            "ready_timeout" => policy.ready_timeout = Some(value.parse().unwrap()),
            "ready_timeout_action" => policy.ready_timeout_action = Some(value.parse().unwrap()),
            "drain_timeout" => policy.drain_timeout = Some(value.parse().unwrap()),
            "drain_timeout_action" => policy.drain_timeout_action = Some(value.parse().unwrap()),
            "reboot_timeout" => policy.reboot_timeout = Some(value.parse().unwrap()),
            "max_reboots" => policy.max_reboots = Some(value.parse().unwrap()),
            "stale_after" => policy.stale_after = Some(value.parse().unwrap()),
            "lost_after" => policy.lost_after = Some(value.parse().unwrap()),
            "offline_policy" => policy.offline_policy = Some(value.parse().unwrap()),
            "failure_action" => policy.failure_action = Some(value.parse().unwrap()),
            "max_failure_ratio" => policy.max_failure_ratio = Some(value.parse().unwrap()),
            "on_demote" => policy.on_demote = Some(value.parse().unwrap()),
            "auto_start" => policy.auto_start = Some(value.parse().unwrap()),
            "catch_up" => policy.catch_up = Some(value == "auto"),
            "max_attempts" => policy.max_attempts = Some(value.parse().unwrap()),
            "revision_history_limit" => policy.revision_history_limit = Some(value.parse().unwrap()),
            other => panic!("what is {other}?"),
        }
    }
    patch
}
