//! Properties of the pure state machine over random histories: operators, nodes, time and the planner in any order.
//!
//! The linter runs inside `apply` after every entry; what stands here is what only a whole history can show.

#![allow(clippy::unwrap_used, reason = "a test that can't go on panics")]

mod history;
mod support;

use history::{NAMES, action, perform, settled_world, steer, world_with_group};
use proptest::prelude::*;
use rollcall_ident::{Millis, Revision};
use rollcall_rollout::{
    Amount, Command, GroupPatch, Health, HistoryRecord, Phase, PolicyPatch, Rollout, RolloutStatus, RolloutVerb, State,
    Step, Subject, explain, orders_changed, orders_for, plan, plan_ahead, preview,
};
use support::{group, release};

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
            if step.phase == Phase::Succeeded && was.phase != Phase::Succeeded {
                assert_proved(after, rollout, step);
            }
        }
    }
    assert!(before.clock() <= after.clock());
}

/// Who has just succeeded is there and well, in the process that was proved, on the release that the step leads to.
fn assert_proved(after: &State, rollout: &Rollout, step: &Step) {
    let node = after.nodes().get(&step.node).unwrap();
    let service = &node.services[&rollout.group];
    assert!(node.session().is_some(), "{} {} succeeded while it was away", rollout.id, step.node);
    assert_eq!(service.instance, step.instance, "{} {}: another process was proved", rollout.id, step.node);
    assert_eq!(service.release.as_ref(), Some(rollout.target_of(step)));
    let on_warning = after.groups().get(&rollout.group).unwrap().policy.on_warning;
    assert!(node.health_of(service).is_good(on_warning), "{} {} succeeded {}", rollout.id, step.node, service.health);
}

/// Whoever isn't named as ordered anew has the orders that it had.
fn assert_others_are_ordered_as_before(before: &State, after: &State) {
    let changed = orders_changed(before, after);
    for node in after.nodes().keys().filter(|node| !changed.contains(node)) {
        let (was, is) = (orders_for(before, *node).unwrap(), orders_for(after, *node).unwrap());
        assert_eq!((was.groups, was.highest_fence), (is.groups, is.highest_fence), "{node} is ordered anew");
    }
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
        let is_free = earlier.unavailable.contains_key(node)
            || before.nodes().get(node).is_none_or(|node| node.services[&name].release.is_none());
        let others = later.unavailable.keys().filter(|other| *other != node).count();
        assert!(is_free || others < max_unavailable, "{node} went down while {others} others are not known healthy");
    }
}

