//! Orders name the highest fence that the node is known to have stored, so that one that has lost it can tell.

#![allow(clippy::unwrap_used, reason = "a test that can't go on panics")]

mod script;
mod support;

use rollcall_ident::{Fence, Millis};
use rollcall_rollout::{StepEvent, orders_for};
use support::World;

#[test]
fn a_fence_is_known_once_the_node_has_reported_under_it() {
    let mut world = World::new();
    let words: Vec<&str> = "group channel=stable min_healthy_time=2s".split_whitespace().collect();
    script::operator(&mut world, &words).or_else(|| script::node(&mut world, &words)).unwrap().outcome.unwrap();
    world.connect("a").outcome.unwrap();
    world.start("1").outcome.unwrap();
    world.prefetch("a");
    world.plan();
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
