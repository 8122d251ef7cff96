//! What other programs expect of any gRPC server: health, reflection, probes, metrics; and what a blank peer answers.

use rollcall_proto::v1;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

use crate::app_support::agent::{Identity, NoSession, Session};
use crate::app_support::cluster::{Cluster, TestPeer, declare};
use crate::app_support::{eventually, reason};

async fn health(peer: &TestPeer, service: &str) -> ServingStatus {
    let request = HealthCheckRequest { service: service.to_owned() };
    HealthClient::new(peer.channel().await).check(request).await.unwrap().into_inner().status()
}

async fn get(peer: &TestPeer, path: &str) -> (u16, String) {
    let mut stream = tokio::net::TcpStream::connect(&peer.http).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", peer.http);
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blank_peer_says_so_to_everything_but_what_makes_it_a_member() {
    let cluster = Cluster::blank(1).await;
    let peer = &cluster.peers[0];
    let status = peer.groups().await.list(v1::ListGroupsRequest::default()).await.unwrap_err();
    assert_eq!((status.code(), reason(&status).as_str()), (Code::FailedPrecondition, "not_initialized"));
    assert!(status.message().contains("cluster init"), "{}", status.message());
    match Session::open(&peer.address, Identity::new(1, "web.default").hello()).await {
        Err(NoSession::Failed(status)) => assert_eq!(reason(&status), "not_initialized"),
        _ => panic!("a session on a blank peer"),
    }
    let status = peer.status().await;
    assert_eq!((status.condition.as_str(), status.peers.len()), ("uninitialized", 1));
    assert_eq!(health(peer, "").await, ServingStatus::NotServing);
    assert_eq!(get(peer, "/healthz").await.0, 200);
    assert_eq!(get(peer, "/readyz").await.0, 503);
    assert_eq!(get(peer, "/").await.0, 200);
    assert!(get(peer, "/metrics").await.1.contains("rollcall_sessions 0"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_and_readiness_follow_the_leader() {
    let mut cluster = Cluster::of(3).await;
    for peer in &cluster.peers {
        for service in ["", "rollcall.v1.RolloutService", "rollcall.v1.WindowService"] {
            eventually("the peer serves", || async {
                (health(peer, service).await == ServingStatus::Serving).then_some(())
            })
            .await;
        }
        eventually("the peer is ready", || async { (get(peer, "/readyz").await.0 == 200).then_some(()) }).await;
    }
    let leader = cluster.leader().await;
    cluster.peers[leader].kill();
    cluster.peers[(leader + 1) % 3].kill();
    let lonely = &cluster.peers[(leader + 2) % 3];
    eventually("the last peer serves no more", || async {
        (health(lonely, "").await == ServingStatus::NotServing).then_some(())
    })
    .await;
    assert_eq!(get(lonely, "/readyz").await.0, 503);
    assert_eq!(get(lonely, "/healthz").await.0, 200, "restarting it would help nobody");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reflection_lists_and_describes_the_api() {
    let cluster = Cluster::blank(1).await;
    let mut client = ServerReflectionClient::new(cluster.peers[0].channel().await);
    let ask = |request| ServerReflectionRequest { host: String::new(), message_request: Some(request) };
    let requests = [
        ask(MessageRequest::ListServices(String::new())),
        ask(MessageRequest::FileContainingSymbol("rollcall.v1.RolloutService".to_owned())),
    ];
    let mut answers = client.server_reflection_info(tokio_stream::iter(requests)).await.unwrap().into_inner();
    let mut next = async || answers.message().await.unwrap().unwrap().message_response.unwrap();
    let MessageResponse::ListServicesResponse(list) = next().await else { panic!("a list") };
    let names: Vec<String> = list.service.into_iter().map(|service| service.name).collect();
    for service in ["Agent", "Group", "Rollout", "Node", "Token", "Channel", "Window", "Event", "Cluster"] {
        assert!(names.contains(&format!("rollcall.v1.{service}Service")), "{service}: {names:?}");
    }
    assert!(names.contains(&"grpc.health.v1.Health".to_owned()), "{names:?}");
    let MessageResponse::FileDescriptorResponse(file) = next().await else { panic!("a file") };
    assert!(!file.file_descriptor_proto.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_have_the_names_of_the_contract() {
    let cluster = Cluster::of(1).await;
    let peer = &cluster.peers[0];
    declare(peer, "web.default").await;
    let session = Session::open(&peer.address, Identity::new(1, "web.default").hello()).await.unwrap();
    session.beat();
    let rollout = crate::app_support::cluster::start_rollout(peer, "web.default", crate::app_support::agent::R2).await;
    let (_, text) = get(peer, "/metrics").await;
    for line in [
        "rollcall_sessions 1",
        "rollcall_is_leader 1",
        "rollcall_quorum_margin 0",
        "rollcall_rollout_state{group=\"web.default\",state=\"running\"} 1",
        "rollcall_rollout_steps{group=\"web.default\",phase=\"queued\"} 1",
        "rollcall_waiting_on{group=\"web.default\",reason=\"prefetching\"} 1",
        "rollcall_node_health{group=\"web.default\",health=\"healthy\"} 1",
        "rollcall_commit_duration_seconds_count",
        "rollcall_fsync_duration_seconds_bucket{le=\"+Inf\"}",
        "rollcall_log_entries",
        "rollcall_apply_duration_seconds_count",
        "rollcall_rollout_state{group=\"web.default\",state=\"rolling_back\"} 0",
        "rollcall_rollout_steps{group=\"web.default\",phase=\"succeeded\"} 0",
    ] {
        assert!(text.contains(line), "{line} isn't in:\n{text}");
    }
    assert!(!text.contains("rollcall_apply_duration_seconds_count 0\n"), "entries were applied:\n{text}");
    assert!(!text.contains("rollcall_rollout_paused_seconds"), "nothing is paused:\n{text}");
    assert!(get(peer, "/").await.1.contains("web.default"));

    let pause = v1::RolloutVerbRequest { rollout_id: rollout.rollout_id, ..v1::RolloutVerbRequest::default() };
    peer.rollouts().await.pause(pause).await.unwrap();
    let word = v1::SetHealthRequest { node: "web-1".into(), health: "unhealthy".into(), options: None };
    peer.nodes().await.set_health(word).await.unwrap();
    let (_, text) = get(peer, "/metrics").await;
    for line in [
        "rollcall_rollout_state{group=\"web.default\",state=\"paused\"} 1",
        "rollcall_rollout_paused_seconds{group=\"web.default\"} ",
        "rollcall_waiting_on{group=\"web.default\",reason=\"paused\"} 1",
        "rollcall_node_health{group=\"web.default\",health=\"critical\"} 1",
    ] {
        assert!(text.contains(line), "{line} isn't in:\n{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_status_page_shows_what_people_have_set_and_why() {
    let cluster = Cluster::of(1).await;
    let peer = &cluster.peers[0];
    declare(peer, "web.default").await;
    assert!(!get(peer, "/").await.1.contains("Set by people"));
    let options = Some(v1::WriteOptions { reason: "<year end>".into(), actor: "alice".into(), ..Default::default() });
    let freeze = v1::CreateFreezeRequest { options: options.clone(), ..v1::CreateFreezeRequest::default() };
    let id = peer.windows().await.create_freeze(freeze).await.unwrap().into_inner().freeze_id;
    let bad = v1::QuarantineRequest { ident: crate::app_support::agent::R2.to_owned(), options };
    peer.channels().await.add_quarantine(bad).await.unwrap();
    let page = get(peer, "/").await.1;
    let freeze = format!("freeze {id} of all groups<td>alice<td>&lt;year end&gt;");
    for row in [freeze.as_str(), "acme/web/2.0.0/20260201000000 in quarantine<td>alice"] {
        assert!(page.contains(row), "{row} isn't in {page}");
    }
}
