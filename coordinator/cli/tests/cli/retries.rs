//! Which failures are tried again, and how those that remain are told.

use tonic::{Code, Status};

use crate::fake::{Fake, dead_endpoint, refusal};
use crate::{code, run, samples, stderr, stdout};

#[test]
fn dead_peers_are_passed_over() {
    let fake = Fake::start();
    let output = run(&format!("{},{}", dead_endpoint(), fake.endpoint()), "token list");
    assert_eq!(code(&output), 0, "{}", stderr(&output));
}

#[test]
fn a_write_without_an_answer_is_sent_again_with_its_request_id() {
    let fake = Fake::start();
    fake.script().refusals = [
        refusal(Code::Unavailable, "NotProposed", "no leader"),
        refusal(Code::Unknown, "Unknown", "leadership was lost"),
    ]
    .into();
    let output = run(&fake.endpoint(), &format!("rollout start redis.default --to {}", samples::NEW));
    assert_eq!(stdout(&output), "r1000\n", "{}", stderr(&output));
    let script = fake.script();
    assert_eq!(script.writes.len(), 3);
    assert!(!script.writes[0].request_id.is_empty());
    assert!(script.writes.iter().all(|write| write.request_id == script.writes[0].request_id));
}

#[test]
fn a_blank_peer_is_passed_over_for_one_that_has_a_cluster() {
    let (blank, fake) = (Fake::start(), Fake::start());
    let says = || refusal(Code::FailedPrecondition, "not_initialized", "it belongs to no cluster yet");
    blank.script().refusals = [says(), says()].into();
    let both = format!("{},{}", blank.endpoint(), fake.endpoint());
    let output = run(&both, "token list");
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    // All are: then that is the answer, at once.
    fake.script().refusals = [says()].into();
    let output = run(&both, "token list");
    assert_eq!(code(&output), 1);
    assert!(
        stderr(&output).starts_with("refused: not_initialized: it belongs to no cluster yet"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn refusals_are_told_and_never_tried_again() {
    let fake = Fake::start();
    fake.script().refusals =
        [refusal(Code::FailedPrecondition, "AlreadyRunning", "r1000 is already going there; resume or retry it")]
            .into();
    let output = run(&fake.endpoint(), &format!("rollout start redis.default --to {}", samples::NEW));
    assert_eq!(code(&output), 1);
    assert_eq!(stderr(&output), "refused: AlreadyRunning: r1000 is already going there; resume or retry it\n");
    assert_eq!(fake.script().writes.len(), 1);
}

#[test]
fn a_moved_revision_says_what_to_do() {
    let fake = Fake::start();
    fake.script().refusals = [refusal(Code::Aborted, "RevisionMoved", "it stands at 1043")].into();
    let output = run(&fake.endpoint(), "rollout pause r1000 --expected-revision 1040");
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("look again"), "{}", stderr(&output));
    assert_eq!(fake.script().writes[0].expected_revision, 1040);
}

#[test]
fn no_leader_ends_with_3_once_the_time_is_over() {
    let fake = Fake::start();
    fake.script().refusals = (0..100).map(|_| Status::unavailable("no leader")).collect();
    let output = run(&fake.endpoint(), "group list --timeout 300ms");
    assert_eq!(code(&output), 3);
    assert!(stderr(&output).contains("no leader"), "{}", stderr(&output));
}

#[test]
fn silence_ends_with_4_once_the_time_is_over() {
    // Takes connections and says nothing, like a peer that is stopped.
    let silent = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let endpoint = silent.local_addr().unwrap().to_string();
    let output = run(&endpoint, "group list --timeout 300ms");
    assert_eq!(code(&output), 4, "{}", stderr(&output));
    let output = run(&endpoint, "rollout pause r1 --timeout 300ms --request-id mine-1");
    assert_eq!(code(&output), 4);
    assert!(stderr(&output).contains("with --request-id mine-1 tells"), "{}", stderr(&output));
}

#[test]
fn a_cluster_is_made_by_the_first_endpoint_only() {
    let fake = Fake::start();
    let endpoints = format!("{},10.0.0.2:7400,10.0.0.3:7400", fake.endpoint());
    assert_eq!(code(&run(&endpoints, "cluster init")), 0);
    assert_eq!(fake.script().init_peers, ["10.0.0.2:7400", "10.0.0.3:7400"]);
    let line = format!("cluster init {} 10.0.0.9:7400", fake.endpoint());
    assert_eq!(code(&run(&endpoints, &line)), 0);
    assert_eq!(fake.script().init_peers, ["10.0.0.9:7400"]);

    let output = run(&format!("{},{}", dead_endpoint(), fake.endpoint()), "cluster init --timeout 200ms");
    assert_eq!(code(&output), 3);
}
