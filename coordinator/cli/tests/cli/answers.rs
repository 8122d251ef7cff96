//! What answers look like, as tables and as JSON.

use insta::assert_snapshot;
use rollcall_proto::v1::RolloutStatus;

use crate::fake::Fake;
use crate::{code, rollcall, run, samples, stderr, stdout};

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
    token_revoke: "token revoke redis-3 --force",
    channel_list: "channel list",
    events: "events",
    audit: "audit",
    explain: "explain r1000",
    quarantine_list: "quarantine list",
    window_list: "window list",
    window_add: "window add redis.default --days mon,tue --start 02:00 --length 2h",
    freeze_list: "freeze list",
    freeze_create: "freeze create --reason holidays",
    node_hold: "node hold redis-3",
    cluster_status: "cluster status",
    cluster_init: "cluster init 10.0.0.2:7400",
    package_promote: format!("package promote {} stable", samples::NEW),
    packages_promote: format!("package promote {} {} stable", samples::OLD, samples::NEW),
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
fn rollout_on_its_way_back_shows_who_is_back() {
    let fake = Fake::start();
    fake.script().rollout = Some(samples::rolling_back_rollout());
    assert_snapshot!(both_forms(&fake, "rollout status r1000"));
    let list = stdout(&run(&fake.endpoint(), "rollout list"));
    assert!(list.contains("rolling back") && list.contains("1/2"), "{list}");
}

#[test]
fn rollout_that_waits_for_a_person_says_which_command_to_type() {
    let fake = Fake::start();
    for (status, reason, command) in [
        (RolloutStatus::AwaitingApproval, "approval", "`rollcall rollout approve r1000` by somebody else"),
        (RolloutStatus::AwaitingPromotion, "promotion", "`rollcall rollout promote r1000` to begin batch 1"),
        (RolloutStatus::Running, "next", "`rollcall rollout next r1000` to begin one step"),
        (RolloutStatus::Paused, "paused", "`rollcall explain r1000` says why"),
    ] {
        fake.script().rollout = Some(samples::waiting_rollout(status, reason, "a word"));
        let table = stdout(&run(&fake.endpoint(), "rollout status r1000"));
        assert!(table.contains(command), "{status:?}: {table}");
    }
    let running = waiting_for_nobody(&fake);
    assert!(!running.contains("to go on"), "{running}");
}

fn waiting_for_nobody(fake: &Fake) -> String {
    fake.script().rollout = Some(samples::rollout());
    stdout(&run(&fake.endpoint(), "rollout status r1000"))
}

#[test]
fn doctor_ends_with_1_where_there_is_an_error() {
    let fake = Fake::start();
    let output = run(&fake.endpoint(), "doctor");
    assert_eq!((code(&output), stdout(&output).as_str()), (0, "14 checks over 3 peers: all is well\n"));
    fake.script().findings = samples::findings();
    assert_eq!(code(&run(&fake.endpoint(), "doctor")), 1);
    assert_snapshot!(both_forms(&fake, "doctor"));
    fake.script().findings.remove(0);
    assert_eq!(code(&run(&fake.endpoint(), "doctor")), 0);
}

#[test]
fn group_file_of_a_group_can_be_applied_again() {
    let fake = Fake::start();
    let printed = run(&fake.endpoint(), "group get redis.default --as-file");
    assert_snapshot!(stdout(&printed));
    let output = rollcall()
        .args(["--endpoints", &fake.endpoint(), "group", "apply", "-f", "-"])
        .write_stdin(stdout(&printed))
        .output()
        .unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let mut declared = samples::group().spec.unwrap();
    for window in declared.windows.iter_mut().flat_map(|windows| &mut windows.values) {
        window.window_id.clear();
    }
    assert_eq!(fake.script().specs, [declared]);
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
