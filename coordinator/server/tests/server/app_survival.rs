//! What people have said outlives the leader, and all peers; and what they set for a day and an hour happens by itself.

use std::time::Duration;

use rollcall_proto::v1;
use rollcall_proto::v1::RolloutStatus;

use crate::app_support::agent::{Identity, R2, Session, prefetched};
use crate::app_support::cluster::{Cluster, TestPeer, declare, start_rollout};
use crate::app_support::{eventually, in_time};

const GROUP: &str = "web.default";
const HOUR: Duration = Duration::from_secs(3600);

async fn freeze(peer: &TestPeer) -> String {
    let request = v1::CreateFreezeRequest { until: Some(in_time(HOUR)), ..v1::CreateFreezeRequest::default() };
    peer.windows().await.create_freeze(request).await.unwrap().into_inner().freeze_id
}

async fn hold(peer: &TestPeer, until: Option<Duration>) -> u64 {
    let until = until.map(in_time);
    let request = v1::HoldNodeRequest { node: "web-1".to_owned(), until, options: None };
    peer.nodes().await.hold(request).await.unwrap().into_inner().revision
}

async fn pause(peer: &TestPeer, rollout: &v1::Rollout, until: Option<Duration>) {
    let until = until.map(in_time);
    let request = v1::RolloutVerbRequest { rollout_id: rollout.rollout_id.clone(), until, ..Default::default() };
    peer.rollouts().await.pause(request).await.unwrap();
}

async fn events(peer: &TestPeer, kind: &str) -> Vec<v1::Event> {
    let found = peer.events().await.list(v1::ListEventsRequest::default()).await.unwrap().into_inner().events;
    found.into_iter().filter(|event| event.kind == kind).collect()
}

