//! What answers look like, as tables and as JSON.

use insta::assert_snapshot;

use crate::fake::Fake;
use crate::{code, run, samples, stderr, stdout};

/// Both forms of one command's answer, behind its exit code.
fn both_forms(fake: &Fake, line: &str) -> String {
    let table = run(&fake.endpoint(), line);
    let json = run(&fake.endpoint(), &format!("{line} -o json"));
    assert_eq!(code(&table), code(&json), "{}", stderr(&table));
    let (table, json) = (stdout(&table), stdout(&json));
    assert!(table.lines().all(|line| line.chars().count() <= 80), "wider than 80 columns:\n{table}");
    serde_json::from_str::<serde_json::Value>(&json).expect("-o json prints JSON");
    format!("{table}\n{json}")
}

macro_rules! snapshots {
    ($($name:ident: $line:expr),+ $(,)?) => {
        $(#[test]
        fn $name() {
            assert_snapshot!(both_forms(&Fake::start(), &$line));
        })+
    };
}

snapshots! {
    group_get: "group get redis.default",
    group_list: "group list",
    node_list: "node list",
    node_get: "node get redis-3",
    rollout_list: "rollout list",
    rollout_history: "rollout history redis.default",
    rollout_status: "rollout status r1000",
    rollout_status_of_all: "rollout status",
    rollout_plan: format!("rollout plan redis.default --to {}", samples::NEW),
    token_list: "token list",
    channel_list: "channel list",
    events: "events",
    audit: "audit",
    explain: "explain r1000",
    cluster_status: "cluster status",
    cluster_init: "cluster init 10.0.0.2:7400",
    package_promote: format!("package promote {} stable", samples::NEW),
    package_demote: format!("package demote {} stable", samples::NEW),
}

#[test]
fn audit_verify() {
    let fake = Fake::start();
    let port = fake.address.port().to_string();
    assert_snapshot!(both_forms(&fake, "audit --verify").replace(&port, "54321"));
}

#[test]
fn paused_rollout_shows_why() {
    let fake = Fake::start();
    fake.script().rollout = Some(samples::paused_rollout());
    assert_snapshot!(stdout(&run(&fake.endpoint(), "rollout status redis.default")));
}

#[test]
fn yaml_says_what_json_says() {
    let fake = Fake::start();
    assert_snapshot!(stdout(&run(&fake.endpoint(), "token list -o yaml")));
}

#[test]
fn started_rollout_is_its_id_alone() {
    let fake = Fake::start();
    let output = run(&fake.endpoint(), &format!("rollout start redis.default --to {}", samples::NEW));
    assert_eq!(stdout(&output), "r1000\n");
    assert_eq!(code(&output), 0);
}

#[test]
fn plan_tells_by_its_exit_code_whether_there_are_changes() {
    let fake = Fake::start();
    let line = format!("rollout plan redis.default --to {}", samples::NEW);
    assert_eq!(code(&run(&fake.endpoint(), &line)), 10);
    fake.script().is_plan_empty = true;
    let output = run(&fake.endpoint(), &line);
    assert_eq!(code(&output), 0);
    assert!(stdout(&output).contains("nothing to do"));
}

#[test]
fn cluster_status_tells_by_its_exit_code_how_it_stands() {
    let fake = Fake::start();
    for (condition, expected) in [("serving", 0), ("no_leader", 3), ("uninitialized", 1)] {
        condition.clone_into(&mut fake.script().condition);
        assert_eq!(code(&run(&fake.endpoint(), "cluster status")), expected, "{condition}");
    }
}

#[test]
fn lists_come_whole_whatever_the_pages() {
    let fake = Fake::start();
    fake.script().node_count = 5;
    let output = run(&fake.endpoint(), "node list -o json");
    let json: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(json["items"].as_array().unwrap().len(), 5);
    assert_eq!(fake.script().page_tokens, ["", "2", "4"]);

    let output = run(&fake.endpoint(), "node list -o json --limit 3");
    let json: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(json["items"].as_array().unwrap().len(), 3);
}

#[test]
fn events_come_whole_whatever_the_pages() {
    let fake = Fake::start();
    let output = run(&fake.endpoint(), "events --since 7 -o json");
    let json: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(json["items"].as_array().unwrap().len(), 3);
    assert_eq!(json["revision"], 1042);
    assert_eq!(fake.script().since, [7, 1020, 1042]);
}
