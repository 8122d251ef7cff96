//! What goes with a write.

use rollcall_proto::v1::RolloutStatus;
use tonic::Code;

use crate::fake::{Fake, refusal};
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
    for (line, expected) in [
        ("rollout approve r1000", "approve r1000"),
        ("rollout deny r1000", "deny r1000"),
        ("rollout pause r1000 --until 2096-12-01T02:00:00+01:00", "pause r1000 until 4005162000"),
        ("rollout pause redis.default", "pause r1000"),
        ("rollout resume r1000", "resume r1000"),
        ("rollout promote r1000", "promote r1000"),
        ("rollout promote r1000 --full", "promote r1000 in full"),
        ("rollout next r1000", "next r1000"),
        ("rollout stop r1000", "stop r1000"),
        ("rollout abort r1000", "abort r1000"),
        ("rollout retry r1000", "retry r1000"),
        ("rollout retry r1000 --node redis-3", "retry r1000 redis-3"),
        ("rollout skip r1000 --node redis-3", "skip r1000 redis-3"),
    ] {
        let output = run(&fake.endpoint(), line);
        assert_eq!(code(&output), 0, "{line}: {}", stderr(&output));
        assert_eq!(fake.script().verbs.last().map(String::as_str), Some(expected), "{line}");
    }
}

#[test]
fn what_is_asked_for_is_sent() {
    let fake = Fake::start();
    let (old, new) = (samples::OLD, samples::NEW);
    for (line, expected) in [
        ("rollout undo redis.default".to_owned(), "undo redis.default ".to_owned()),
        ("rollout undo redis.default --to-revision 42".to_owned(), "undo redis.default r42".to_owned()),
        ("node hold redis-3".to_owned(), "hold redis-3 None".to_owned()),
        ("node hold redis-3 --until 2096-12-01T01:00:00Z".to_owned(), "hold redis-3 Some(4005162000)".to_owned()),
        ("node set-health redis-3 auto".to_owned(), "set-health redis-3 auto".to_owned()),
        ("token revoke redis-3".to_owned(), "revoke redis-3 false".to_owned()),
        ("token revoke redis-3 --force".to_owned(), "revoke redis-3 true".to_owned()),
        (format!("package promote {new} stable"), format!("promote {new} []")),
        (format!("package promote {new} {old} stable"), format!("promote {new} [{old:?}]")),
        (format!("package demote {new} {old} stable"), format!("demote {new} [{old:?}]")),
        (
            "window add a.b --days mon,tue --start 02:00 --length 2h --time-zone Europe/Berlin".to_owned(),
            "window a.b (\"mon,tue\", \"02:00\", 7200000, \"Europe/Berlin\")".to_owned(),
        ),
        ("freeze create".to_owned(), "freeze ([], None, None)".to_owned()),
        (
            "freeze create --group a.b --group a.c --from 2096-12-01T00:00:00Z --until 2096-12-01T01:00:00Z".to_owned(),
            "freeze ([\"a.b\", \"a.c\"], Some(4005158400), Some(4005162000))".to_owned(),
        ),
    ] {
        let output = run(&fake.endpoint(), &line);
        assert_eq!(code(&output), 0, "{line}: {}", stderr(&output));
        assert_eq!(fake.script().asked.last(), Some(&expected), "{line}");
    }
}

#[test]
fn an_undone_group_gets_a_rollout_of_its_own() {
    let fake = Fake::start();
    let output = run(&fake.endpoint(), "rollout undo redis.default");
    assert_eq!(stdout(&output), "r1043\n");
    assert!(stderr(&output).contains(samples::OLD), "{}", stderr(&output));
}

#[test]
fn a_revocation_that_is_refused_says_what_it_risks_and_what_to_look_at() {
    let fake = Fake::start();
    let risk = "node redis-3 is verifying under fence 1020: another one may go down";
    fake.script().refusals = [refusal(Code::FailedPrecondition, "revoke_needs_force", risk)].into();
    let output = run(&fake.endpoint(), "token revoke redis-3");
    assert_eq!(code(&output), 1);
    let text = stderr(&output);
    assert!(text.starts_with(&format!("refused: revoke_needs_force: {risk}\n")), "{text}");
    assert!(text.contains("`rollcall explain redis-3`") && text.contains("--force"), "{text}");
}

#[test]
fn a_digest_is_that_of_one_release() {
    let fake = Fake::start();
    let (old, new, digest) = (samples::OLD, samples::NEW, "ab".repeat(32));
    let output = run(&fake.endpoint(), &format!("package promote {old} {new} stable --digest {digest}"));
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("--digest") && fake.script().asked.is_empty(), "{}", stderr(&output));
}

#[test]
fn a_verb_that_leaves_a_rollout_waiting_says_for_what() {
    let fake = Fake::start();
    fake.script().rollout = Some(samples::waiting_rollout(RolloutStatus::AwaitingPromotion, "promotion", "batch 1"));
    let output = run(&fake.endpoint(), "rollout resume r1000");
    assert_eq!(stdout(&output), "r1000 resumed at revision 1042; it is awaiting promotion now\n");
    assert!(stderr(&output).contains("rollcall rollout promote r1000"), "{}", stderr(&output));
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
        "node release redis-3",
        "node set-health redis-3 unhealthy",
        "quarantine add acme/redis/7.2.1/20261130101500",
        "quarantine remove acme/redis/7.2.1/20261130101500",
        "window remove redis.default w1",
        "freeze lift f1042",
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
