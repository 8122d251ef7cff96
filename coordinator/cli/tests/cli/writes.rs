//! What goes with a write.

use crate::fake::Fake;
use crate::{code, rollcall, run, samples, stderr, stdout};

#[test]
fn options_of_a_write_are_sent() {
    let fake = Fake::start();
    let output = run(&fake.endpoint(), "rollout pause r1000 --reason alarm --request-id mine-1 --expected-revision 7");
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let script = fake.script();
    let write = &script.writes[0];
    assert_eq!((write.reason.as_str(), write.request_id.as_str(), write.expected_revision), ("alarm", "mine-1", 7));
    assert!(write.actor.split_once('@').is_some_and(|(user, host)| !user.is_empty() && !host.is_empty()));
}

#[test]
fn who_acts_can_be_said_by_option_or_environment() {
    let fake = Fake::start();
    run(&fake.endpoint(), "channel create a --actor ann@desk");
    let by_environment = |actor: &str| {
        let mut command = rollcall();
        command.env("ROLLCALL_ACTOR", actor).args(["--endpoints", &fake.endpoint(), "channel", "create", "a"]);
        command.output().unwrap()
    };
    by_environment("ci/release");
    by_environment("");
    let actors: Vec<_> = fake.script().writes.iter().map(|write| write.actor.clone()).collect();
    assert_eq!(actors[..2], ["ann@desk", "ci/release"]);
    assert!(actors[2].contains('@'), "{actors:?}");
}

#[test]
fn each_command_has_its_own_request_id() {
    let fake = Fake::start();
    run(&fake.endpoint(), "channel create a");
    run(&fake.endpoint(), "channel create a");
    let script = fake.script();
    assert_ne!(script.writes[0].request_id, script.writes[1].request_id);
}

#[test]
fn verbs_reach_the_rollout() {
    let fake = Fake::start();
    for line in
        ["rollout pause r1000", "rollout resume r1000", "rollout stop r1000", "rollout retry r1000 --node redis-3"]
    {
        assert_eq!(code(&run(&fake.endpoint(), line)), 0, "{line}");
    }
    assert_eq!(fake.script().verbs, ["pause r1000 ", "resume r1000 ", "stop r1000 ", "retry r1000 redis-3"]);
}

#[test]
fn a_resumed_rollout_that_pauses_again_says_so() {
    let fake = Fake::start();
    fake.script().rollout = Some(samples::paused_rollout());
    let output = run(&fake.endpoint(), "rollout resume r1000");
    assert_eq!(stdout(&output), "r1000 resumed at revision 1042; it is paused now\n");
    assert!(stderr(&output).contains("rollcall explain r1000"), "{}", stderr(&output));
}

#[test]
fn every_other_write_works() {
    let fake = Fake::start();
    for line in [
        "group delete redis.default",
        "node remove redis-3 --force",
        "channel create stable",
        "channel delete stable",
        "cluster add-peer 10.0.0.4:7400",
        "cluster remove-peer 3",
        "cluster transfer-leader 2",
    ] {
        let output = run(&fake.endpoint(), line);
        assert_eq!(code(&output), 0, "{line}: {}", stderr(&output));
        assert!(!stdout(&output).is_empty(), "{line}");
        let output = run(&fake.endpoint(), &format!("{line} -o json"));
        serde_json::from_str::<serde_json::Value>(&stdout(&output)).expect("-o json prints JSON");
    }
}
