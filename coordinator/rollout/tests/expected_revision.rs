//! A write may say which revision its author has seen. Where what it changes has moved since, it is refused and changes
//! nothing; where only something else has moved, it goes through.

#![allow(clippy::unwrap_used, reason = "a test that can't go on panics")]

mod script;
mod support;

use rollcall_ident::Revision;
use rollcall_rollout::Applied;
use support::World;

/// What leads there, and the write; each changes what the lines before it have made or changed.
const WRITES: &[(&[&str], &str)] = &[
    (&[], "group delay=1s"),
    (&[], "start 2"),
    (&[], "undo"),
    (&["start 2"], "start 3"),
    (&["start 2"], "pause"),
    (&["start 2", "pause"], "resume"),
    (&["start 2"], "stop"),
    (&["group approval_required=true", "start 2"], "deny"),
    (&["group mode=manual", "start 2"], "next"),
    (&["start 2"], "skip b"),
    (&["start 2"], "promote-batch --full"),
    (&["promote 2"], "promote 3"),
    (&["promote 2"], "demote 2"),
    (&["quarantine 9"], "unquarantine 9"),
    (&[], "window add mon,tue 02:00 2h"),
    (&[], "hold a"),
    (&["hold a"], "release a"),
    (&[], "set-health a healthy"),
    (&["leave a"], "remove a"),
    (&["start 2", "grant"], "revoke a --force"),
];

fn say(world: &mut World, line: &str) -> Applied {
    let words: Vec<&str> = line.split_whitespace().collect();
    if words == ["grant"] {
        for name in ["a", "b"] {
            world.prefetch(name);
        }
        return world.plan().pop().unwrap();
    }
    script::operator(world, &words).or_else(|| script::node(world, &words)).unwrap()
}

/// Two members on release 1, which ran release 0 before.
fn settled() -> World {
    let mut world = World::new();
    say(&mut world, "group min_healthy_time=2s channel=stable auto_start=false").outcome.unwrap();
    for name in ["a", "b"] {
        world.connect(name).outcome.unwrap();
    }
    for target in ["0", "1"] {
        world.start(target).outcome.unwrap();
        world.run_to_end(true);
    }
    world
}

#[test]
fn a_write_that_expects_an_older_revision_is_refused() {
    for (before, write) in WRITES {
        let mut world = settled();
        before.iter().for_each(|line| drop(say(&mut world, line).outcome.unwrap()));
        let state = world.state.clone();
        let mut late = world.clone();
        late.expected_revision = Some(Revision(1));
        let refusal = say(&mut late, write).outcome.expect_err(write);
        assert_eq!(refusal.name(), "revision_moved", "{write}");
        assert_eq!((state.groups(), state.rollouts()), (late.state.groups(), late.state.rollouts()), "{write}");
        assert_eq!((state.channels(), state.nodes()), (late.state.channels(), late.state.nodes()), "{write}");
        assert_eq!((state.quarantine(), state.tokens()), (late.state.quarantine(), late.state.tokens()), "{write}");
        world.expected_revision = Some(world.state.revision());
        assert!(say(&mut world, write).outcome.is_ok(), "{write}");
    }
}

#[test]
fn a_freeze_never_changes_so_its_own_revision_will_do() {
    let mut world = settled();
    say(&mut world, "freeze all").outcome.unwrap();
    let freeze = *world.state.freezes().keys().next().unwrap();
    let made_at = world.state.revision();
    say(&mut world, "hold a").outcome.unwrap();
    world.expected_revision = Some(Revision(made_at.0 - 1));
    assert_eq!(say(&mut world, &format!("lift {freeze}")).outcome.unwrap_err().name(), "revision_moved");
    world.expected_revision = Some(made_at);
    assert!(say(&mut world, &format!("lift {freeze}")).outcome.is_ok());
}
