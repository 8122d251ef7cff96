//! The model check of the real state machine: no order of events within the bounds breaks anything.
//!
//! `ROLLCALL_FULL=1` goes further than CI does.

#![allow(clippy::unwrap_used, reason = "a test that can't go on panics")]

mod model_check;
mod support;

use model_check::{Bounds, Cluster};
use rollcall_rollout::{FailureAction, PolicyPatch};
use stateright::{Checker as _, Model as _};

fn explore(bounds: Bounds, policy: PolicyPatch, states: usize) -> usize {
    let checker = Cluster::new(bounds, policy).checker().threads(2).target_state_count(states).spawn_bfs().join();
    if let Some((property, path)) = checker.discoveries().into_iter().next() {
        let wrong = path.last_state().wrong.clone();
        let actions = path.into_actions();
        panic!("{property}: {wrong:?} after {actions:#?}");
    }
    checker.unique_state_count()
}

fn states(sampled: usize, full: usize) -> usize {
    if std::env::var_os("ROLLCALL_FULL").is_some() { full } else { sampled }
}

#[test]
fn faults_and_an_erring_planner_break_nothing() {
    let bounds = Bounds { said: 0, faults: 2, ask_one_of: 64 };
    let seen = explore(bounds, PolicyPatch::default(), states(60_000, 4_000_000));
    println!("{seen} states");
}

#[test]
fn operators_break_nothing() {
    let bounds = Bounds { said: 2, faults: 0, ask_one_of: 64 };
    let seen = explore(bounds, PolicyPatch::default(), states(60_000, 4_000_000));
    println!("{seen} states");
}

#[test]
fn operators_and_faults_with_rollback_break_nothing() {
    let bounds = Bounds { said: 1, faults: 1, ask_one_of: 64 };
    let policy = PolicyPatch { failure_action: Some(FailureAction::Rollback), ..PolicyPatch::default() };
    let seen = explore(bounds, policy, states(60_000, 4_000_000));
    println!("{seen} states");
}
