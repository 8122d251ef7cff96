//! The simulator: that it runs the whole system, the same way each time, and finds nothing where nothing is.

use std::collections::BTreeSet;
use std::process::Command;

use rollcall_sim::node::HookRates;
use rollcall_sim::run::{Report, run};
use rollcall_sim::schedule::{Event, Fault, Verb};
use rollcall_sim::setup::Setup;

/// A small system in which nothing goes wrong but this.
fn system(faults: &[(u64, Fault)]) -> Report {
    let numbered = faults.iter().cloned().enumerate();
    let schedule = numbered.map(|(number, (at_ms, fault))| Event { number, at_ms, fault }).collect();
    let setup = Setup {
        peers: 3,
        nodes: 3,
        max_parallel: 1,
        max_unavailable: 1,
        rates: HookRates::default(),
        drift_ppm: vec![0; 3],
        troubled_ms: 15_000,
        schedule,
        ..Setup::draw(1)
    };
    run(setup, &BTreeSet::new(), Vec::new()).expect("the simulator works")
}

fn count(report: &Report, what: &str) -> u64 {
    report.counts.get(what).copied().unwrap_or_default()
}

#[test]
fn where_nothing_goes_wrong_a_rollout_is_one_step_of_each_node() {
    let report = system(&[(100, Fault::Say(Verb::Start(1)))]);
    assert_eq!(report.violation, None);
    // And the one that ends each run.
    assert_eq!(count(&report, "steps opened"), 2 * 3, "{:?}", report.counts);
    assert_eq!((count(&report, "leaders"), count(&report, "sessions")), (1, 3), "{:?}", report.counts);
}

#[test]
fn a_killed_leader_is_replaced_and_the_rollout_goes_on() {
    let kill = |peer| Fault::KillPeer { peer, for_ms: 3_000 };
    let report = system(&[(100, Fault::Say(Verb::Start(1))), (2_000, kill(0)), (7_000, kill(1)), (12_000, kill(2))]);
    assert_eq!(report.violation, None);
    assert!(count(&report, "leaders") > 1, "{:?}", report.counts);
}

/// openraft has its pause between two tries in front of the first request; a peer that was dialled before it was dialled
/// without end.
#[test]
fn a_peer_that_refuses_connections_is_left_alone_between_tries() {
    let cut = Fault::Partition { side: vec![1], for_ms: 8_000 };
    let report = system(&[(100, Fault::Say(Verb::Start(1))), (1_000, cut)]);
    assert_eq!(report.violation, None);
}

/// Whoever waits for a leader of a peer that has stopped for good is told so, instead of asking again at once for ever.
#[test]
fn a_peer_whose_disk_fails_ends_and_comes_back() {
    let report = system(&[(100, Fault::Say(Verb::Start(1))), (2_000, Fault::FailSync { peer: 0 })]);
    assert_eq!(report.violation, None);
    assert_eq!(count(&report, "peers failed"), 1, "{:?}", report.counts);
}

#[test]
fn one_seed_is_one_trace_whatever_process_runs_it() {
    let line = |seed: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_rollcall-sim")).args(["--seed", seed]).output();
        String::from_utf8(output.expect("our own program runs").stdout).expect("it prints text")
    };
    for seed in ["4", "14"] {
        let both = std::thread::scope(|scope| {
            let runs = [scope.spawn(|| line(seed)), scope.spawn(|| line(seed))];
            runs.map(|run| run.join().expect("it doesn't panic"))
        });
        assert!(both[0].contains(" lines, "), "{}", both[0]);
        assert_eq!(both[0], both[1]);
    }
    assert_ne!(line("4"), line("5"));
}

/// A sample; `rollcall-sim --iterations` runs as many as there is time for.
#[test]
fn seeds_violate_nothing() {
    let count = if std::env::var_os("ROLLCALL_FULL").is_some() { "200" } else { "12" };
    let mut command = Command::new(env!("CARGO_BIN_EXE_rollcall-sim"));
    let output = command.args(["--seed", "1", "--iterations", count]).output().expect("our own program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
