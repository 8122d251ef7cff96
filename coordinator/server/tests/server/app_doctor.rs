//! The doctor answers on any peer, whatever is broken elsewhere.

use rollcall_proto::v1;
use tonic::Code;

use crate::app_support::agent::{Identity, Session};
use crate::app_support::cluster::{Cluster, TestPeer, declare, spec};
use crate::app_support::refused;

const GROUP: &str = "web.default";

async fn ask(peer: &TestPeer) -> v1::DoctorResponse {
    peer.clusters().await.doctor(v1::DoctorRequest::default()).await.unwrap().into_inner()
}

/// The findings of a check: severity, subject and what to do.
fn of(answer: &v1::DoctorResponse, check: &str) -> Vec<(String, String, String)> {
    let found = answer.findings.iter().filter(|finding| finding.check == check).cloned();
    found.map(|finding| (finding.severity, finding.subject, finding.advice)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_peer_finds_the_same_in_the_state_and_none_is_out_of_reach() {
    let cluster = Cluster::of(3).await;
    declare(&cluster.peers[0], GROUP).await;
    let session = Session::open(&cluster.peers[1].address, Identity::new(1, GROUP).hello()).await.unwrap();
    session.beat();
    let hold = v1::HoldNodeRequest { node: "web-1".to_owned(), ..v1::HoldNodeRequest::default() };
    cluster.peers[2].nodes().await.hold(hold).await.unwrap();
    for peer in &cluster.peers {
        let answer = ask(peer).await;
        assert_eq!(answer.peers_asked, 3);
        assert!(answer.checks > 20 && answer.revision > 0, "{answer:?}");
        for clean in
            ["no_leader", "quorum", "peer_unreachable", "peer_not_voting", "peer_lags", "clock_skew", "peer_versions"]
        {
            assert_eq!(of(&answer, clean), [], "{answer:?}");
        }
        let held = of(&answer, "node_held").remove(0);
        assert_eq!((held.0.as_str(), held.1.as_str()), ("warning", "node web-1"));
        assert!(held.2.contains("rollcall node release web-1"), "{}", held.2);
        assert_eq!(of(&answer, "every_member_held").len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn peers_that_are_down_are_findings_and_what_is_left_still_answers() {
    let mut cluster = Cluster::of(3).await;
    let leader = cluster.leader().await;
    let (down, last) = ((leader + 1) % 3, (leader + 2) % 3);
    let (lost, led) = (cluster.peers[down].peer_id(), cluster.peers[leader].peer_id());
    cluster.peers[down].kill();
    let answer = ask(&cluster.peers[last]).await;
    let unreachable = of(&answer, "peer_unreachable");
    assert_eq!(unreachable.len(), 1, "{answer:?}");
    assert_eq!((unreachable[0].0.as_str(), unreachable[0].1.clone()), ("error", format!("peer {lost}")));
    assert!(unreachable[0].2.contains("remove-peer"), "{}", unreachable[0].2);
    assert_eq!(of(&answer, "no_leader"), []);

    cluster.peers[leader].kill();
    let answer = ask(&cluster.peers[last]).await;
    assert_eq!(of(&answer, "no_leader").len(), 1, "{answer:?}");
    let subjects: Vec<String> = of(&answer, "peer_unreachable").into_iter().map(|finding| finding.1).collect();
    assert_eq!(subjects.len(), 2, "{answer:?}");
    assert!(subjects.contains(&format!("peer {led}")), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_voters_that_hold_a_majority_are_told_of() {
    let mut cluster = Cluster::of(3).await;
    let leader = cluster.leader().await;
    cluster.peers[(leader + 1) % 3].kill();
    let peer = &cluster.peers[leader];
    let found = crate::app_support::eventually("the leader misses the other", || async {
        of(&ask(peer).await, "quorum").pop()
    });
    assert_eq!(found.await.0, "error");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_worst_comes_first_wherever_it_was_found() {
    let cluster = Cluster::of(1).await;
    let peer = &cluster.peers[0];
    let policy = v1::Policy {
        order: Some("inventory".to_owned()),
        inventory: Some(v1::StringList { values: vec!["web-9".to_owned()] }),
        ..v1::Policy::default()
    };
    let spec = v1::GroupSpec { policy: Some(policy), ..spec(GROUP) };
    peer.groups().await.apply(v1::ApplyGroupRequest { spec: Some(spec), options: None }).await.unwrap();
    let session = Session::open(&peer.address, Identity::new(1, GROUP).hello()).await.unwrap();
    session.beat();
    let answer = ask(peer).await;
    // What is wrong with the peers is looked for first, and a single one is only a warning.
    assert_eq!(of(&answer, "quorum")[0].0, "warning");
    assert_eq!(of(&answer, "order_does_not_fit")[0].0, "error");
    assert!(answer.findings.is_sorted_by_key(|finding| finding.severity != "error"), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blank_peer_says_that_it_has_no_cluster() {
    let cluster = Cluster::blank(1).await;
    let answer = cluster.peers[0].clusters().await.doctor(v1::DoctorRequest::default()).await;
    refused(answer, Code::FailedPrecondition, "not_initialized");
}
