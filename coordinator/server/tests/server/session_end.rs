//! How sessions end, and that nothing is lost by it.

use rollcall_proto::v1;
use rollcall_proto::v1::{agent_message, report, step_report};

use crate::app_support::agent::{Identity, NoSession, R2, Session, on_step, prefetched, to_peer};
use crate::app_support::cluster::{Cluster, declare, start_rollout};
use crate::app_support::eventually;
use crate::app_support::follow::Follower;

const GROUP: &str = "web.default";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_whose_host_is_killed_goes_elsewhere_and_never_departs() {
    let mut cluster = Cluster::of(3).await;
    declare(&cluster.peers[0], GROUP).await;
    let leader = cluster.leader().await;
    let (host, other) = ((leader + 1) % 3, (leader + 2) % 3);
    let peers = [host, other].map(|peer| cluster.peers[peer].address.clone()).to_vec();
    let agent = Follower::start(Identity::new(1, GROUP), peers.clone());
    eventually("the session", || async { (agent.hosts().len() == 1).then_some(()) }).await;

    cluster.peers[host].kill();
    eventually("a session elsewhere", || async { (agent.hosts().len() == 2).then_some(()) }).await;
    assert_eq!(agent.hosts(), peers);
    let node = eventually("the log knows the new host", || async {
        let node = cluster.peers[leader].node("web-1").await;
        (node.host_peer_id == cluster.peers[other].peer_id()).then_some(node)
    })
    .await;
    assert_eq!(node.presence, "present");

    // The killed peer comes back, and takes nothing away from the session that has moved.
    cluster.restart(host).await;
    eventually("it serves again", || async {
        (cluster.peers[host].status().await.condition == "serving").then_some(())
    })
    .await;
    assert_eq!(cluster.peers[host].node("web-1").await.session_epoch, node.session_epoch);
    let kinds = event_kinds(&cluster, leader).await;
    assert!(!kinds.iter().any(|kind| kind == "node_departed"), "{kinds:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_host_closes_the_sessions_it_had() {
    let mut cluster = Cluster::of(3).await;
    let host = (cluster.leader().await + 1) % 3;
    let session = Session::open(&cluster.peers[host].address, Identity::new(1, GROUP).hello()).await.unwrap();
    cluster.peers[host].kill();
    drop(session);
    cluster.restart(host).await;
    let node = eventually("the log knows that it is away", || async {
        let node = cluster.peers[host].node("web-1").await;
        (node.presence == "away").then_some(node)
    });
    assert_eq!(node.await.host_peer_id, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_leader_closes_the_sessions_of_a_peer_that_stays_away() {
    let mut cluster = Cluster::of(3).await;
    let leader = cluster.leader().await;
    let host = (leader + 1) % 3;
    let session = Session::open(&cluster.peers[host].address, Identity::new(1, GROUP).hello()).await.unwrap();
    cluster.peers[host].kill();
    drop(session);
    eventually("the log knows that it is away", || async {
        (cluster.peers[leader].node("web-1").await.presence == "away").then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_falls_silent_or_ends_is_closed() {
    let cluster = Cluster::of(1).await;
    let peer = &cluster.peers[0];
    // Silent: its stream stays open, and no heartbeat comes.
    let mut silent = Session::open(&peer.address, Identity::new(1, GROUP).hello()).await.unwrap();
    let status = loop {
        match silent.next().await {
            Ok(_) => {}
            Err(status) => break status,
        }
    };
    assert_eq!(status.code(), tonic::Code::DeadlineExceeded, "{status:?}");
    let ended = Session::open(&peer.address, Identity::new(2, GROUP).hello()).await.unwrap();
    drop(ended);
    for name in ["web-1", "web-2"] {
        eventually("the log knows that it is away", || async {
            (peer.node(name).await.presence == "away").then_some(())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_session_of_the_same_disk_ends_the_first() {
    let cluster = Cluster::of(3).await;
    let identity = Identity::new(1, GROUP);
    let mut first = Session::open(&cluster.peers[1].address, identity.hello()).await.unwrap();
    first.beat();
    let second = Session::open(&cluster.peers[2].address, identity.hello()).await.unwrap();
    second.beat();
    assert!(second.welcome.epoch > first.welcome.epoch);
    let status = loop {
        match first.next().await {
            Ok(_) => {}
            Err(status) => break status,
        }
    };
    assert_eq!(crate::app_support::reason(&status), "stale_session", "{status:?}");
    assert_eq!(cluster.peers[0].node("web-1").await.session_epoch, second.welcome.epoch);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copied_identity_is_refused_with_both_named() {
    let cluster = Cluster::of(3).await;
    let original = Identity::new(1, GROUP);
    let session = Session::open(&cluster.peers[0].address, original.hello()).await.unwrap();
    session.beat();
    let copy = Identity { name: "web-9".to_owned(), locus: "another disk".to_owned(), ..original.clone() };
    let refused = refusal(&cluster.peers[1].address, copy.hello()).await;
    assert_eq!((refused.reason.as_str(), refused.retry), ("identity_in_use", true));
    assert!(refused.message.contains("web-1") && refused.message.contains("web-9"), "{}", refused.message);
    assert_eq!(cluster.peers[2].node("web-1").await.session_epoch, session.welcome.epoch, "the first one goes on");

    let namesake = Identity { name: "web-1".to_owned(), ..Identity::new(2, GROUP) };
    let refused = refusal(&cluster.peers[1].address, namesake.hello()).await;
    assert_eq!((refused.reason.as_str(), refused.retry), ("name_taken", false));

    let stranger = v1::Hello { cluster_id: "ff".repeat(16), ..Identity::new(3, GROUP).hello() };
    let refused = refusal(&cluster.peers[1].address, stranger).await;
    assert_eq!((refused.reason.as_str(), refused.retry), ("other_cluster", false));

    let nameless = v1::Hello { node_name: "../x".to_owned(), ..Identity::new(3, GROUP).hello() };
    let refused = refusal(&cluster.peers[1].address, nameless).await;
    assert_eq!((refused.reason.as_str(), refused.retry), ("invalid_hello", false));
    assert!(refused.message.contains("node_name"), "{}", refused.message);
}

async fn refusal(address: &str, hello: v1::Hello) -> v1::Refused {
    match Session::open(address, hello).await {
        Err(NoSession::Refused(refused)) => refused,
        Err(NoSession::Failed(status)) => panic!("{status:?}"),
        Ok(_) => panic!("welcome"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reports_with_a_stale_fence_or_of_nonsense_are_refused_and_the_session_goes_on() {
    let cluster = Cluster::of(3).await;
    declare(&cluster.peers[0], GROUP).await;
    let identity = Identity::new(1, GROUP);
    let mut session = Session::open(&cluster.peers[1].address, identity.hello()).await.unwrap();
    session.beat();
    start_rollout(&cluster.peers[0], GROUP, R2).await;
    session.report(prefetched(GROUP, R2)).await;
    let orders = session.orders_until(|group| group.step.is_some()).await;

    let mut stale = orders.clone();
    stale.step.as_mut().unwrap().fence -= 1;
    let accepted = || step_report::Event::Accepted(v1::Accepted {});
    assert_eq!(session.report(on_step(&stale, accepted())).await.refusal, "stale_fence");
    let elsewhere = v1::ServiceStatus { group: "db.default".to_owned(), ..identity.status() };
    assert_eq!(session.report(report::Kind::Status(elsewhere)).await.refusal, "not_a_member");
    let nonsense = v1::ServiceStatus { release: "web".to_owned(), ..identity.status() };
    let answer = session.report(report::Kind::Status(nonsense)).await;
    assert_eq!(answer.refusal, "invalid_report");
    assert!(answer.message.contains("release"), "{}", answer.message);
    assert_eq!(session.report(on_step(&orders, accepted())).await.refusal, "");
    // Said again it is nothing new.
    assert_eq!(session.report(on_step(&orders, accepted())).await.refusal, "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reports_wait_out_a_change_of_leader_and_are_answered_in_order() {
    let mut cluster = Cluster::of(3).await;
    let leader = cluster.leader().await;
    let host = (leader + 1) % 3;
    let identity = Identity::new(1, GROUP);
    let mut session = Session::open(&cluster.peers[host].address, identity.hello()).await.unwrap();
    session.beat();
    cluster.peers[leader].kill();
    // More than may wait for their answers at once.
    for n in 0..200 {
        let priority = Some(n);
        session.say(report::Kind::Status(v1::ServiceStatus { priority, ..identity.status() })).await;
    }
    let mut answered = 0;
    while answered < 200 {
        if let v1::peer_message::Kind::Answer(answer) = session.next().await.unwrap() {
            answered += 1;
            assert_eq!((answer.number, answer.refusal.as_str()), (answered, ""), "{}", answer.message);
        }
    }
    let member = cluster.peers[host].node("web-1").await.services[0].member.clone().unwrap();
    assert_eq!(member.priority, Some(199), "the last word counts");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_stops_hands_over_and_its_agents_go_elsewhere() {
    let mut cluster = Cluster::of(3).await;
    let leader = cluster.leader().await;
    let next = (leader + 1) % 3;
    let peers = [leader, next].map(|peer| cluster.peers[peer].address.clone()).to_vec();
    let agent = Follower::start(Identity::new(1, GROUP), peers.clone());
    eventually("the session", || async { (agent.hosts().len() == 1).then_some(()) }).await;
    let begun = std::time::Instant::now();
    cluster.peers[leader].stop().await;
    eventually("a session elsewhere", || async { (agent.hosts().len() == 2).then_some(()) }).await;
    println!("stopped, handed over, and back in a session after {:?}", begun.elapsed());
    assert_eq!(agent.hosts(), peers);
    assert_ne!(cluster.leader().await, leader);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heartbeats_are_not_logged() {
    let cluster = Cluster::of(1).await;
    let node = Identity::new(1, GROUP);
    let mut session = Session::open(&cluster.peers[0].address, node.hello()).await.unwrap();
    let before = cluster.peers[0].status().await.revision;
    for _ in 0..50 {
        session.send(to_peer(agent_message::Kind::Heartbeat(v1::Heartbeat {}))).await;
    }
    // Messages of a session are heard in order: once this one is answered, so are the heartbeats.
    assert_eq!(session.report(report::Kind::Status(node.status())).await.refusal, "");
    assert_eq!(cluster.peers[0].status().await.revision, before + 1, "the report is an entry, the heartbeats are none");
}

async fn event_kinds(cluster: &Cluster, peer: usize) -> Vec<String> {
    let events = cluster.peers[peer].events().await.list(v1::ListEventsRequest::default()).await.unwrap();
    events.into_inner().events.into_iter().map(|event| event.kind).collect()
}
