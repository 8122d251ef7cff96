//! Requests: retried, contradicting, malformed, too large; and what is answered without a leader.

use rollcall_proto::v1;
use tonic::Code;
use tonic_types::StatusExt as _;

use crate::app_support::agent::{R1, R2};
use crate::app_support::cluster::{Cluster, declare, spec};
use crate::app_support::reason;

const GROUP: &str = "web.default";

fn options(request_id: &str) -> Option<v1::WriteOptions> {
    Some(v1::WriteOptions { request_id: request_id.to_owned(), ..v1::WriteOptions::default() })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_is_answered_with_the_first_outcome_by_another_peer_after_a_change_of_leader() {
    let mut cluster = Cluster::of(3).await;
    declare(&cluster.peers[0], GROUP).await;
    let leader = cluster.leader().await;
    let start = v1::StartRolloutRequest {
        group: GROUP.to_owned(),
        target: R2.to_owned(),
        options: options("deploy-17"),
        ..v1::StartRolloutRequest::default()
    };
    let first = cluster.peers[leader].rollouts().await.start(start.clone()).await.unwrap().into_inner();
    cluster.peers[leader].kill();
    let other = &cluster.peers[(leader + 1) % 3];
    // No waiting for the election: the call itself outlasts it.
    let again = other.rollouts().await.start(start.clone()).await.unwrap().into_inner();
    assert_eq!(again.revision, first.revision);
    assert_eq!(again.rollout.unwrap().rollout_id, first.rollout.unwrap().rollout_id);

    let another = v1::StartRolloutRequest { target: R1.to_owned(), ..start };
    let status = other.rollouts().await.start(another).await.unwrap_err();
    assert_eq!((status.code(), reason(&status).as_str()), (Code::InvalidArgument, "request_id_reused"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_is_remembered_too() {
    let cluster = Cluster::of(1).await;
    let create = v1::CreateChannelRequest { name: "stable".to_owned(), options: options("c-1") };
    let mut channels = cluster.peers[0].channels().await;
    for _ in 0..2 {
        let status = channels.create(create.clone()).await.unwrap_err();
        assert_eq!((status.code(), reason(&status).as_str()), (Code::AlreadyExists, "already_so"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_moved_revision_aborts() {
    let cluster = Cluster::of(1).await;
    let mut groups = cluster.peers[0].groups().await;
    let apply = |expected_revision| v1::ApplyGroupRequest {
        spec: Some(spec(GROUP)),
        options: Some(v1::WriteOptions { expected_revision, ..v1::WriteOptions::default() }),
    };
    let first = groups.apply(apply(0)).await.unwrap().into_inner().revision;
    groups.apply(apply(first)).await.unwrap();
    let status = groups.apply(apply(first)).await.unwrap_err();
    assert_eq!((status.code(), reason(&status).as_str()), (Code::Aborted, "revision_moved"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_input_is_refused_by_name() {
    let cluster = Cluster::of(1).await;
    let peer = &cluster.peers[0];
    let apply = |change: fn(&mut v1::GroupSpec)| {
        let mut spec = spec(GROUP);
        change(&mut spec);
        v1::ApplyGroupRequest { spec: Some(spec), options: None }
    };
    let cases: [(&str, v1::ApplyGroupRequest); 5] = [
        ("name", apply(|spec| spec.name = "web".to_owned())),
        ("package", apply(|spec| spec.package = None)),
        ("max_parallel", apply(|spec| spec.policy.as_mut().unwrap().max_parallel = Some("0%".to_owned()))),
        ("healthy_deadline", apply(|spec| spec.policy.as_mut().unwrap().healthy_deadline_ms = Some(1))),
        (
            "batches",
            apply(|spec| spec.policy.as_mut().unwrap().batches = Some(v1::StringList { values: vec!["0".into()] })),
        ),
    ];
    for (field, request) in cases {
        let status = peer.groups().await.apply(request).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{field}: {status:?}");
        assert!(status.message().contains(field), "{field}: {}", status.message());
        let details = status.get_details_bad_request().unwrap();
        assert_eq!(details.field_violations[0].field, field);
    }
    declare(peer, GROUP).await;
    for (target, what) in
        [("acme/web/2.0.0", Code::InvalidArgument), ("acme/db/1.0.0/20260101000000", Code::InvalidArgument)]
    {
        let start = v1::StartRolloutRequest { group: GROUP.into(), target: target.into(), ..Default::default() };
        let status = peer.rollouts().await.start(start).await.unwrap_err();
        assert_eq!(status.code(), what, "{target}: {status:?}");
    }
    let get = v1::GetRolloutRequest { rollout_id: "r999".into(), ..Default::default() };
    let status = peer.rollouts().await.get(get).await.unwrap_err();
    assert_eq!((status.code(), reason(&status).as_str()), (Code::NotFound, "unknown_rollout"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_over_the_limit_is_refused_with_both_sizes() {
    let cluster = Cluster::of(1).await;
    let reason = "x".repeat(5 << 20);
    let options = Some(v1::WriteOptions { reason, ..v1::WriteOptions::default() });
    let request = v1::ApplyGroupRequest { spec: Some(spec(GROUP)), options };
    let status = cluster.peers[0].groups().await.apply(request).await.unwrap_err();
    assert_eq!(status.code(), Code::OutOfRange, "{status:?}");
    assert!(status.message().contains(&(4 << 20).to_string()), "{}", status.message());
    // And the peer goes on.
    declare(&cluster.peers[0], GROUP).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_majority_reads_and_writes_say_so_and_stale_reads_answer() {
    let mut cluster = Cluster::of(3).await;
    declare(&cluster.peers[0], GROUP).await;
    let leader = cluster.leader().await;
    let lonely = (leader + 1) % 3;
    cluster.peers[leader].kill();
    cluster.peers[(leader + 2) % 3].kill();
    let peer = &cluster.peers[lonely];
    let get = |stale| {
        let mut get = tonic::Request::new(v1::GetGroupRequest {
            name: GROUP.to_owned(),
            options: Some(v1::ReadOptions { stale }),
        });
        get.set_timeout(std::time::Duration::from_secs(2));
        get
    };
    let status = peer.groups().await.get(get(false)).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
    assert!(status.get_details_retry_info().is_some(), "{status:?}");
    let answer = peer.groups().await.get(get(true)).await.unwrap().into_inner();
    assert!(answer.revision > 0 && answer.group.is_some());
    let mut apply = tonic::Request::new(v1::ApplyGroupRequest { spec: Some(spec(GROUP)), options: None });
    apply.set_timeout(std::time::Duration::from_secs(3));
    let status = peer.groups().await.apply(apply).await.unwrap_err();
    assert!(matches!(status.code(), Code::Unavailable | Code::Unknown), "{status:?}");
    let known = ["no_leader", "not_proposed", "unknown"];
    assert!(known.contains(&reason(&status).as_str()), "{status:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_come_in_pages_that_neither_repeat_nor_skip() {
    let cluster = Cluster::of(1).await;
    let peer = &cluster.peers[0];
    let names = ["a.a", "b.b", "c.c", "d.d", "e.e"];
    for name in names {
        declare(peer, name).await;
    }
    let (mut seen, mut page_token) = (Vec::new(), String::new());
    loop {
        let request = v1::ListGroupsRequest { options: None, page_size: 2, page_token };
        let page = peer.groups().await.list(request).await.unwrap().into_inner();
        seen.extend(page.groups.into_iter().map(|group| group.spec.unwrap().name));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    assert_eq!(seen, names);
    let request = v1::ListGroupsRequest { options: None, page_size: 2, page_token: "?".to_owned() };
    assert_eq!(peer.groups().await.list(request).await.unwrap_err().code(), Code::InvalidArgument);
}
