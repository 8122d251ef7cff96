//! Rollcall itself is upgraded, peer by peer, to a release with another feature level, while others write.

#![allow(clippy::unwrap_used, reason = "a test that can't go on, fails")]

mod peer_care;

use std::path::Path;
use std::process::Command;

use peer_care::writer::{Writers, assert_none_failed_or_lost};
use peer_care::{Peers, done, eventually, fails, stderr};
use rollcall_jepsen::binaries::Binaries;

/// The next release: the same sources, and one feature level more.
fn next_release(former: &Binaries) -> Binaries {
    let coordinator = former.coordinator.parent().unwrap().join("next-level/rollcall-coordinator");
    assert!(coordinator.is_file(), "{} isn't built: scripts/next-level builds it", coordinator.display());
    Binaries { coordinator, ..former.clone() }
}

fn level(peers: &Peers) -> u64 {
    peers.status()["feature_level"].as_u64().unwrap()
}

/// Which levels the peers know, in the order of the machines.
fn known_levels(peers: &Peers) -> Vec<u64> {
    let status = peers.status();
    let all = status["peers"].as_array().unwrap();
    let known = |grpc: &str| all.iter().find(|peer| peer["address"] == grpc).unwrap()["feature_level"].as_u64();
    peers.machines.iter().map(|machine| known(&machine.grpc).unwrap_or(0)).collect()
}

fn happened(peers: &Peers, kind: &str) -> usize {
    peers.ask(&["events"])["items"].as_array().unwrap().iter().filter(|event| event["kind"] == kind).count()
}

fn go_on(peers: &Peers) {
    let before = peers.channels().len();
    eventually("writes go on", || (peers.channels().len() >= before + 10).then_some(()));
}

fn knows(peers: &Peers, index: usize, level: u64) {
    eventually("it says which level it knows", || (known_levels(peers)[index] == level).then_some(()));
}

#[test]
fn the_level_rises_once_all_peers_know_it_and_an_older_release_is_refused_then() {
    let mut peers = Peers::of(3);
    let (former, next) = (peers.programs.clone(), next_release(&peers.programs));
    peers.await_leader();
    let endpoints: Vec<_> = peers.machines.iter().map(|machine| machine.grpc.clone()).collect();
    let writers = Writers::start(&former, &endpoints);
    go_on(&peers);
    // While the cluster is mixed, the way back is open.
    for release in [&next, &former] {
        peers.machines[0].stop();
        peers.machines[0].start(release);
        peers.await_leader();
        go_on(&peers);
    }
    knows(&peers, 0, 1);
    for index in 0..3 {
        assert_eq!((level(&peers), happened(&peers, "level_tried")), (1, 0), "{:?}", known_levels(&peers));
        peers.machines[index].stop();
        peers.machines[index].start(&next);
        peers.await_leader();
        knows(&peers, index, 2);
        go_on(&peers);
    }
    eventually("the level rises", || (level(&peers) == 2).then_some(()));
    eventually("what it brings happens", || (happened(&peers, "level_tried") == 1).then_some(()));
    assert_eq!(happened(&peers, "feature_level_raised"), 1);

    // A release that doesn't know the level stops, and leaves its data as it was.
    let put_back = (peers.await_leader() + 1) % 3;
    peers.machines[put_back].stop();
    peers.machines[put_back].launch(&former);
    assert_eq!(peers.machines[put_back].await_end(), "exit status: 1");
    let said = peers.machines[put_back].log_text();
    // Whatever it comes to first: the entry that raised the level, or one that only the next release knows.
    let names_the_level =
        said.contains("the cluster is at feature level 2, and this binary (0.1.0) knows levels up to 1");
    let names_the_entry = said.contains("holds what this binary (0.1.0, feature level 1) doesn't know");
    assert!(names_the_level || names_the_entry, "{said}");
    peers.machines[put_back].start(&next);
    peers.await_leader();

    // Nor is one taken in.
    let mut blank = peers.new_machine();
    blank.start(&former);
    let said = fails(&peers.rollcall(&["--timeout", "30s", "cluster", "add-peer", &blank.grpc]), 1);
    assert!(said.contains("knows feature levels up to 1, and this cluster is at 2"), "{said}");
    assert_eq!(peers.voters().len(), 3);

    // Nor does it read a snapshot of the cluster.
    let snapshot = peers.path().join("saved.snapshot");
    done(&peers.rollcall(&["snapshot", "save", snapshot.to_str().unwrap()]));
    let said = inspect(&former, &snapshot).unwrap_err();
    assert!(said.contains("the cluster is at feature level 2"), "{said}");
    assert!(inspect(&next, &snapshot).unwrap().contains(r#""feature_level":2"#));

    assert_none_failed_or_lost(&writers.stop(), &peers.channels());
}

fn inspect(programs: &Binaries, snapshot: &Path) -> Result<String, String> {
    let output = Command::new(&programs.coordinator).args(["snapshot", "inspect"]).arg(snapshot).output().unwrap();
    if output.status.success() { Ok(done(&output)) } else { Err(stderr(&output)) }
}
