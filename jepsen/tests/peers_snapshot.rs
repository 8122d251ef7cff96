//! Saving a snapshot of a running cluster, and making a new cluster of it.

#![allow(clippy::unwrap_used, reason = "a test that can't go on, fails")]

mod peer_care;

use peer_care::writer::{Writers, assert_none_failed_or_lost};
use peer_care::{Peers, ask, done, fails, rollcall, status};
use serde_json::Value;

#[test]
fn a_snapshot_saved_while_others_write_is_whole_and_makes_a_new_cluster() {
    let mut peers = Peers::of(3);
    for number in 0..5 {
        done(&peers.rollcall(&["channel", "create", &format!("before-{number}")]));
    }
    let endpoints: Vec<_> = peers.machines.iter().map(|machine| machine.grpc.clone()).collect();
    let writers = Writers::start(&peers.programs, &endpoints);
    let mut saved = Vec::new();
    for (number, endpoint) in endpoints.iter().enumerate() {
        let file = peers.path().join(format!("saved-{number}.snap")).display().to_string();
        let told = ask(&peers.programs, endpoint, &["snapshot", "save", &file]);
        let found = ask(&peers.programs, endpoint, &["snapshot", "inspect", &file]);
        for field in ["revision", "cluster_id", "bytes"] {
            assert_eq!(told[field], found[field], "{field}");
        }
        assert_eq!(found["audit"]["verified"], true);
        assert_eq!(told["peer_id"], peers.peer_at(endpoint), "from the peer that was asked");
        saved.push((file, found));
    }
    assert_none_failed_or_lost(&writers.stop(), &peers.channels());
    assert!(saved[0].1["revision"].as_u64() < saved[2].1["revision"].as_u64(), "others wrote meanwhile");
    let left = std::fs::read_dir(peers.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(left.filter(|name| name.contains("unfinished")).count(), 0);
    let (file, contents) = &saved[2];
    let said = fails(&peers.rollcall(&["snapshot", "save", file]), 2);
    assert!(said.contains("is there already"), "{said}");

    // Everybody is gone, and the file is all that is left.
    let cluster = peers.status()["cluster_id"].clone();
    peers.machines.iter_mut().for_each(peer_care::Machine::kill);
    let mut machine = peers.new_machine();
    let (data_dir, address) = (machine.dir.display().to_string(), machine.grpc.clone());
    let restore = ["snapshot", "restore", file, "--data-dir", &data_dir, "--advertise", &address, "--reason", "fire"];
    let made = ask(&peers.programs, "127.0.0.1:1", &restore);
    assert_eq!((&made["former_cluster_id"], &made["former_revision"]), (&cluster, &contents["revision"]));
    assert_ne!(made["cluster_id"], cluster);
    let said = fails(&rollcall(&peers.programs, "127.0.0.1:1", &restore), 1);
    assert!(said.contains("isn't empty") && said.contains("identity"), "{said}");
    let peer: u64 = made["peer_id"].as_str().unwrap().parse().unwrap();
    assert_eq!(Some(peer), made["revision"].as_u64(), "an id that nobody ever had");

    machine.start(&peers.programs);
    let new = |arguments: &[&str]| ask(&peers.programs, &address, arguments);
    assert_eq!(status(&peers.programs, &address)["cluster_id"], made["cluster_id"]);
    let channels = new(&["channel", "list"])["items"].as_array().unwrap().len() as u64;
    assert_eq!(channels, contents["counts"]["channels"].as_u64().unwrap());
    assert_eq!(new(&["freeze", "list"])["items"][0]["freeze_id"], made["freeze_id"]);
    assert_eq!(new(&["audit", "--verify"])["verified"], true, "the chain leads on from the old cluster's");
    let events = new(&["events"])["items"].clone();
    let last = events.as_array().unwrap().iter().find(|event| event["kind"] == "cluster_recovered").unwrap();
    assert_eq!((&last["revision"], &last["reason"]), (&made["revision"], &Value::from("cluster recovered: fire")));
    assert!(events.as_array().unwrap().iter().any(|event| event["kind"] == "cluster_initialized"), "and before it");

    // It is a cluster like any other: two more, then the first may go.
    let mut others = [peers.new_machine(), peers.new_machine()];
    for (number, other) in others.iter_mut().enumerate() {
        other.dir.set_file_name(format!("more-{number}"));
        other.start(&peers.programs);
        done(&rollcall(&peers.programs, &address, &["--timeout", "60s", "cluster", "add-peer", &other.grpc]));
    }
    machine.kill();
    let endpoints = others.each_ref().map(|other| other.grpc.as_str()).join(",");
    done(&rollcall(&peers.programs, &endpoints, &["--timeout", "30s", "channel", "create", "after"]));
    let after = ask(&peers.programs, &endpoints, &["channel", "list"]);
    assert_eq!(after["items"].as_array().unwrap().len() as u64, channels + 1);
    assert_eq!(ask(&peers.programs, &endpoints, &["audit", "--verify"])["verified"], true);
}

#[test]
fn what_is_no_whole_snapshot_is_not_restored_and_leaves_nothing() {
    let peers = Peers::of(1);
    let file = peers.path().join("saved.snap");
    done(&peers.rollcall(&["snapshot", "save", file.to_str().unwrap()]));
    let bytes = std::fs::read(&file).unwrap();
    let (half, dir) = (peers.path().join("half.snap"), peers.path().join("empty"));
    for end in [0, 10, bytes.len() / 2, bytes.len() - 1] {
        std::fs::write(&half, &bytes[..end]).unwrap();
        let restore = ["snapshot", "restore", half.to_str().unwrap(), "--data-dir", dir.to_str().unwrap()];
        let said = fails(&peers.rollcall(&restore), 1);
        assert!(said.contains("half.snap") && said.contains("not a whole snapshot"), "{said}");
        assert!(!dir.exists(), "nothing was begun");
    }
    // What an interrupted restore leaves doesn't stand in the way.
    std::fs::create_dir_all(dir.join("replacement-unfinished/log")).unwrap();
    let restore = ["snapshot", "restore", file.to_str().unwrap(), "--data-dir", dir.to_str().unwrap()];
    done(&peers.rollcall(&restore));
    let names = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort();
    assert_eq!(names, ["history", "identity", "lock", "log", "snapshots"]);
}
