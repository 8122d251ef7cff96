//! Properties of the pure state machine over random histories: operators, nodes, time and the planner in any order.
//!
//! The linter runs inside `apply` after every entry; what stands here is what only a whole history can show.

#![allow(clippy::unwrap_used, reason = "a test that can't go on panics")]

mod support;

use proptest::prelude::*;
use rollcall_ident::{BootId, Millis, PeerId, Revision, SessionEpoch};
use rollcall_rollout::{
    Command, Go, GroupPatch, Health, HistoryRecord, Phase, PolicyPatch, RolloutStatus, RolloutVerb, State, StepEvent,
    Subject, explain, plan, preview,
};
use support::{World, group, release};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// One thing that may happen.
#[derive(Debug, Clone)]
enum Action {
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
}

fn action() -> impl Strategy<Value = Action> {
    let node = 0..NAMES.len();
    prop_oneof![
        4 => node.clone().prop_map(Action::Connect),
        2 => (node.clone(), 0..20_000u64).prop_map(|(node, ms)| Action::Disconnect(node, ms)),
        1 => node.clone().prop_map(Action::Reboot),
        24 => (node.clone(), prop::bool::weighted(0.9)).prop_map(|(node, good)| Action::Act(node, good)),
        1 => node.clone().prop_map(Action::Fail),
        6 => Just(Action::Prefetch),
        4 => (node.clone(), 0..8u8).prop_map(|(node, event)| Action::Lie(node, event)),
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
    ]
}

/// Does it in the world, where it makes sense at all.
fn perform(world: &mut World, action: &Action) {
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
            let machine = world.machine(NAMES[node]);
            machine.boot = machine.boot.wrapping_add(1);
            machine.instance = None;
            if machine.release.is_some() {
                machine.health = Health::Unknown;
            }
            perform(world, &Action::Connect(node));
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
            let machine = world.machine(NAMES[node]);
            if machine.instance.is_some() {
                machine.health = if is_good { Health::Healthy } else { Health::Critical };
                world.report_status(NAMES[node]).unwrap();
            }
        }
        Action::Primary(node, is_primary) if up(world, node) => {
            world.machine(NAMES[node]).primary = is_primary;
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
            let (release, channel) = (release(&version.to_string()), "stable".parse().unwrap());
            world.propose(Command::Promote { release, channel, digest: None });
        }
        Action::Demote(version) => {
            let (release, channel) = (release(&version.to_string()), "stable".parse().unwrap());
            world.propose(Command::Demote { release, channel });
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
        _ => {}
    }
}

/// One of those who hold a token, so that histories get somewhere.
fn token_holder(world: &World, node: usize) -> Option<&'static str> {
    let holders: Vec<_> = world.state.tokens().keys().copied().collect();
    let holder = holders.get(node % holders.len().max(1))?;
    NAMES.into_iter().find(|name| world.machines.get(*name).is_some_and(|machine| machine.id == *holder))
}

fn steer(world: &mut World, verb: u8) {
    let verb = match verb {
        0 => RolloutVerb::Pause,
        1 => RolloutVerb::Resume,
        2 => RolloutVerb::Stop,
        _ => RolloutVerb::Retry { node: None },
    };
    let Some(rollout) = world.state.latest_rollout(&group()).map(|rollout| rollout.id) else { return };
    world.propose(Command::Steer { rollout, verb });
}

fn world_with_group(max_parallel: u32, max_unavailable: u32) -> World {
    let mut world = World::new();
    let count = |count| Some(rollcall_rollout::Amount::Count(count));
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
    };
    world.propose(Command::ApplyGroup { patch }).outcome.unwrap();
    world
}

/// The same, with all nodes on release 1 and well: what happens now disturbs something.
fn settled_world(max_parallel: u32, max_unavailable: u32) -> World {
    let mut world = world_with_group(max_parallel, max_unavailable);
    for name in NAMES {
        world.connect(name).outcome.unwrap();
    }
    world.start("1").outcome.unwrap();
    world.run_to_end(true);
    assert!(world.state.groups().get(&group()).unwrap().settled);
    world
}

