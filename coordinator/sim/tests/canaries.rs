//! That the simulator finds what it is there for: each fault that is planted, within so many seeds.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use rollcall_sim::campaign::Children;
use rollcall_sim::planted;

fn simulator(arguments: &[&str]) -> Children {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_rollcall-sim"));
    Children { program, arguments: arguments.iter().map(ToString::to_string).collect() }
}

/// Runs seeds until one finds the fault.
fn is_found(fault: &str, seeds: RangeInclusive<u64>) {
    let children = simulator(&["--plant", fault]);
    for seed in seeds.clone() {
        let said = children.run(seed, &BTreeSet::new()).expect("our own program runs");
        if said.rule.is_some() {
            return println!("{}", said.line);
        }
    }
    panic!("{fault} isn't found by the seeds {seeds:?}");
}

/// Each fault with its test, and some three times as many seeds as it takes: a change of what seeds draw, or of the times in
/// the product, moves the first one. One that few seeds find begins near one that does.
macro_rules! canaries {
    ($($fault:ident within $seeds:expr),+ $(,)?) => {
        const ALL: &[&str] = &[$(stringify!($fault)),+];

        $(
            #[test]
            fn $fault() {
                is_found(stringify!($fault), $seeds);
            }
        )+
    };
}

canaries! {
    ack_before_sync within 1..=6,
    tail_not_synced within 1..=60,
    requests_forgotten within 1..=6,
    epoch_reused within 1..=10,
    stale_read within 1..=45,
    no_budget within 1..=10,
    unknown_is_healthy within 1..=40,
    no_commit_point within 1..=10,
    grant_unchecked within 1..=10,
    hold_ignored within 1..=30,
    pause_forgotten within 1..=10,
    soak_goes_on within 1..=15,
    departed_loses_token within 1..=20,
    no_fence within 1..=30,
    unsynced_mark within 55..=100,
}

#[test]
fn each_fault_that_can_be_planted_has_its_test() {
    let known: BTreeSet<String> = planted::names().into_iter().collect();
    let tested: BTreeSet<String> = ALL.iter().map(ToString::to_string).collect();
    assert_eq!(tested, known);
}

#[test]
fn a_fault_that_there_isnt_is_refused_with_the_names_of_those_that_there_are() {
    let refused = simulator(&["--plant", "no_such_fault"]).run(1, &BTreeSet::new()).unwrap_err().to_string();
    assert!(refused.contains("no_such_fault"), "{refused}");
    for name in planted::names() {
        assert!(refused.contains(&name), "{refused} doesn't name {name}");
    }
}