/// A choice, whatever it was based on.
fn without_basis(mut chosen: Command) -> Command {
    if let Command::GrantToken { based_on, .. } = &mut chosen {
        *based_on = Revision::default();
    }
    chosen
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
                assert_others_are_ordered_as_before(&before, &state);
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

    /// What is planned at once is what would be planned one after the other.
    #[test]
    fn planning_ahead_is_planning_step_by_step(actions in prop::collection::vec(action(), 1..80)) {
        let mut world = settled_world(3, 3);
        actions.iter().for_each(|action| perform(&mut world, action));
        for chosen in plan_ahead(&world.state) {
            let next = plan(&world.state).into_iter().map(without_basis).next();
            prop_assert_eq!(next, Some(without_basis(chosen.clone())));
            prop_assert!(world.propose(chosen).outcome.is_ok());
        }
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
        world.propose(Command::RemoveQuarantine { release: release("9") });
        world.start("9");
        let names: Vec<String> = world.machines.keys().cloned().collect();
        for name in &names {
            world.connect(name).outcome.unwrap();
            let node = world.id(name);
            world.propose(Command::SetHealth { node, is_healthy: None });
        }
        for name in &names {
            let Some(old) = world.service(name).release.clone() else { continue };
            if world.service(name).instance.is_none() {
                world.start_process(name, &old);
            }
            world.service(name).health = Health::Healthy;
            world.report_status(name).unwrap();
        }
        // What operators do: approve, promote, resume, try again, until nothing waits for them any more.
        for _ in 0..40 {
            world.run_to_end(true);
            let Some(rollout) = world.state.active_rollout(&group()) else { break };
            match rollout.status {
                RolloutStatus::Paused => { steer(&mut world, 1); steer(&mut world, 3); }
                RolloutStatus::AwaitingApproval => {
                    world.actor = "second".to_owned();
                    world.steer(RolloutVerb::Approve).outcome.unwrap();
                }
                RolloutStatus::AwaitingPromotion => { world.steer(RolloutVerb::Promote { full: false }).outcome.unwrap(); }
                _ => { world.steer(RolloutVerb::Next).outcome.unwrap(); }
            }
        }
        prop_assert!(world.state.active_rollout(&group()).is_none(), "{:?}", explain(&world.state, &Subject::Group(group())));
        let members = world.state.groups().get(&group()).unwrap();
        for (node, service) in world.state.members(members) {
            prop_assert_eq!(service.release.as_ref(), Some(&release("9")), "{}", node.name);
            prop_assert_eq!(service.health, Health::Healthy);
        }
    }

    /// Targets that overtake each other, up and down, at any moment: every member ends on the last one, and no rollout
    /// stops or starts a node twice.
    #[test]
    fn targets_back_to_back_stop_and_start_once(turns in prop::collection::vec((1..9u8, 0..30usize, 0..4u64), 20)) {
        let mut world = settled_world(1, 1);
        for (version, acts, seconds) in turns {
            world.start(&version.to_string());
            world.run_for(acts);
            world.advance(Millis::from_secs(seconds));
        }
        world.run_to_end(true);
        let last = world.state.latest_rollout(&group()).unwrap();
        prop_assert_eq!(last.status, RolloutStatus::Succeeded, "{:#?}", explain(&world.state, &Subject::Group(group())));
        let members = world.state.groups().get(&group()).unwrap();
        for (node, service) in world.state.members(members) {
            prop_assert_eq!(service.release.as_ref(), Some(&last.target), "{}", node.name);
        }
        for rollout in world.state.rollouts().values() {
            for step in rollout.steps.values() {
                let times = |phase| step.history.iter().filter(|(entered, ..)| *entered == phase).count();
                let (stops, starts) = (times(Phase::Stopping), times(Phase::Starting));
                prop_assert!(stops <= 1 && starts <= stops, "{} {}: {stops} stops, {starts} starts", rollout.id, step.node);
                let has_reached = step.phase == Phase::Succeeded;
                prop_assert!(!has_reached || (stops, starts) == (1, 1), "{} {}", rollout.id, step.node);
            }
        }
    }

    /// On a settled group without faults the executed order is the planned one.
    #[test]
    fn the_plan_is_what_is_done(
        count in 1..NAMES.len(),
        primaries in prop::collection::vec(any::<bool>(), 4),
        limits in (1..3u32, 1..3u32),
        shape in (0..2u32, prop::collection::vec(1..3u32, 0..3)),
    ) {
        let mut world = world_with_group(limits.0, limits.1);
        for name in &NAMES[..count] {
            world.connect(name).outcome.unwrap();
        }
        world.start("1");
        world.run_to_end(true);
        for (name, is_primary) in NAMES[..count].iter().zip(&primaries) {
            world.service(name).primary = *is_primary;
            world.report_status(name).unwrap();
        }
        let policy = PolicyPatch {
            canary: Some(shape.0),
            batches: Some(shape.1.into_iter().map(Amount::Count).collect()),
            ..PolicyPatch::default()
        };
        let patch = GroupPatch { name: group(), package: None, channel: None, update_condition: None, policy, config: None, windows: None };
        world.propose(Command::ApplyGroup { patch }).outcome.unwrap();
        let preview = preview(&world.state, &group(), &release("2")).unwrap();
        prop_assert_eq!(preview.blockers, Vec::new());
        let planned: Vec<(u32, String)> = preview.rounds.into_iter()
            .flat_map(|round| round.steps.into_iter().map(move |step| (round.batch, step.node.to_string())))
            .collect();
        world.start("2");
        world.run_to_end(true);
        while world.steer(RolloutVerb::Promote { full: false }).outcome.is_ok() {
            world.run_to_end(true);
        }
        let rollout = world.state.latest_rollout(&group()).unwrap();
        prop_assert_eq!(rollout.status, RolloutStatus::Succeeded);
        let mut done: Vec<_> = rollout.steps.values().collect();
        done.sort_by_key(|step| step.fence);
        let name = |step: &Step| world.state.nodes().get(&step.node).unwrap().name.to_string();
        let done: Vec<(u32, String)> = done.iter().map(|step| (step.batch.unwrap(), name(step))).collect();
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
