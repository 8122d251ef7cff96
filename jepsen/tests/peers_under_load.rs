//! Peers are restarted, replaced and moved while somebody writes all the time: nothing fails, nothing is lost.

#![allow(clippy::unwrap_used, reason = "a test that can't go on, fails")]

mod peer_care;

use std::time::Duration;

use peer_care::writer::{Writers, assert_none_failed_or_lost, longest_gap};
use peer_care::{Peers, done, eventually, fails};

/// The shortest silence of a leader after which another is elected. Whoever is followed by a leader sooner has handed over.
const EARLIEST_ELECTION: Duration = Duration::from_millis(900);

/// BOUND: without any write, each of which is a process of the operator's command, on a machine that is busy.
const LONGEST_GAP: Duration = Duration::from_secs(5);

fn writers(peers: &Peers) -> Writers {
    let endpoints: Vec<_> = peers.machines.iter().map(|machine| machine.grpc.clone()).collect();
    Writers::start(&peers.programs, &endpoints)
}

/// Each writer has had this many more writes answered.
fn go_on(peers: &Peers, writes: usize) {
    let before = peers.channels().len();
    eventually("writes go on", || (peers.channels().len() >= before + writes).then_some(()));
}

/// How long after a peer was told to stop another one led, by their logs.
fn hand_over_of(peers: &Peers, stopped: usize) -> Duration {
    let told = peers.machines[stopped].logged("stopping").pop().unwrap();
    eventually("somebody else leads", || {
        let others = peers.machines.iter().enumerate().filter(|(index, _)| *index != stopped);
        let led = others.flat_map(|(_, machine)| machine.logged("a peer leads")).filter(|at| *at > told).min()?;
        Some(led - told)
    })
}

#[test]
fn each_peer_stopped_and_started_in_turn_costs_no_request() {
    let mut peers = Peers::of(3);
    let leader = peers.await_leader();
    let writers = writers(&peers);
    go_on(&peers, 10);
    // The leader first; the one that takes over is stopped as a leader too.
    for index in [leader, (leader + 1) % 3, (leader + 2) % 3] {
        let led = peers.await_leader() == index;
        let took = peers.machines[index].stop();
        assert!(took < Duration::from_secs(10), "{took:?}");
        if led {
            let handed_over = hand_over_of(&peers, index);
            println!("handed over within {handed_over:?}");
            assert!(handed_over < EARLIEST_ELECTION, "{handed_over:?}: somebody waited for an election");
        }
        go_on(&peers, 10);
        peers.start(index);
        peers.await_leader();
        go_on(&peers, 10);
    }
    let writes = writers.stop();
    assert_none_failed_or_lost(&writes, &peers.channels());
    let gap = longest_gap(&writes);
    println!("{} writes, none failed, the longest gap {gap:?}", writes.len());
    assert!(gap < LONGEST_GAP, "{gap:?} without a write");
}

#[test]
fn a_peer_that_lost_its_disk_is_replaced_while_others_write() {
    let mut peers = Peers::of(3);
    peers.await_leader();
    let writers = writers(&peers);
    go_on(&peers, 10);
    for lost in [1, 2] {
        let address = peers.machines[lost].grpc.clone();
        let id = peers.peer_at(&address);
        peers.machines[lost].kill();
        peers.machines[lost].lose_disk();
        go_on(&peers, 10);
        peers.start(lost);
        // Under its old id it never takes part again.
        let said = fails(&peers.rollcall(&["cluster", "add-peer", &address]), 1);
        assert!(said.contains(&format!("remove-peer {id}")), "{said}");
        done(&peers.rollcall(&["--timeout", "30s", "cluster", "remove-peer", &id, "--reason", "disk lost"]));
        go_on(&peers, 5);
        done(&peers.rollcall(&["--timeout", "60s", "cluster", "add-peer", &address]));
        peers.await_leader();
        assert_ne!(peers.peer_at(&address), id);
        go_on(&peers, 10);
    }
    let writes = writers.stop();
    assert_none_failed_or_lost(&writes, &peers.channels());
    assert_eq!(peers.voters().len(), 3);
    // What the new ones hold was replicated to them: the one that was there all the time may go.
    peers.machines[0].kill();
    assert_none_failed_or_lost(&writes, &peers.channels());
}

#[test]
fn a_peer_whose_address_changes_tells_the_others_and_takes_part() {
    let mut peers = Peers::of(3);
    let leader = peers.await_leader();
    let writers = writers(&peers);
    for (index, others_lost) in [((leader + 1) % 3, (leader + 2) % 3), (leader, (leader + 2) % 3)] {
        let (old, id) = (peers.machines[index].grpc.clone(), peers.peer_at(&peers.machines[index].grpc));
        peers.machines[index].stop();
        peers.machines[index].move_away();
        peers.start(index);
        let new = peers.machines[index].grpc.clone();
        eventually("the others know where it is", || {
            let status = peers.status();
            let peers = status["peers"].as_array().unwrap().clone();
            peers.iter().any(|it| it["peer_id"] == id.as_str() && it["address"] == new.as_str()).then_some(())
        });
        peers.await_leader();
        let events = peers.ask(&["events"])["items"].clone();
        let moved = events.as_array().unwrap().iter().rfind(|event| event["kind"] == "peer_moved").unwrap();
        assert!(moved["message"].as_str().unwrap().contains(&new), "{moved}");
        assert!(!peers.status().to_string().contains(&old));
        // It counts: without it there would be no majority.
        peers.machines[others_lost].kill();
        done(&peers.rollcall(&["--timeout", "30s", "channel", "create", &format!("moved-{index}")]));
        peers.start(others_lost);
        peers.await_leader();
    }
    assert_none_failed_or_lost(&writers.stop(), &peers.channels());
}

#[test]
fn a_copied_data_directory_does_not_take_a_peers_place() {
    let mut peers = Peers::of(3);
    let leader = peers.await_leader();
    let copied = (leader + 1) % 3;
    let address = peers.machines[copied].grpc.clone();
    peers.machines[copied].stop();
    let mut twin = peers.new_machine();
    let copy = std::process::Command::new("cp").arg("-a").arg(&peers.machines[copied].dir).arg(&twin.dir).status();
    assert!(copy.unwrap().success());
    peers.start(copied);
    peers.await_leader();
    twin.start(&peers.programs);
    assert_eq!(twin.await_end(), "exit status: 1", "one of the two must end");
    assert!(twin.log_text().contains("its data directory was copied"), "{}", twin.log_text());
    assert!(peers.status().to_string().contains(&address));
    assert_eq!(peers.ask(&["events"]).to_string().matches("peer_moved").count(), 0);
    assert!(peers.machines[copied].is_running());
}
