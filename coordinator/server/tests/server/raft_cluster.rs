//! A cluster of peers: writes and reads through any of them, whoever leads.

use std::time::Duration;

use rollcall_coordinator::raft::{MembershipError, NotProposed, ProposeError, ReadError};
use rollcall_ident::PeerId;
use tokio::time::Instant;

use crate::raft_support::{
    Cluster, PATIENCE, eventually, has_channel, logs, origin, quick, small_snapshots, write, write_with_id,
};

#[tokio::test(flavor = "multi_thread")]
async fn init_makes_a_cluster_of_blank_peers() {
    logs();
    let mut cluster = Cluster::new(3, quick()).await;
    let leader = cluster.await_leader().await;
    let follower = &cluster.peers[(leader + 1) % 3];
    let members = crate::raft_support::eventually_async("each peer has answered the leader", || async {
        let members = follower.members().await;
        members.iter().all(|member| member.problem.is_none() && member.matched.is_some()).then_some(members)
    })
    .await;
    assert_eq!(members.iter().filter(|member| member.voter).count(), 3, "{members:?}");
    assert_eq!(members.iter().filter(|member| member.leader).count(), 1, "{members:?}");
    let view = cluster.peers[2].read().await;
    assert_eq!(view.state.cluster_id(), Some(cluster.peers[0].consensus().cluster_id()));
    let registered: Vec<_> = view.state.peers().values().map(|peer| (peer.id, peer.address.clone())).collect();
    let running: Vec<_> = cluster.peers.iter().map(|peer| (peer.id(), peer.address.clone())).collect();
    assert_eq!(registered, running);

    let again = cluster.peers[0].peer.clone();
    let error = cluster.peers[0].spawn(async move { again.init_cluster(&[], origin()).await }).await.unwrap_err();
    assert!(matches!(error, MembershipError::AlreadyInitialised { peer: PeerId(1), .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn init_makes_nothing_unless_all_peers_are_there_and_blank() {
    logs();
    let cluster = Cluster::blank(2, quick()).await;
    let first = cluster.peers[0].peer.clone();
    // A port that nobody listens on.
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let others = vec![cluster.peers[1].address.clone(), unused.clone()];
    let error = cluster.peers[0].spawn(async move { first.init_cluster(&others, origin()).await }).await.unwrap_err();
    assert!(matches!(&error, MembershipError::Unreachable { address, .. } if *address == unused), "{error}");
    assert!(cluster.peers.iter().all(|peer| peer.peer.consensus().is_none()));

    let first = cluster.peers[0].peer.clone();
    let error = cluster.peers[0].spawn(async move { first.init_cluster(&["nonsense".into()], origin()).await }).await;
    assert!(matches!(error, Err(MembershipError::BadAddress { .. })), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_by_any_peer_is_read_at_every_peer() {
    logs();
    let mut cluster = Cluster::new(3, quick()).await;
    cluster.await_leader().await;
    for round in 0..30 {
        let name = format!("channel-{round}");
        let applied = cluster.peers[round % 3].propose(write(&name)).await.unwrap();
        applied.outcome.unwrap();
        for reader in [(round + 1) % 3, (round + 2) % 3, round % 3] {
            let view = cluster.peers[reader].read().await;
            assert!(has_channel(&view, &name), "{name} at {reader}");
            assert!(view.revision >= applied.revision);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_writes_and_reads_all_succeed() {
    logs();
    let mut cluster = Cluster::new(3, quick()).await;
    cluster.await_leader().await;
    let work: Vec<_> = (0..300)
        .map(|i| {
            let consensus = cluster.peers[i % 3].consensus();
            let spawned = async move {
                let name = format!("channel-{i}");
                let deadline = Instant::now() + PATIENCE;
                consensus.propose_until(write(&name), deadline).await.unwrap().outcome.unwrap();
                assert!(has_channel(&consensus.read(deadline).await.unwrap(), &name));
            };
            cluster.peers[i % 3].spawn(spawned)
        })
        .collect();
    futures::future::join_all(work).await;
    // Three hundred writes and the channel that every cluster has.
    assert_eq!(cluster.peers[0].read().await.state.channels().len(), 301);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_leader_is_replaced_and_cluster_time_does_not_go_back() {
    logs();
    let mut cluster = Cluster::new(3, quick()).await;
    let leader = cluster.await_leader().await;
    cluster.peers[leader].propose(write("before")).await.unwrap();
    let old = cluster.peers[leader].consensus();
    eventually("cluster time runs", || (old.cluster_time().0 > 300).then_some(())).await;
    cluster.peers[leader].propose(write("later")).await.unwrap();
    let before = cluster.peers[(leader + 1) % 3].read().await.state.clock();
    assert!(before.0 > 300, "{before:?}");
    drop(old);

    let killed = cluster.peers.remove(leader).kill().await;
    let follower = cluster.peers[0].consensus();
    crate::raft_support::eventually_async("the leader is missed", || async {
        (!follower.hears_leader().await).then_some(())
    })
    .await;
    let began = Instant::now();
    let applied = cluster.peers[0].propose(write("after")).await.unwrap();
    applied.outcome.unwrap();
    let gap = u64::try_from(began.elapsed().as_millis()).unwrap();
    let view = cluster.peers[1].read().await;
    assert!(view.state.clock() >= before, "{:?} after {before:?}", view.state.clock());
    // Time stood still while nobody led: it can't have run further than the new leader has led.
    assert!(view.state.clock().0 <= before.0 + gap, "{:?} {gap} ms after {before:?}", view.state.clock());
    assert!(has_channel(&view, "before") && has_channel(&view, "later") && has_channel(&view, "after"));

    cluster.peers.push(killed.restart().await);
    cluster.await_leader().await;
    assert!(has_channel(&cluster.peers[2].read().await, "after"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_is_answered_with_the_first_outcome_across_a_change_of_leader() {
    logs();
    let mut cluster = Cluster::new(3, quick()).await;
    let leader = cluster.await_leader().await;
    let first = cluster.peers[leader].propose(write_with_id("once", "request-1")).await.unwrap();
    first.outcome.clone().unwrap();
    cluster.peers.remove(leader).kill().await;
    for peer in &cluster.peers {
        let again = peer.propose(write_with_id("once", "request-1")).await.unwrap();
        assert_eq!((again.revision, again.outcome), (first.revision, first.outcome.clone()));
    }
    let without_id = cluster.peers[0].propose(write("once")).await.unwrap();
    assert!(without_id.outcome.is_err(), "the channel is there already");
}

#[tokio::test(flavor = "multi_thread")]
async fn leadership_is_handed_over_within_less_than_an_election() {
    logs();
    let mut cluster = Cluster::new(3, quick()).await;
    let leader = cluster.await_leader().await;
    let next = (leader + 1) % 3;
    let (to, asked) = (cluster.peers[next].id(), cluster.peers[(leader + 2) % 3].consensus());
    cluster.peers[(leader + 2) % 3].spawn(async move { asked.transfer_leader(to).await }).await.unwrap();
    assert_eq!(cluster.await_leader().await, next);

    // A leader that is stopped in order hands over too.
    let stopped = cluster.peers.remove(next);
    let began = Instant::now();
    let stopped = stopped.stop().await;
    cluster.peers[0].propose(write("after")).await.unwrap();
    assert!(began.elapsed() < Duration::from_millis(quick().election_min_ms), "{:?}", began.elapsed());
    cluster.peers.push(stopped.restart().await);
    cluster.await_leader().await;
    assert!(has_channel(&cluster.peers[2].read().await, "after"));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_majority_nothing_is_acknowledged_and_stale_reads_are_labelled() {
    logs();
    let mut cluster = Cluster::new(3, quick()).await;
    let leader = cluster.await_leader().await;
    cluster.peers.swap(0, leader);
    let written = cluster.peers[0].propose(write("before")).await.unwrap().revision;
    for peer in &cluster.peers {
        let consensus = peer.consensus();
        assert!(peer.spawn(async move { consensus.hears_leader().await }).await);
    }
    for peer in cluster.peers.drain(1..).collect::<Vec<_>>() {
        peer.kill().await;
    }
    // Its lease isn't over yet, so openraft takes it in: nobody can say what becomes of it, although every later try is
    // refused for certain.
    let consensus = cluster.peers[0].consensus();
    let deadline = Instant::now() + Duration::from_secs(7);
    let doubtful = async move { consensus.propose_until(write_with_id("doubtful", "request-2"), deadline).await };
    let error = cluster.peers[0].spawn(doubtful).await.unwrap_err();
    assert!(matches!(error, ProposeError::Unknown { .. }), "{error}");
    let error = cluster.peers[0].propose_once(write("refused")).await.unwrap_err();
    assert!(matches!(error, ProposeError::NotProposed { reason: NotProposed::QuorumLost }), "{error}");
    let consensus = cluster.peers[0].consensus();
    let deadline = Instant::now() + Duration::from_secs(2);
    let error = cluster.peers[0].spawn(async move { consensus.read(deadline).await }).await.unwrap_err();
    assert!(matches!(error, ReadError::NotConfirmed { .. } | ReadError::TimedOut), "{error}");
    let consensus = cluster.peers[0].consensus();
    assert!(!cluster.peers[0].spawn(async move { consensus.hears_leader().await }).await);
    let stale = cluster.peers[0].consensus().state();
    assert!(stale.revision >= written && has_channel(&stale, "before") && !has_channel(&stale, "refused"));
}

#[tokio::test(flavor = "multi_thread")]
async fn everybody_restarted_at_once_still_has_everything() {
    logs();
    let mut cluster = Cluster::new(3, small_snapshots()).await;
    cluster.await_leader().await;
    for i in 0..60 {
        cluster.peers[i % 3].propose(write(&format!("channel-{i}"))).await.unwrap().outcome.unwrap();
    }
    let mut stopped = Vec::new();
    for peer in cluster.peers.drain(..).collect::<Vec<_>>() {
        stopped.push(peer.kill().await);
    }
    for peer in stopped {
        cluster.peers.push(peer.restart().await);
    }
    cluster.await_leader().await;
    for peer in &cluster.peers {
        let view = peer.read().await;
        assert!((0..60).all(|i| has_channel(&view, &format!("channel-{i}"))));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_is_too_large_is_not_proposed() {
    logs();
    let cluster = Cluster::new(1, quick()).await;
    let mut proposal = write("large");
    proposal.reason = Some("x".repeat(2 << 20));
    let error = cluster.peers[0].propose(proposal).await.unwrap_err();
    assert!(matches!(error, ProposeError::NotProposed { reason: NotProposed::TooLarge { .. } }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_cluster_appends_nothing() {
    logs();
    let mut cluster = Cluster::new(3, quick()).await;
    let leader = cluster.await_leader().await;
    let log = || {
        let status = cluster.peers[leader].consensus().status();
        (status.term, status.last_log, status.log_entries)
    };
    let before = log();
    let heard = || {
        let members = cluster.peers[leader].consensus().members_here();
        members.iter().all(|member| member.last_heard_ms.is_some()).then_some(())
    };
    // Ten heartbeats long.
    let deadline = Instant::now() + Duration::from_secs(1);
    while Instant::now() < deadline {
        eventually("the leader hears of all", heard).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(log(), before);
}
