//! What a node's orders say beside how far it may go: the highest fence that it is known to have stored, so that one that
//! has lost it can tell; and whether a drain has had its time.

#![allow(clippy::unwrap_used, reason = "a test that can't go on panics")]

mod script;
mod support;

use rollcall_ident::{Fence, Millis};
use rollcall_rollout::{Command, Go, GroupPatch, PolicyPatch, RolloutVerb, StepEvent, orders_changed, orders_for};
use support::World;

/// A group of one node, which has the token of its first rollout.
fn granted() -> World {
    let mut world = World::new();
    let words: Vec<&str> = "group channel=stable min_healthy_time=2s".split_whitespace().collect();
    script::operator(&mut world, &words).or_else(|| script::node(&mut world, &words)).unwrap().outcome.unwrap();
    world.connect("a").outcome.unwrap();
    world.start("1").outcome.unwrap();
    world.prefetch("a");
    world.plan();
    world
}

#[test]
fn a_drain_has_had_its_time_once_the_step_fails_by_it_or_its_token_is_taken() {
    let ends: [fn(&mut World); 2] = [
        |world| world.advance(Millis::from_secs(3_601)).outcome.map(|_| ()).unwrap(),
        |world| {
            let node = world.id("a");
            world.propose(Command::RevokeToken { node, force: true }).outcome.map(|_| ()).unwrap();
        },
    ];
    for end in ends {
        let mut world = granted();
        let ordered = |world: &World| {
            let step = world.orders("a").and_then(|orders| orders.step).unwrap();
            (step.go, step.cut_drain)
        };
        world.report_step("a", StepEvent::Accepted).unwrap();
        world.report_step("a", StepEvent::Prepared).unwrap();
        assert_eq!(ordered(&world), (Go::Drain, false));
        world.steer(RolloutVerb::Pause { until: None }).outcome.unwrap();
        assert_eq!(ordered(&world), (Go::TurnBack, false), "it is waited for");
        end(&mut world);
        assert_eq!(ordered(&world), (Go::TurnBack, true));
    }
}

#[test]
fn a_fence_is_known_once_the_node_has_reported_under_it() {
    let mut world = granted();
    let known = |world: &World| orders_for(&world.state, world.id("a")).unwrap().highest_fence;
    let granted = world.orders("a").and_then(|orders| orders.step).unwrap().fence;
    assert!(granted > Fence::default());
    assert_eq!(known(&world), Fence::default(), "it may not have heard of the grant");
    world.report_step("a", StepEvent::Accepted).unwrap();
    assert_eq!(known(&world), granted);
    // Whatever it says of itself when it comes back.
    world.disconnect("a", Millis::from_secs(1)).outcome.unwrap();
    world.connect("a").outcome.unwrap();
    assert_eq!(known(&world), granted);
}

#[test]
fn a_policy_that_agents_follow_orders_all_members_anew() {
    let mut world = granted();
    let before = world.state.clone();
    let policy = PolicyPatch { success_threshold: Some(7), ..PolicyPatch::default() };
    let (name, update_condition, config, windows) = (support::group(), None, None, None);
    let patch = GroupPatch { name, package: None, channel: None, update_condition, policy, config, windows };
    world.propose(Command::ApplyGroup { patch }).outcome.unwrap();
    assert_eq!(world.orders("a").unwrap().success_threshold, 7);
    assert!(orders_changed(&before, &world.state).contains(&world.id("a")));
}
