//! Real agents that come twice, and come back, to real peers.

#![allow(clippy::unwrap_used, reason = "a test that can't go on, fails")]

mod peer_care;

use std::fs;
use std::process::Command;

use peer_care::{Peers, done, eventually};
use rollcall_jepsen::agent::{Agent, AgentConfig};
use serde_json::Value;

/// The node as the cluster knows it, once it is what it should be.
fn node(peers: &Peers, name: &str, presence: &str) -> Value {
    eventually(&format!("{name} is {presence}"), || {
        let nodes = peers.ask(&["node", "list"])["items"].clone();
        let found = nodes.as_array()?.iter().find(|node| node["name"] == name)?.clone();
        (found["presence"] == presence).then_some(found)
    })
}

/// A machine whose disk is a copy of the one that is named, as it lies there now.
fn twin_of(peers: &Peers, name: &str) -> Agent {
    let endpoints = peers.machines.iter().map(|machine| machine.grpc.clone()).collect();
    let config = AgentConfig { name: name.to_owned(), endpoints, ..AgentConfig::default() };
    let folder = peers.path().join(format!("twin-of-{name}"));
    let twin = Agent::create(folder.clone(), peers.programs.node.clone(), config).unwrap();
    fs::remove_dir_all(folder.join("data")).unwrap();
    let copy = Command::new("cp").arg("-a").arg(peers.path().join(name).join("data")).arg(&folder).output();
    done(&copy.unwrap());
    twin
}

fn log_of(agent: &Agent) -> String {
    fs::read_to_string(agent.folder().join("log")).unwrap_or_default()
}

#[test]
fn a_copied_disk_is_refused_while_the_original_is_there_and_both_are_named() {
    let peers = Peers::of(3);
    peers.await_leader();
    let mut original = peers.start_agent("node-1");
    let known = node(&peers, "node-1", "present");
    let mut twin = twin_of(&peers, "node-1");
    twin.start().unwrap();
    let said = eventually("the copy is refused", || {
        log_of(&twin).lines().find(|line| line.contains("identity_in_use")).map(str::to_owned)
    });
    let id = known["node_id"].as_str().unwrap();
    assert!(said.contains(id) && said.contains("node-1"), "{said}");
    // The original goes on, in the session that it had.
    assert_eq!(node(&peers, "node-1", "present")["session_epoch"], known["session_epoch"]);
    original.ensure_alive().unwrap();
    twin.ensure_alive().unwrap();

    // It doesn't take over in the moment in which the original is restarted either.
    original.kill().unwrap();
    original.start().unwrap();
    let back = eventually("the original is back", || {
        let back = node(&peers, "node-1", "present");
        (back["session_epoch"] != known["session_epoch"]).then_some(back)
    });
    assert_eq!(back["node_id"], known["node_id"]);
    eventually("it is the original that is back", || {
        log_of(&original).matches("rollcall_node::session::client: session").nth(1).map(|_| ())
    });
    assert!(!log_of(&twin).contains("rollcall_node::session::client: session"), "{}", log_of(&twin));
}
