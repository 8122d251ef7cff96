//! `rollout status --watch` and `events --follow`: to the end, over broken streams, in time.

use std::collections::HashMap;

use insta::assert_snapshot;
use rollcall_proto::v1::{Phase, RolloutStatus};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::fake::Fake;
use crate::samples::{ago, paused_rollout, rolling_back_rollout, rollout, succeeded_rollout, waiting_rollout};
use crate::{code, run, stderr, stdout};

#[test]
fn a_watch_tells_each_change_and_ends_with_0_on_success() {
    let fake = Fake::start();
    fake.script().watches = [vec![Ok(rollout()), Ok(paused_rollout()), Ok(succeeded_rollout())]].into();
    let output = run(&fake.endpoint(), "rollout status r1000 --watch");
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_snapshot!(stdout(&output));
    assert!(stderr(&output).contains("rollcall explain r1000"), "{}", stderr(&output));
}

#[test]
fn a_watch_goes_on_where_a_stream_breaks() {
    let fake = Fake::start();
    fake.script().watches =
        [vec![Ok(rollout()), Err(Status::unavailable("going away"))], vec![Ok(succeeded_rollout())]].into();
    let output = run(&fake.endpoint(), "rollout status redis.default -w -o json");
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let statuses: Vec<_> = stdout(&output)
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["status"].clone())
        .collect();
    assert_eq!(statuses, ["running", "succeeded"]);
}

#[test]
fn a_watch_of_what_ends_otherwise_ends_with_1() {
    for (status, name) in [
        (RolloutStatus::Stopped, "stopped"),
        (RolloutStatus::Superseded, "superseded"),
        (RolloutStatus::RolledBack, "rolled_back"),
        (RolloutStatus::Denied, "denied"),
    ] {
        let fake = Fake::start();
        let mut ended = rollout();
        ended.status = status.into();
        fake.script().watches = [vec![Ok(ended)]].into();
        fake.script().end = Some(format!("it has ended, {name}: {name}: loses writes"));
        let output = run(&fake.endpoint(), "rollout status r1000 -w");
        assert_eq!(code(&output), 1, "{status:?}");
        let expected = format!("failed: r1000 ended as {}: loses writes\n", name.replace('_', " "));
        assert!(stderr(&output).starts_with(&expected), "{}", stderr(&output));
    }
}

#[test]
fn a_watch_tells_the_way_back() {
    let fake = Fake::start();
    let mut back = rolling_back_rollout();
    back.status = RolloutStatus::RolledBack.into();
    back.steps[1].phase = Phase::Succeeded.into();
    back.steps[1].phase_since = ago(0);
    fake.script().watches = [vec![Ok(rollout()), Ok(rolling_back_rollout()), Ok(back)]].into();
    let output = run(&fake.endpoint(), "rollout status r1000 -w");
    assert_eq!(code(&output), 1);
    assert_snapshot!(stdout(&output));
}

#[test]
fn a_watch_says_once_which_command_a_person_is_asked_for() {
    let fake = Fake::start();
    let waiting = waiting_rollout(RolloutStatus::AwaitingPromotion, "promotion", "the promotion of batch 1");
    fake.script().watches = [vec![Ok(rollout()), Ok(waiting.clone()), Ok(waiting), Ok(succeeded_rollout())]].into();
    let output = run(&fake.endpoint(), "rollout status r1000 -w");
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(stderr(&output).matches("`rollcall rollout promote r1000`").count(), 1, "{}", stderr(&output));
}

#[test]
fn a_watch_ends_with_4_once_its_time_is_over() {
    let fake = Fake::start();
    fake.script().watches = [vec![Ok(paused_rollout())]].into();
    let output = run(&fake.endpoint(), "rollout status r1000 -w --timeout 300ms");
    assert_eq!(code(&output), 4);
    assert!(stderr(&output).contains("r1000 is paused after 300ms, with 1 of 3 done"), "{}", stderr(&output));
}

#[test]
fn the_only_active_rollout_needs_no_name() {
    let fake = Fake::start();
    fake.script().watches = [vec![Ok(succeeded_rollout())]].into();
    assert_eq!(code(&run(&fake.endpoint(), "rollout status -w")), 0);
    fake.script().rollout = Some(succeeded_rollout());
    assert_eq!(code(&run(&fake.endpoint(), "rollout status -w")), 2);
}

#[test]
fn events_are_followed_over_broken_streams_without_a_gap() {
    let fake = Fake::start();
    let output = run(&fake.endpoint(), "events --follow -o json");
    // The fake ends it by a refusal.
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("compacted"), "{}", stderr(&output));
    let revisions: Vec<_> = stdout(&output)
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["revision"].clone())
        .collect();
    assert_eq!(revisions, [1000, 1020, 1042]);
    assert_eq!(fake.script().since, [0, 1000, 1020]);
}

/// As a peer says it that keeps nothing up to `floor`.
fn compacted(floor: u64) -> Status {
    let metadata = HashMap::from([("floor_revision".to_owned(), floor.to_string())]);
    let details = ErrorDetails::with_error_info("compacted", "rollcall", metadata);
    Status::with_error_details(Code::OutOfRange, "not kept any more", details)
}

#[test]
fn a_peer_that_keeps_less_is_passed_over_for_one_that_keeps_enough() {
    let (short, long) = (Fake::start(), Fake::start());
    short.script().refusals = vec![compacted(1_030); 10].into();
    let output = run(&format!("{},{}", short.endpoint(), long.endpoint()), "events --follow -o json");
    assert_eq!(stdout(&output).lines().count(), 3, "{}", stderr(&output));
    assert_eq!(long.script().since, [0, 1000, 1020]);
    // Where nobody keeps it, it is told what there is.
    short.script().refusals = vec![compacted(1_030)].into();
    let output = run(&short.endpoint(), "events --follow --since 7");
    assert_eq!(code(&output), 1);
    let text = stderr(&output);
    assert!(text.starts_with("refused: compacted: ") && text.contains("--since 1030"), "{text}");
}