/// Between two entries: every edge that a step took is in the table, fences rise, ended rollouts stay as they ended.
fn assert_lawful(before: &State, after: &State) {
    for rollout in after.rollouts().values() {
        let Some(earlier) = before.rollouts().get(&rollout.id) else { continue };
        assert!(earlier.is_active() || earlier.status == rollout.status, "{} rose from the dead", rollout.id);
        assert_eq!(earlier.target, rollout.target);
        for step in rollout.steps.values() {
            let Some(was) = earlier.steps.get(&step.node) else { continue };
            assert!(step.fence >= was.fence, "{} {}: its fence fell", rollout.id, step.node);
            assert!(step.attempt >= was.attempt, "{} {}: its attempts fell", rollout.id, step.node);
            let stood_still = step.fence == was.fence && !was.phase.holds_token() && was.phase != Phase::Failed;
            assert!(!step.phase.holds_token() || !stood_still, "{} {} is down without a grant", rollout.id, step.node);
        }
    }
    assert!(before.clock() <= after.clock());
}

/// The audit chain goes on by the record of each entry that did something, and by nothing else (I-18).
fn assert_chained(before: &State, record: &HistoryRecord, after: &State) {
    let expected = match record.events.as_slice() {
        [] => before.audit_head(),
        _ => before.audit_head().extended_by(record),
    };
    assert_eq!(after.audit_head(), expected, "after {record:?}");
}

