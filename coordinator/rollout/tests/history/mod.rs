//! Histories: what can happen to a cluster, in any order.

#![allow(clippy::unwrap_used, reason = "a test that can't go on panics")]

use proptest::prelude::*;
use rollcall_ident::{BootId, Millis, PeerId, SessionEpoch, WallTime};
use rollcall_rollout::{
    Amount, Command, FailureAction, Go, GroupPatch, Health, Mode, OfflinePolicy, OnDemote, Order, PolicyPatch,
    RolloutVerb, StepEvent, TimeoutAction,
};

use crate::support::{World, group, release};

pub const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// One thing that may happen.
#[derive(Debug, Clone)]
pub enum Action {
    Connect(usize),
    Disconnect(usize, u64),
    Reboot(usize),
    Act(usize, bool),
    Fail(usize),
    Prefetch,
    Lie(usize, u8),
    Health(usize, bool),
    Primary(usize, bool),
    Clock(u64),
    Plan,
    Start(u8),
    Promote(u8),
    Demote(u8),
    Steer(u8),
    Remove(usize, bool),
    Orphan,
    Say(u8, usize),
    Apply(u8),
}

pub fn action() -> impl Strategy<Value = Action> {
    let node = 0..NAMES.len();
    prop_oneof![
        4 => node.clone().prop_map(Action::Connect),
        2 => (node.clone(), 0..20_000u64).prop_map(|(node, ms)| Action::Disconnect(node, ms)),
        1 => node.clone().prop_map(Action::Reboot),
        24 => (node.clone(), prop::bool::weighted(0.9)).prop_map(|(node, good)| Action::Act(node, good)),
        1 => node.clone().prop_map(Action::Fail),
        6 => Just(Action::Prefetch),
        4 => (node.clone(), 0..9u8).prop_map(|(node, event)| Action::Lie(node, event)),
        2 => (node.clone(), any::<bool>()).prop_map(|(node, good)| Action::Health(node, good)),
        1 => (node.clone(), any::<bool>()).prop_map(|(node, primary)| Action::Primary(node, primary)),
        6 => prop_oneof![0..3_000u64, 0..1_000_000u64].prop_map(Action::Clock),
        8 => Just(Action::Plan),
        2 => (1..5u8).prop_map(Action::Start),
        2 => (1..5u8).prop_map(Action::Promote),
        1 => (1..5u8).prop_map(Action::Demote),
        3 => (0..4u8).prop_map(Action::Steer),
        1 => (node, any::<bool>()).prop_map(|(node, force)| Action::Remove(node, force)),
        1 => Just(Action::Orphan),
        8 => (0..14u8, 0..NAMES.len()).prop_map(|(what, node)| Action::Say(what, node)),
        2 => (0..16u8).prop_map(Action::Apply),
    ]
}

