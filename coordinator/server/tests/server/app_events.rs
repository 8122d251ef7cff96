//! Events: listed and watched without a gap, a duplicate or a reordering, on any peer.

use rollcall_proto::v1;
use tokio::time::timeout;
use tonic::{Code, Streaming};
use tonic_types::StatusExt as _;

use crate::app_support::agent::{Identity, Session};
use crate::app_support::cluster::{Cluster, TestPeer, declare};
use crate::app_support::{eventually, reason};

async fn list(peer: &TestPeer, since_revision: u64, group: &str, limit: u32) -> v1::ListEventsResponse {
    let request = v1::ListEventsRequest { since_revision, group: group.to_owned(), limit };
    peer.events().await.list(request).await.unwrap().into_inner()
}

async fn watch(peer: &TestPeer, since_revision: u64) -> Streaming<v1::WatchEventsResponse> {
    let request = v1::WatchEventsRequest { since_revision, group: String::new() };
    peer.events().await.watch(request).await.unwrap().into_inner()
}

/// The events of a watch until there are `count`, and the cursor behind them.
async fn take(stream: &mut Streaming<v1::WatchEventsResponse>, count: usize) -> (Vec<v1::Event>, u64) {
    let mut events = Vec::new();
    let mut cursor = 0;
    while events.len() < count {
        let next = timeout(crate::app_support::PATIENCE, stream.message()).await.expect("an event").unwrap().unwrap();
        assert!(next.revision > cursor, "{} after {cursor}", next.revision);
        // All of one revision come at once, and nothing else with them.
        assert!(next.events.iter().all(|event| event.revision == next.revision), "{next:?}");
        events.extend(next.events);
        cursor = next.revision;
    }
    (events, cursor)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_that_is_resumed_elsewhere_sees_each_event_once_and_in_order() {
    let cluster = Cluster::of(3).await;
    let [a, b, c] = [&cluster.peers[0], &cluster.peers[1], &cluster.peers[2]];
    let mut first = watch(b, 0).await;
    for n in 0..5 {
        declare(a, &format!("g{n}.x")).await;
    }
    let before = list(a, 0, "", 0).await.events.len();
    let (mut seen, cursor) = take(&mut first, before - 2).await;
    drop(first);
    for n in 5..10 {
        declare(c, &format!("g{n}.x")).await;
    }
    let mut second = watch(c, cursor).await;
    let all = list(a, 0, "", 0).await.events;
    seen.extend(take(&mut second, all.len() - seen.len()).await.0);
    assert_eq!(seen, all);
    assert!(seen.windows(2).all(|pair| pair[0].revision <= pair[1].revision));
    // A restarted peer keeps them.
    let kinds: Vec<&str> = all.iter().map(|event| event.kind.as_str()).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == "group_applied").count(), 10, "{kinds:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_are_cut_between_revisions_and_filtered_by_group() {
    let cluster = Cluster::of(1).await;
    let peer = &cluster.peers[0];
    for n in 0..4 {
        declare(peer, &format!("g{n}.x")).await;
    }
    let all = list(peer, 0, "", 0).await;
    let (mut since, mut seen) = (0, Vec::new());
    loop {
        let page = list(peer, since, "", 2).await;
        since = page.revision;
        if page.events.is_empty() {
            break;
        }
        seen.extend(page.events);
    }
    assert_eq!(seen, all.events);
    assert_eq!(since, all.revision);
    let one = list(peer, 0, "g2.x", 0).await;
    assert_eq!(one.events.len(), 1);
    assert_eq!(one.events[0].group, "g2.x");
    assert_eq!(one.revision, all.revision, "all were looked at");
    assert_eq!(one.events[0].message, "g2.x declared");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_that_is_up_to_date_says_how_far() {
    let cluster = Cluster::of(1).await;
    let peer = &cluster.peers[0];
    declare(peer, "g.x").await;
    let revision = list(peer, 0, "", 0).await.revision;
    let mut stream = watch(peer, revision).await;
    let first = timeout(crate::app_support::PATIENCE, stream.message()).await.unwrap().unwrap().unwrap();
    assert_eq!((first.revision, first.events.len()), (revision, 0));
}

/// Takes events of a watch at `peer` behind `cursor` until they are all that `witness` lists.
async fn catch_up(peer: &TestPeer, witness: &TestPeer, cursor: &mut u64, seen: &mut Vec<v1::Event>) {
    let missing = list(witness, 0, "", 0).await.events.len() - seen.len();
    if missing > 0 {
        let (events, reached) = take(&mut watch(peer, *cursor).await, missing).await;
        seen.extend(events);
        *cursor = reached;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_goes_on_elsewhere_when_its_peer_dies_and_there_again_once_it_is_back() {
    let mut cluster = Cluster::of(3).await;
    let (mut cursor, mut seen) = (0, Vec::new());
    for round in 0..3 {
        let leader = cluster.leader().await;
        let [other, another] = [(leader + 1) % 3, (leader + 2) % 3];
        declare(&cluster.peers[other], &format!("before-{round}.x")).await;
        // A hello does several things in one revision.
        let hello = Identity::new(round + 1, "web.default").hello();
        drop(Session::open(&cluster.peers[other].address, hello).await.unwrap());
        // Watched at the leader, which is killed in the middle.
        let mut watched = watch(&cluster.peers[leader], cursor).await;
        let (events, reached) = take(&mut watched, 2).await;
        seen.extend(events);
        cursor = reached;
        cluster.peers[leader].kill();
        cluster.leader().await;
        eventually("the others take writes", || async {
            let request = v1::ApplyGroupRequest {
                spec: Some(crate::app_support::cluster::spec(&format!("meanwhile-{round}.x"))),
                ..v1::ApplyGroupRequest::default()
            };
            cluster.peers[another].groups().await.apply(request).await.ok()
        })
        .await;
        catch_up(&cluster.peers[another], &cluster.peers[another], &mut cursor, &mut seen).await;
        cluster.restart(leader).await;
        declare(&cluster.peers[another], &format!("after-{round}.x")).await;
        catch_up(&cluster.peers[leader], &cluster.peers[another], &mut cursor, &mut seen).await;
    }
    for peer in &cluster.peers {
        // What happens by itself meanwhile, as a session that is closed, comes behind.
        let all = eventually("a peer that has caught up", || async {
            Some(list(peer, 0, "", 0).await.events).filter(|events| events.len() >= seen.len())
        });
        assert_eq!(seen, all.await[..seen.len()], "at {}", peer.address);
    }
    let joined = seen.iter().find(|event| event.kind == "session_opened").expect("a hello");
    assert!(seen.iter().filter(|event| event.revision == joined.revision).count() > 1, "{joined:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_kept_any_more_is_told_with_where_to_begin_again() {
    let cluster = Cluster::that_keeps(50).await;
    let peer = &cluster.peers[0];
    // Trimming waits until it is worth a batch.
    for n in 0..330 {
        declare(peer, &format!("g{n}.x")).await;
    }
    let request = v1::ListEventsRequest { since_revision: 1, ..v1::ListEventsRequest::default() };
    let refused = peer.events().await.list(request).await.unwrap_err();
    assert_eq!((refused.code(), reason(&refused).as_str()), (Code::OutOfRange, "compacted"));
    let info = refused.get_details_error_info().unwrap();
    let floor: u64 = info.metadata["floor_revision"].parse().unwrap();
    assert!(floor > 1 && refused.message().contains(&floor.to_string()), "{refused}");
    let request = v1::WatchEventsRequest { since_revision: floor - 1, ..v1::WatchEventsRequest::default() };
    assert_eq!(reason(&peer.events().await.watch(request).await.unwrap_err()), "compacted");
    let kept = list(peer, floor, "", 0).await;
    assert_eq!(kept.events[0].revision, floor + 1);
    assert!(kept.events.len() >= 50 && kept.events.len() < 330, "{} are kept", kept.events.len());
    assert_eq!(take(&mut watch(peer, floor).await, kept.events.len()).await.0, kept.events);
    // Whoever asks for everything gets what there is.
    assert_eq!(list(peer, 0, "", 0).await, kept);
}