/// Whoever passes a commit point must leave everybody else within the budget, as the log knows them at that moment.
fn assert_within_budget(before: &State, after: &State, max_unavailable: usize) {
    let name = group();
    let (Some(earlier), Some(later)) = (before.groups().get(&name), after.groups().get(&name)) else { return };
    let committed = after.tokens().iter().filter_map(|(node, token)| {
        let step = after.rollouts().get(&token.rollout)?.steps.get(node)?;
        let was = before.rollouts().get(&token.rollout)?.steps.get(node)?;
        (was.phase == Phase::Draining && step.phase == Phase::Stopping).then_some(node)
    });
    for node in committed {
        let is_free = earlier.unhealthy.contains_key(node)
            || before.nodes().get(node).is_none_or(|node| node.services[&name].release.is_none());
        let others = later.unhealthy.keys().filter(|other| *other != node).count();
        assert!(is_free || others < max_unavailable, "{node} went down while {others} others are not known healthy");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// Any history is lawful, replays to the same bytes, and its state survives a snapshot.
    #[test]
    fn any_history_is_lawful(actions in prop::collection::vec(action(), 1..150), limits in (1..3u32, 1..3u32)) {
        let mut world = settled_world(limits.0, limits.1);
        world.start("2").outcome.unwrap();
        let mut states = vec![world.state.clone()];
        for action in &actions {
            let from = world.log.len();
            perform(&mut world, action);
            let mut state = states.last().unwrap().clone();
            for (revision, entry) in &world.log[from..] {
                let before = state.clone();
                let applied = state.apply(*revision, entry);
                assert_lawful(&before, &state);
                assert_within_budget(&before, &state, limits.1 as usize);
                assert_chained(&before, &applied.record, &state);
                if applied.outcome.is_err() {
                    prop_assert_eq!(before.rollouts().len(), state.rollouts().len());
                }
            }
            prop_assert_eq!(&state, &world.state);
            states.push(state);
        }
        let bytes = bincode::seal(bincode::Kind::SNAPSHOT, &world.state);
        let restored: State = bincode::open(bincode::Kind::SNAPSHOT, &bytes).unwrap();
        prop_assert_eq!(&restored, &world.state);
        prop_assert_eq!(bincode::seal(bincode::Kind::SNAPSHOT, &restored), bytes);
    }

    /// Once the planner's choices are applied, planning again changes nothing.
    #[test]
    fn planning_again_changes_nothing(actions in prop::collection::vec(action(), 1..80)) {
        let mut world = settled_world(2, 2);
        actions.iter().for_each(|action| perform(&mut world, action));
        world.plan();
        prop_assert_eq!(plan(&world.state), Vec::new());
    }

    /// `explain` has something to say of every node, rollout and group in every state.
    #[test]
    fn explain_never_says_nothing(actions in prop::collection::vec(action(), 1..80)) {
        let mut world = settled_world(1, 1);
        for action in &actions {
            perform(&mut world, action);
        }
        let subjects = world.state.nodes().keys().map(|id| Subject::Node(*id))
            .chain(world.state.rollouts().keys().map(|id| Subject::Rollout(*id)))
            .chain([Subject::Group(group())]);
        for subject in subjects {
            let chain = explain(&world.state, &subject).unwrap();
            prop_assert!(!chain.is_empty());
            prop_assert!(chain.iter().all(|link| !link.text.is_empty() && !link.released_by.is_empty()));
        }
    }

    /// Whatever has happened: once everybody is back and well, a rollout to a good release reaches every member.
    #[test]
    fn a_healed_group_reaches_its_target(actions in prop::collection::vec(action(), 1..120)) {
        let mut world = world_with_group(1, 1);
        actions.iter().for_each(|action| perform(&mut world, action));
        let gone: Vec<String> = world.machines.iter()
            .filter(|(_, machine)| !world.state.nodes().contains_key(&machine.id))
            .map(|(name, _)| name.clone())
            .collect();
        gone.iter().for_each(|name| { world.machines.remove(name); });
        world.start("9");
        let names: Vec<String> = world.machines.keys().cloned().collect();
        for name in &names {
            world.connect(name).outcome.unwrap();
        }
        for name in &names {
            let Some(old) = world.machine(name).release.clone() else { continue };
            if world.machine(name).instance.is_none() {
                world.start_process(name, &old);
            }
            world.machine(name).health = Health::Healthy;
            world.report_status(name).unwrap();
        }
        // What an operator does: resume, try again, until nothing is paused any more.
        for _ in 0..20 {
            world.run_to_end(true);
            match world.state.active_rollout(&group()).map(|rollout| rollout.status) {
                Some(RolloutStatus::Paused) => { steer(&mut world, 1); steer(&mut world, 3); }
                _ => break,
            }
        }
        prop_assert!(world.state.active_rollout(&group()).is_none(), "{:?}", explain(&world.state, &Subject::Group(group())));
        let members = world.state.groups().get(&group()).unwrap();
        for (node, service) in world.state.members(members) {
            prop_assert_eq!(service.release.as_ref(), Some(&release("9")), "{}", node.name);
            prop_assert_eq!(service.health, Health::Healthy);
        }
    }

    /// On a settled group without faults the executed order is the planned one.
    #[test]
    fn the_plan_is_what_is_done(count in 1..NAMES.len(), primaries in prop::collection::vec(any::<bool>(), 4)) {
        let mut world = world_with_group(1, 1);
        for name in &NAMES[..count] {
            world.connect(name).outcome.unwrap();
        }
        world.start("1");
        world.run_to_end(true);
        for (name, is_primary) in NAMES[..count].iter().zip(&primaries) {
            world.machine(name).primary = *is_primary;
            world.report_status(name).unwrap();
        }
        let planned: Vec<String> = preview(&world.state, &group(), &release("2")).unwrap()
            .batches.concat().into_iter().map(|step| step.node.to_string()).collect();
        world.start("2");
        world.run_to_end(true);
        let rollout = world.state.latest_rollout(&group()).unwrap();
        prop_assert_eq!(rollout.status, RolloutStatus::Succeeded);
        let mut done: Vec<_> = rollout.steps.values().map(|step| (step.fence, step.node)).collect();
        done.sort();
        let done: Vec<String> = done.iter().map(|(_, id)| world.state.nodes().get(id).unwrap().name.to_string()).collect();
        prop_assert_eq!(done, planned);
    }
}

/// A retry with the same request id is answered with the first outcome, at its revision, and changes nothing.
#[test]
fn a_retried_request_gets_the_first_answer() {
    let mut world = world_with_group(1, 1);
    world.connect("a").outcome.unwrap();
    let mut proposal = rollcall_rollout::Proposal::internal(Command::StartRollout {
        group: group(),
        target: release("1"),
        digest: None,
        kind: rollcall_rollout::RolloutKind::Update,
    });
    proposal.request_id = Some("once".parse().unwrap());
    let first = world.propose_as(proposal.clone());
    world.run_to_end(true);
    let again = world.propose_as(proposal.clone());
    assert_eq!((again.revision, &again.outcome), (first.revision, &first.outcome));
    assert!(again.record.events.is_empty());
    proposal.command = Command::AdvanceClock;
    assert_eq!(world.propose_as(proposal).outcome.unwrap_err().name(), "request_id_reused");
}

#[test]
fn a_write_that_expects_an_older_revision_is_refused() {
    let mut world = world_with_group(1, 1);
    world.connect("a").outcome.unwrap();
    let planned_at = world.state.revision();
    world.start("1").outcome.unwrap();
    let mut proposal = rollcall_rollout::Proposal::internal(Command::StartRollout {
        group: group(),
        target: release("2"),
        digest: None,
        kind: rollcall_rollout::RolloutKind::Update,
    });
    proposal.expected_revision = Some(planned_at);
    assert_eq!(world.propose_as(proposal.clone()).outcome.unwrap_err().name(), "revision_moved");
    proposal.expected_revision = Some(Revision(world.state.revision().0));
    assert!(world.propose_as(proposal).outcome.is_ok());
}
