//! What no command brings about.

use rollcall_ident::{NodeId, Revision, WallTime};

use super::*;
use crate::{Actor, Command, GroupPatch, LogEntry, PolicyPatch, Proposal, Window};

fn names(state: &State) -> Vec<&'static str> {
    diagnose(state, Stamp { cluster_time: state.clock(), wall_time: WallTime(0) })
        .into_iter()
        .map(|it| it.check)
        .collect()
}

/// What no command brings about: the rest is tested from outside, in `tests/doctor.rs`.
#[test]
fn a_state_that_breaks_an_invariant_comes_first() {
    let mut state = State::default();
    assert_eq!(names(&state), Vec::<&str>::new());
    state.node_names.insert("ghost".parse().unwrap(), NodeId([1; 16]));
    assert_eq!(names(&state), ["state_unsound"]);
}

/// A later version may know the zone no more.
#[test]
fn a_window_in_a_zone_that_is_gone_never_opens() {
    let mut state = State::default();
    let name: rollcall_ident::GroupName = "redis.default".parse().unwrap();
    let patch = GroupPatch {
        name: name.clone(),
        package: Some("acme/redis".parse().unwrap()),
        channel: None,
        update_condition: None,
        policy: PolicyPatch::default(),
        config: None,
        windows: None,
    };
    let command = Command::ApplyGroup { patch };
    let actor = Actor::coordinator();
    let proposal = Proposal { actor, reason: None, request_id: None, expected_revision: None, command };
    assert!(state.apply(Revision(1), &LogEntry { stamp: Stamp::default(), proposal }).outcome.is_ok());
    let mut window = |time_zone: &str| {
        let length = Millis::from_secs(60);
        let window = Window { days: [].into(), start_minute: 0, length, time_zone: time_zone.to_owned() };
        state.groups.get_mut(&name).unwrap().windows.insert(rollcall_ident::WindowId(1), window);
        names(&state).contains(&"window_never_opens")
    };
    assert!(window("Mars/Olympus"));
    assert!(!window("UTC"));
}
