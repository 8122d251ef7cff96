//! That the simulator finds what it is there for: each fault that is planted, within so many seeds.

use std::collections::BTreeSet;
use std::path::PathBuf;

use rollcall_sim::campaign::Children;

/// The rules that the first seed breaks which finds the fault.
fn found_by(fault: &str, seeds: u64) -> String {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_rollcall-sim"));
    let children = Children { program, arguments: vec!["--plant".to_owned(), fault.to_owned()] };
    for seed in 1..=seeds {
        let said = children.run(seed, &BTreeSet::new()).expect("our own program runs");
        if let Some(rule) = said.rule {
            println!("{}", said.line);
            return rule;
        }
    }
    panic!("{fault} isn't found by {seeds} seeds");
}

#[test]
fn an_answer_before_the_sync_is_found() {
    found_by("ack_before_sync", 40);
}

#[test]
fn a_mark_that_is_not_synced_lets_a_hook_run_twice() {
    assert_eq!(found_by("unsynced_mark", 60), "R6");
}

#[test]
fn a_budget_that_nobody_counts_is_found() {
    found_by("no_budget", 40);
}

#[test]
fn a_pause_that_is_forgotten_is_found() {
    found_by("pause_forgotten", 40);
}
