//! One identity is one disk, also while its node is away for a moment.

#![allow(clippy::unwrap_used, reason = "a test that can't go on panics")]

mod support;

use rollcall_ident::{Millis, PeerId};
use rollcall_rollout::{Command, Rejection};
use support::World;

#[test]
fn a_copy_does_not_get_in_while_its_original_is_restarted() {
    let mut world = World::new();
    world.connect("a").outcome.unwrap();
    let hello = world.hello("a");
    let copy = |world: &mut World| {
        let hello = rollcall_rollout::Hello { identity_locus: "another disk".to_owned(), ..hello.clone() };
        world.propose(Command::OpenSession { host: PeerId(2), hello }).outcome
    };
    assert!(matches!(copy(&mut world), Err(Rejection::IdentityInUse { .. })), "it is there");
    world.disconnect("a", Millis(0)).outcome.unwrap();
    assert!(matches!(copy(&mut world), Err(Rejection::IdentityInUse { .. })), "it is being restarted");
    world.connect("a").outcome.unwrap();
    // A folder that was moved: nobody else is there any more.
    world.disconnect("a", Millis(0)).outcome.unwrap();
    world.advance(Millis::from_secs(11)).outcome.unwrap();
    copy(&mut world).unwrap();
}
