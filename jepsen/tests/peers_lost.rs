//! A majority is lost for good: one peer's data becomes a new cluster, and the old peers can't get into it.

#![allow(clippy::unwrap_used, reason = "a test that can't go on, fails")]

mod peer_care;

use peer_care::{Machine, Peers, ask, done, eventually, fails, rollcall, status};
use serde_json::Value;

/// What the numbers of a recovered cluster begin at.
const FIRST_RECOVERED: u64 = 1_000_000_000_000;

fn recover(dir: &str, force: bool) -> Vec<&str> {
    let mut arguments = vec!["cluster", "recover", "--data-dir", dir, "--reason", "two machines burned"];
    if force {
        arguments.push("--force");
    }
    arguments
}

#[test]
fn one_peers_data_becomes_a_new_cluster_that_the_old_peers_are_refused_by() {
    let mut peers = Peers::of(3);
    for number in 0..10 {
        done(&peers.rollcall(&["channel", "create", &format!("kept-{number}")]));
    }
    let agent = peers.start_agent("node-1");
    let programs = peers.programs.clone();
    let session = |endpoints: &str| {
        let output = rollcall(&programs, endpoints, &["-o", "json", "node", "list"]);
        let nodes: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        nodes["items"][0]["session_epoch"].as_u64()
    };
    let connected = |endpoints: &str| session(endpoints).is_some();
    eventually("the agent has a session", || connected(&peers.endpoints()).then_some(()));
    let old_cluster = peers.status()["cluster_id"].clone();
    let first = peers.peer_at(&peers.machines[0].grpc);
    let revision = peers.status()["revision"].as_u64().unwrap();
    let dir = peers.machines[0].dir.display().to_string();
    let said = fails(&peers.rollcall(&recover(&dir, true)), 1);
    assert!(said.contains("in use by another process"), "not while the peer runs: {said}");
    peers.machines.iter_mut().for_each(Machine::kill);

    // It says what is there first, and leaves it as it is.
    let said = fails(&peers.rollcall(&recover(&dir, false)), 1);
    for part in ["nothing was changed", &format!("peer {first}"), old_cluster.as_str().unwrap(), "--force"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let made = peers.ask(&recover(&dir, true));
    assert_eq!((&made["former_cluster_id"], &made["peer_id"]), (&old_cluster, &Value::from(first.clone())));
    assert!(made["former_revision"].as_u64().unwrap() >= revision, "{made}");
    assert_eq!(made["revision"], FIRST_RECOVERED);
    assert_eq!(made["given_up_peer_ids"].as_array().unwrap().len(), 2);
    assert!(std::path::Path::new(made["former_files"].as_str().unwrap()).join("log").is_dir(), "nothing is deleted");

    peers.start(0);
    let new = peers.machines[0].grpc.clone();
    let status = || status(&peers.programs, &new);
    assert_eq!(status()["peers"].as_array().unwrap().len(), 1);
    // What is recovered still has the old session, for a while.
    let has_agent = || session(&new).filter(|epoch| *epoch > FIRST_RECOVERED).map(drop);
    eventually("the agent of the old cluster has come over", has_agent);
    let channels = ask(&peers.programs, &new, &["channel", "list"])["items"].as_array().unwrap().len();
    assert_eq!(channels, 11, "ten, and the one that every cluster has");
    let event = ask(&peers.programs, &new, &["events"])["items"].as_array().unwrap().clone();
    let event = event.into_iter().find(|event| event["kind"] == "cluster_recovered").unwrap();
    assert_eq!(event["reason"], "cluster recovered: two machines burned");
    assert_eq!(ask(&peers.programs, &new, &["audit", "--verify"])["verified"], true);

    // The old peers come back after all. They are two of three, and elect a leader of their own: it isn't ours.
    peers.start(1);
    peers.start(2);
    let old = [&peers.machines[1], &peers.machines[2]].map(|machine| machine.grpc.as_str()).join(",");
    assert_eq!(peer_care::status(&peers.programs, &old)["cluster_id"], old_cluster);
    done(&rollcall(&peers.programs, &old, &["channel", "create", "of-the-old"]));
    eventually("they are refused", || peers.machines[0].log_text().contains("refused a peer's message").then_some(()));
    assert!(peers.machines[0].log_text().contains(old_cluster.as_str().unwrap()), "and it is said whose they are");
    done(&rollcall(&peers.programs, &new, &["channel", "create", "of-the-new"]));
    let names = |endpoints: &str| ask(&peers.programs, endpoints, &["channel", "list"]).to_string();
    assert!(names(&new).contains("of-the-new") && !names(&new).contains("of-the-old"));
    assert!(names(&old).contains("of-the-old") && !names(&old).contains("of-the-new"));
    // The agent that has come over doesn't go back, though it may try there.
    eventually("the old ones miss it", || (!connected(&old)).then_some(()));
    eventually("it stays", has_agent);
    let (second, third) = (peers.machines[1].grpc.clone(), peers.machines[2].grpc.clone());
    let said = fails(&rollcall(&peers.programs, &new, &["cluster", "add-peer", &second]), 1);
    assert!(said.contains("belongs to cluster") && said.contains("move its data directory away"), "{said}");

    // With empty folders they are new peers, under ids that nobody ever had.
    for (index, address) in [(1, &second), (2, &third)] {
        peers.machines[index].stop();
        peers.machines[index].lose_disk();
        peers.start(index);
        done(&rollcall(&peers.programs, &new, &["--timeout", "60s", "cluster", "add-peer", address]));
    }
    peers.await_leader();
    let voters = peers.voters();
    assert_eq!(voters.len(), 3);
    assert_eq!(voters.iter().filter(|id| **id > FIRST_RECOVERED).count(), 2, "{voters:?}");
    // And any of them may be lost now.
    peers.machines[0].kill();
    done(&peers.rollcall(&["--timeout", "30s", "channel", "create", "after"]));
    assert_eq!(peers.channels().len(), 13);
    drop(agent);
}

#[test]
fn a_folder_without_a_peer_is_not_recovered() {
    let peers = Peers::blank(1);
    let nowhere = peers.path().join("nowhere");
    let said = fails(&peers.rollcall(&recover(nowhere.to_str().unwrap(), true)), 1);
    assert!(said.contains("holds no peer") && said.contains("snapshot restore"), "{said}");
    assert!(!nowhere.exists());
    let mut blank = peers;
    blank.machines[0].stop();
    let dir = blank.machines[0].dir.display().to_string();
    let said = fails(&blank.rollcall(&recover(&dir, true)), 1);
    assert!(said.contains("holds no peer"), "{said}");
}