/// Does it in the world, where it makes sense at all.
pub fn perform(world: &mut World, action: &Action) {
    let known = |world: &World, node: usize| world.machines.contains_key(NAMES[node]);
    let up = |world: &World, node: usize| world.machines.get(NAMES[node]).is_some_and(|machine| machine.connected);
    match *action {
        Action::Connect(node) => {
            let refused = world.connect(NAMES[node]).outcome.is_err();
            if refused {
                world.machine(NAMES[node]).connected = false;
            }
        }
        Action::Disconnect(node, ms) if up(world, node) => {
            world.disconnect(NAMES[node], Millis(ms));
        }
        Action::Reboot(node) if known(world, node) => {
            let refused = world.reboot(NAMES[node]).outcome.is_err();
            if refused {
                world.machine(NAMES[node]).connected = false;
            }
        }
        Action::Act(node, is_good) => {
            if let Some(name) = token_holder(world, node) {
                world.act(name, is_good);
            }
        }
        Action::Lie(node, event) => {
            let Some(name) = token_holder(world, node).filter(|name| world.machines[*name].connected) else { return };
            let Some(order) = world.orders(name).and_then(|orders| orders.step) else { return };
            let lie = match event {
                0 => StepEvent::Accepted,
                1 => StepEvent::Prepared,
                2 => StepEvent::Drained,
                3 => StepEvent::Stopped { killed: false },
                4 => StepEvent::Installed { hook_ran: false },
                5 => StepEvent::Finished { timings: Default::default() },
                6 => StepEvent::TurnedBack,
                8 => StepEvent::Started {
                    instance: world.service(name).instance.clone().unwrap_or_else(|| lie(&order.to)),
                },
                _ => StepEvent::RebootBegun { boot_id: BootId([9; 16]) },
            };
            let is_success_claimed_early = event == 5 && order.go != Go::Finish;
            let answer = world.report_step(name, lie);
            assert!(!is_success_claimed_early || answer.is_err(), "a success that nobody saw was believed");
        }
        Action::Fail(node) if up(world, node) => {
            let Some(order) = world.orders(NAMES[node]).and_then(|orders| orders.step) else { return };
            let (reason, detail, output) = ("hook_failed".to_owned(), String::new(), String::new());
            let event = StepEvent::Failed { phase: order.phase, reason, detail, output };
            world.report_step(NAMES[node], event).unwrap();
        }
        Action::Prefetch => {
            for name in world.machines.keys().cloned().collect::<Vec<_>>() {
                world.prefetch(&name);
            }
        }
        Action::Health(node, is_good) if up(world, node) => {
            let service = world.service(NAMES[node]);
            if service.instance.is_some() {
                service.health = if is_good { Health::Healthy } else { Health::Critical };
                world.report_status(NAMES[node]).unwrap();
            }
        }
        Action::Primary(node, is_primary) if up(world, node) => {
            world.service(NAMES[node]).primary = is_primary;
            world.report_status(NAMES[node]).unwrap();
        }
        Action::Clock(ms) => {
            world.advance(Millis(ms));
        }
        Action::Plan => {
            world.plan();
        }
        Action::Start(version) => {
            world.start(&version.to_string());
        }
        Action::Promote(version) => {
            let (releases, channel) = (vec![(release(&version.to_string()), None)], "stable".parse().unwrap());
            world.propose(Command::Promote { releases, channel });
        }
        Action::Demote(version) => {
            let (releases, channel) = (vec![release(&version.to_string())], "stable".parse().unwrap());
            world.propose(Command::Demote { releases, channel });
        }
        Action::Steer(verb) => steer(world, verb),
        Action::Remove(node, force) if known(world, node) => {
            let id = world.machine(NAMES[node]).id;
            let is_gone = world.propose(Command::RemoveNode { node: id, force }).outcome.is_ok();
            if is_gone {
                world.machine(NAMES[node]).connected = false;
            }
        }
        Action::Orphan => {
            let up_to = SessionEpoch(world.state.revision().0);
            world.propose(Command::OrphanSessions { host: PeerId(1), silent_for: Millis(0), up_to });
            world.machines.values_mut().for_each(|machine| machine.connected = false);
        }
        Action::Say(what, node) if known(world, node) => say(world, what, NAMES[node]),
        Action::Apply(what) => {
            let patch = GroupPatch {
                name: group(),
                package: None,
                channel: None,
                update_condition: None,
                policy: policy_change(what),
                config: None,
                windows: None,
            };
            world.propose(Command::ApplyGroup { patch });
        }
        _ => {}
    }
}

/// A process that nobody has seen.
fn lie(release: &rollcall_ident::ReleaseIdent) -> rollcall_rollout::Instance {
    rollcall_rollout::Instance { pid: 99, start_time: 9, boot_id: BootId([9; 16]), release: release.clone() }
}

/// One of those who hold a token, so that histories get somewhere.
fn token_holder(world: &World, node: usize) -> Option<&'static str> {
    let holders: Vec<_> = world.state.tokens().keys().copied().collect();
    let holder = holders.get(node % holders.len().max(1))?;
    NAMES.into_iter().find(|name| world.machines.get(*name).is_some_and(|machine| machine.id == *holder))
}

