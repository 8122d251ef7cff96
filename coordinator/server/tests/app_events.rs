//! Events: listed and watched without a gap, a duplicate or a reordering, on any peer.
#![allow(clippy::unwrap_used, reason = "test code")]

mod app_support;

use app_support::cluster::{Cluster, TestPeer, declare};
use rollcall_proto::v1;
use tokio::time::timeout;
use tonic::Streaming;

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
        let next = timeout(app_support::PATIENCE, stream.message()).await.expect("an event").unwrap().unwrap();
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
    let first = timeout(app_support::PATIENCE, stream.message()).await.unwrap().unwrap().unwrap();
    assert_eq!((first.revision, first.events.len()), (revision, 0));
}