/// The new leader has had its turn: what it plans, it plans on this. Told with an id, since the old one may die on it.
async fn something_happens(peer: &TestPeer, name: &str) {
    let options = Some(v1::WriteOptions { request_id: name.to_owned(), ..v1::WriteOptions::default() });
    let request = v1::CreateChannelRequest { name: name.to_owned(), options };
    peer.channels().await.create(request).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_said_to_a_leader_that_died_still_holds_and_no_grant_contradicts_it() {
    let mut cluster = Cluster::of(3).await;
    let leader = cluster.leader().await;
    let (host, other) = ((leader + 1) % 3, (leader + 2) % 3);
    declare(&cluster.peers[leader], GROUP).await;
    let mut session = Session::open(&cluster.peers[host].address, Identity::new(1, GROUP).hello()).await.unwrap();
    session.beat();
    let freeze_id = freeze(&cluster.peers[leader]).await;
    let rollout = start_rollout(&cluster.peers[leader], GROUP, R2).await;
    hold(&cluster.peers[leader], None).await;
    pause(&cluster.peers[leader], &rollout, None).await;
    session.report(prefetched(GROUP, R2)).await;
    cluster.peers[leader].kill();

    let peer = &cluster.peers[other];
    something_happens(peer, "first").await;
    assert_eq!(peer.rollout(&rollout.rollout_id).await.status(), RolloutStatus::Paused);
    assert!(peer.node("web-1").await.hold.is_some());
    let resume = v1::RolloutVerbRequest { rollout_id: rollout.rollout_id.clone(), ..Default::default() };
    peer.rollouts().await.resume(resume).await.unwrap();
    let waits = || async { peer.rollout(&rollout.rollout_id).await.waiting_on.unwrap().reason };
    assert_eq!(waits().await, "frozen");
    peer.windows().await.lift_freeze(v1::LiftFreezeRequest { freeze_id, options: None }).await.unwrap();
    assert_eq!(waits().await, "node_held");
    something_happens(peer, "second").await;
    assert_eq!(events(peer, "token_granted").await, [], "not while anything forbade it");
    let release = v1::ReleaseNodeRequest { node: "web-1".to_owned(), options: None };
    peer.nodes().await.release(release).await.unwrap();
    session.orders_until(|group| group.step.is_some()).await;
    assert_eq!(events(peer, "token_granted").await.len(), 1, "nothing else was in the way");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn peers_that_all_start_again_know_holds_freezes_windows_and_quarantine() {
    let mut cluster = Cluster::of(3).await;
    let peer = &cluster.peers[0];
    declare(peer, GROUP).await;
    let session = Session::open(&peer.address, Identity::new(1, GROUP).hello()).await.unwrap();
    session.beat();
    hold(peer, Some(HOUR)).await;
    let freeze_id = freeze(peer).await;
    let window = v1::Window { start_time: "02:00".to_owned(), length_ms: 3_600_000, ..v1::Window::default() };
    let add = v1::AddWindowRequest { group: GROUP.to_owned(), window: Some(window), options: None };
    peer.windows().await.add(add).await.unwrap();
    let bad = v1::QuarantineRequest { ident: "acme/web/9.0.0/20260901000000".to_owned(), options: None };
    peer.channels().await.add_quarantine(bad.clone()).await.unwrap();
    let rollout = start_rollout(peer, GROUP, R2).await;
    pause(peer, &rollout, Some(HOUR)).await;
    let before = peer.rollout(&rollout.rollout_id).await;
    for peer in &mut cluster.peers {
        peer.kill();
    }
    for index in 0..3 {
        cluster.restart(index).await;
    }
    cluster.leader().await;
    for peer in &cluster.peers {
        let now = peer.rollout(&rollout.rollout_id).await;
        assert_eq!((now.status(), now.resumes_at), (RolloutStatus::Paused, before.resumes_at));
        assert!(peer.node("web-1").await.hold.unwrap().until.is_some());
        let listed = peer.windows().await.list_freezes(v1::ListFreezesRequest::default()).await.unwrap().into_inner();
        assert_eq!(listed.freezes[0].freeze_id, freeze_id);
        let windows = peer.windows().await.list(v1::ListWindowsRequest::default()).await.unwrap().into_inner();
        assert_eq!(windows.groups[0].windows[0].start_time, "02:00");
        let aside = v1::ListQuarantineRequest::default();
        let aside = peer.channels().await.list_quarantine(aside).await.unwrap().into_inner();
        assert_eq!(aside.releases[0].ident, bad.ident);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_ends_by_itself_with_the_one_entry_that_brings_its_time() {
    let cluster = Cluster::of(3).await;
    let (teller, reader) = cluster.teller_and_reader().await;
    declare(teller, GROUP).await;
    let session = Session::open(&teller.address, Identity::new(1, GROUP).hello()).await.unwrap();
    session.beat();
    let held = hold(teller, Some(Duration::from_secs(3))).await;
    let released = eventually("the hold has ended", || async { events(reader, "node_released").await.pop() }).await;
    assert_eq!(released.revision, held + 1, "nothing was written while it waited");
    assert_eq!(reader.node("web-1").await.hold, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_ends_by_itself_under_another_leader_than_it_was_told_to() {
    let mut cluster = Cluster::of(3).await;
    let leader = cluster.leader().await;
    let host = (leader + 1) % 3;
    declare(&cluster.peers[leader], GROUP).await;
    let session = Session::open(&cluster.peers[host].address, Identity::new(1, GROUP).hello()).await.unwrap();
    session.beat();
    let rollout = start_rollout(&cluster.peers[leader], GROUP, R2).await;
    pause(&cluster.peers[leader], &rollout, Some(Duration::from_secs(6))).await;
    cluster.peers[leader].kill();
    let peer = &cluster.peers[host];
    assert_eq!(peer.rollout(&rollout.rollout_id).await.status(), RolloutStatus::Paused);
    eventually("it goes on", || async {
        (peer.rollout(&rollout.rollout_id).await.status() == RolloutStatus::Running).then_some(())
    })
    .await;
}