pub fn steer(world: &mut World, verb: u8) {
    let verb = match verb {
        0 => RolloutVerb::Pause { until: None },
        1 => RolloutVerb::Resume { until: None },
        2 => RolloutVerb::Stop,
        _ => RolloutVerb::Retry { node: None },
    };
    world.steer(verb);
}

/// Everything else that an operator can say.
fn say(world: &mut World, what: u8, name: &str) {
    let node = world.id(name);
    let soon = Some(WallTime(world.wall_time().0 + 5_000));
    let target = world.state.latest_rollout(&group()).map(|rollout| rollout.target.clone());
    match what {
        0 => world.steer(RolloutVerb::Abort),
        1 => world.steer(RolloutVerb::Skip { node }),
        2 => world.steer(RolloutVerb::Promote { full: false }),
        3 => world.steer(RolloutVerb::Promote { full: true }),
        4 => world.steer(RolloutVerb::Next),
        5 => world.steer(RolloutVerb::Pause { until: soon }),
        6 => world.propose(Command::HoldNode { node, until: soon }),
        7 => world.propose(Command::ReleaseNode { node }),
        8 => world.propose(Command::SetHealth { node, is_healthy: [None, Some(true), Some(false)][name.len() % 3] }),
        9 => world.propose(Command::RevokeToken { node, force: true }),
        10 => world.propose(Command::UndoRollout { group: group(), to: None }),
        11 => world.propose(Command::CreateFreeze { groups: vec![group()], from: None, until: soon }),
        12 => match target {
            Some(release) if world.state.quarantine().contains_key(&release) => {
                world.propose(Command::RemoveQuarantine { release })
            }
            Some(release) => world.propose(Command::AddQuarantine { release }),
            None => world.propose(Command::AdvanceClock),
        },
        _ => world.steer(RolloutVerb::Retry { node: Some(node) }),
    };
}

/// A group file that names one thing.
fn policy_change(what: u8) -> PolicyPatch {
    let mut patch = PolicyPatch::default();
    match what {
        0 => patch.mode = Some(Mode::Manual),
        1 => patch.mode = Some(Mode::Auto),
        2 => patch.approval_required = Some(true),
        3 => patch.batches = Some(vec![Amount::Count(1), Amount::Percent(50)]),
        4 => patch.canary = Some(1),
        5 => patch.auto_promote = Some(true),
        6 => patch.delay = Some(Millis::from_secs(3)),
        7 => patch.failure_action = Some(FailureAction::Rollback),
        8 => patch.failure_action = Some(FailureAction::Continue),
        9 => patch.offline_policy = Some(OfflinePolicy::Skip),
        10 => patch.offline_policy = Some(OfflinePolicy::Wait),
        11 => patch.on_demote = Some(OnDemote::Rollback),
        12 => patch.ready_timeout_action = Some(TimeoutAction::Force),
        13 => patch.drain_timeout_action = Some(TimeoutAction::Force),
        14 => patch.max_attempts = Some(2),
        _ => patch.order = Some(Order::Priority),
    }
    patch
}

pub fn world_with_group(max_parallel: u32, max_unavailable: u32) -> World {
    let mut world = World::new();
    let count = |count| Some(Amount::Count(count));
    let policy = PolicyPatch {
        max_parallel: count(max_parallel),
        max_unavailable: count(max_unavailable),
        min_healthy_time: Some(Millis::from_secs(2)),
        ..PolicyPatch::default()
    };
    let patch = GroupPatch {
        name: group(),
        package: Some("acme/redis".parse().unwrap()),
        channel: Some(Some("stable".parse().unwrap())),
        update_condition: None,
        policy,
        config: None,
        windows: None,
    };
    world.propose(Command::ApplyGroup { patch }).outcome.unwrap();
    world
}

/// The same, with all nodes on release 1 and well: what happens now disturbs something.
pub fn settled_world(max_parallel: u32, max_unavailable: u32) -> World {
    let mut world = world_with_group(max_parallel, max_unavailable);
    for name in NAMES {
        world.connect(name).outcome.unwrap();
    }
    world.start("1").outcome.unwrap();
    world.run_to_end(true);
    assert!(world.state.groups().get(&group()).unwrap().settled);
    world
}
