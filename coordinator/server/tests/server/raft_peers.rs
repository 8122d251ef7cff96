//! Peers that come, go, lose their disks, or are somebody else's.

use rollcall_coordinator::raft::{MembershipError, Observers, PeerProblem};
use rollcall_ident::{PeerId, Revision};
use rollcall_rollout::{Command, Proposal};

use crate::raft_support::{
    Cluster, TestPeer, eventually, eventually_async, has_channel, logs, origin, quick, small_snapshots, write,
};

async fn voters(peer: &TestPeer) -> Vec<PeerId> {
    peer.members().await.into_iter().filter(|member| member.voter).map(|member| member.peer).collect()
}

/// What the leader sees wrong with a peer.
async fn problem_of(cluster: &mut Cluster, peer: PeerId) -> PeerProblem {
    let leader = cluster.await_leader().await;
    let leader = &cluster.peers[leader];
    eventually_async("the leader sees what is wrong", || async {
        let members = leader.members().await;
        let problem = members.into_iter().find(|member| member.peer == peer)?.problem?;
        (!matches!(problem, PeerProblem::Unreachable { .. })).then_some(problem)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_peer_behind_a_purged_log_gets_a_snapshot() {
    logs();
    let mut cluster = Cluster::new(3, small_snapshots()).await;
    let leader = cluster.await_leader().await;
    // Long reasons are in the history, and make the snapshot several chunks large.
    let reason = Some("because ".repeat(5_000));
    for i in 0..60 {
        let proposal = Proposal { reason: reason.clone(), ..write(&format!("channel-{i}")) };
        cluster.peers[leader].propose(proposal).await.unwrap().outcome.unwrap();
    }
    let status = {
        let leader = cluster.peers[leader].consensus();
        eventually("the log is purged behind a snapshot", || {
            let status = leader.status();
            (status.snapshot >= Revision(40) && status.log_entries < 40).then_some(status)
        })
        .await
    };
    let address = cluster.start_blank().await;
    let added = cluster.add((leader + 1) % 3, &address).await.unwrap();
    assert!(added > PeerId(60), "an id is an index of the log: {added}");
    let new = &cluster.peers[3];
    assert_eq!(new.id(), added);
    let view = new.read().await;
    assert_eq!(voters(new).await.len(), 4);
    assert!((0..60).all(|i| has_channel(&view, &format!("channel-{i}"))));
    assert!(new.consensus().status().snapshot >= status.snapshot, "it came by a snapshot");
    assert!(new.consensus().snapshot_bytes() > Some(0), "and says how large it is");
    // The events behind the snapshot come with it.
    let consensus = new.consensus();
    eventually("the history is filled", || (consensus.history().applied() >= view.revision).then_some(())).await;
    let events = new.spawn(async move {
        let (mut records, mut next) = (0, Revision(1));
        while next <= consensus.history().applied() {
            let page = consensus.history().read(next, 1_000).await.unwrap();
            records += page.records.len();
            next = page.next;
        }
        records
    });
    assert!(events.await >= 60);
}

#[tokio::test(flavor = "multi_thread")]
async fn peers_are_added_and_removed_through_any_peer() {
    logs();
    let mut cluster = Cluster::new(1, quick()).await;
    assert!(matches!(cluster.remove(0, PeerId(1)).await, Err(MembershipError::LastVoter { .. })));
    for count in 2..=4 {
        let address = cluster.start_blank().await;
        let id = cluster.add(count - 2, &address).await.unwrap();
        assert_eq!(cluster.peers[count - 1].id(), id);
        assert_eq!(voters(&cluster.peers[0]).await.len(), count);
        // Adding what is there already changes nothing.
        assert_eq!(cluster.add(0, &address).await, Ok(id));
    }
    assert_eq!(cluster.remove(0, PeerId(999)).await, Err(MembershipError::NoSuchPeer { peer: PeerId(999) }));

    // The leader itself goes: another takes over and removes it.
    let leader = cluster.await_leader().await;
    let id = cluster.peers[leader].id();
    let asked = (leader + 1) % 4;
    cluster.remove(asked, id).await.unwrap();
    let gone = cluster.peers.remove(leader);
    cluster.await_leader().await;
    assert_eq!(voters(&cluster.peers[0]).await.len(), 3);
    let view = cluster.peers[0].read().await;
    assert!(!view.state.peers().contains_key(&id));
    cluster.peers[0].propose(write("after")).await.unwrap().outcome.unwrap();

    // It runs on, bothers nobody, and learns why nobody talks to it.
    let term = cluster.peers[0].leadership().unwrap().term;
    let removed = gone.consensus();
    eventually("the removed peer is told", || {
        removed.members_here().iter().any(|member| member.problem == Some(PeerProblem::WeAreRemoved)).then_some(())
    })
    .await;
    assert_eq!(cluster.peers[0].leadership().unwrap().term, term);
    // Its id is gone for good.
    let error = cluster.add(0, &gone.address).await.unwrap_err();
    assert_eq!(error, MembershipError::WasRemoved { address: gone.address.clone(), peer: id });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_others_depend_on_is_not_removed() {
    logs();
    let mut cluster = Cluster::new(3, quick()).await;
    let leader = cluster.await_leader().await;
    cluster.peers.swap(0, leader);
    let (killed, live) = (cluster.peers[2].id(), cluster.peers[1].id());
    cluster.peers.remove(2).kill().await;
    let consensus = cluster.peers[0].consensus();
    eventually("the leader misses it", || {
        let members = consensus.members_here();
        let heard = members.iter().find(|member| member.peer == killed)?.last_heard_ms?;
        (heard > quick().election_max_ms).then_some(())
    })
    .await;
    let error = cluster.remove(0, live).await.unwrap_err();
    assert_eq!(error, MembershipError::WouldLoseQuorum { peer: live, live: 1, voters: 2 });
    // The dead one may go.
    cluster.remove(1, killed).await.unwrap();
    assert_eq!(voters(&cluster.peers[0]).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_lost_its_disk_is_refused_until_it_is_a_new_peer() {
    logs();
    let mut cluster = Cluster::new(3, quick()).await;
    let leader = cluster.await_leader().await;
    let lost = (leader + 1) % 3;
    let id = cluster.peers[lost].id();
    let stopped = cluster.peers.remove(lost).kill().await;
    let address = stopped.address.clone();
    let empty = stopped.restart_with(&cluster.new_disk()).await;
    assert_eq!(problem_of(&mut cluster, id).await, PeerProblem::Blank { peer: id });
    let text = PeerProblem::Blank { peer: id }.to_string();
    assert!(text.contains(&format!("remove-peer {id}")) && text.contains("add-peer"), "{text}");
    assert!(empty.peer.consensus().is_none(), "it must not take part");
    // Nothing is lost meanwhile.
    cluster.peers[0].propose(write("meanwhile")).await.unwrap().outcome.unwrap();

    let error = cluster.add(0, &address).await.unwrap_err();
    assert_eq!(error, MembershipError::LostDisk { address: address.clone(), peer: id });
    cluster.remove(0, id).await.unwrap();
    let new_id = cluster.add(0, &address).await.unwrap();
    assert!(new_id > id);
    cluster.peers.push(empty);
    cluster.await_leader().await;
    assert_eq!(voters(&cluster.peers[0]).await.len(), 3);
    assert!(has_channel(&cluster.peers[2].read().await, "meanwhile"));
}

#[tokio::test(flavor = "multi_thread")]
async fn another_clusters_peer_is_refused_and_keeps_its_data() {
    logs();
    let mut ours = Cluster::new(3, quick()).await;
    let mut theirs = Cluster::new(1, quick()).await;
    theirs.peers[0].propose(write("theirs")).await.unwrap().outcome.unwrap();
    // The peer that has the same id as theirs, so that only the cluster tells them apart.
    let id = PeerId(1);
    assert_eq!(ours.peers[0].id(), id);
    let (consensus, to) = (ours.peers[1].consensus(), ours.peers[1].id());
    ours.await_leader().await;
    ours.peers[1].spawn(async move { consensus.transfer_leader(to).await }).await.unwrap();
    let stopped = ours.peers.remove(0).kill().await;
    // It is started with the other cluster's data directory.
    let foreign = theirs.peers.remove(0).kill().await;
    let cluster = foreign.dir.clone();
    let foreign = stopped.restart_with(&cluster).await;
    let their_id = foreign.consensus().cluster_id();
    assert_eq!(problem_of(&mut ours, id).await, PeerProblem::SomebodyElse { found: PeerId(1), cluster: their_id });

    let other = foreign.address.clone();
    let error = ours.add(0, &other).await.unwrap_err();
    let our_id = ours.peers[0].consensus().cluster_id();
    let expected = MembershipError::OtherCluster { address: other, theirs: their_id, peer: PeerId(1), ours: our_id };
    assert_eq!(error, expected);
    let text = error.to_string();
    assert!(text.contains(&their_id.to_string()) && text.contains(&our_id.to_string()), "{text}");
    // Both clusters are as they were.
    let view = foreign.read().await;
    assert!(has_channel(&view, "theirs"));
    assert!(!has_channel(&ours.peers[0].read().await, "theirs"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_with_another_peers_data_directory_is_refused() {
    logs();
    let mut cluster = Cluster::new(3, quick()).await;
    let leader = cluster.await_leader().await;
    cluster.peers.swap(0, leader);
    let cluster_id = cluster.peers[0].consensus().cluster_id();
    let (second, third) = (cluster.peers[1].id(), cluster.peers[2].id());
    let third_disk = cluster.peers.pop().unwrap().kill().await;
    let second_address = cluster.peers.pop().unwrap().kill().await;
    let confused = second_address.restart_with(&third_disk.dir).await;
    assert_eq!(confused.id(), third);
    let leader = cluster.peers[0].consensus();
    let seen = eventually("the leader sees who answers there", || {
        let problem = leader.members_here().into_iter().find(|member| member.peer == second)?.problem?;
        (!matches!(problem, PeerProblem::Unreachable { .. })).then_some(problem)
    })
    .await;
    assert_eq!(seen, PeerProblem::SomebodyElse { found: third, cluster: cluster_id });
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_addition_is_repeated_and_gives_a_new_id() {
    logs();
    let mut cluster = Cluster::new(3, quick()).await;
    let leader = cluster.await_leader().await;
    let address = cluster.start_blank().await;
    // An earlier try got as far as the registry.
    let register =
        Proposal { actor: origin().actor, ..Proposal::internal(Command::AddPeer { address: address.clone() }) };
    let registered = cluster.peers[leader].propose(register).await.unwrap();
    registered.outcome.unwrap();
    let added = cluster.add(leader, &address).await.unwrap();
    assert!(added.0 > registered.revision.0, "a blank peer may have lost the earlier id's data");
    let view = cluster.peers[0].read().await;
    assert!(!view.state.peers().contains_key(&PeerId(registered.revision.0)));
    cluster.peers[3].read().await;
    assert_eq!(voters(&cluster.peers[3]).await.len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_addition_whose_leader_dies_can_be_repeated_elsewhere() {
    logs();
    let mut cluster = Cluster::new(3, quick()).await;
    let leader = cluster.await_leader().await;
    let address = cluster.start_blank().await;
    let new = cluster.peers.pop().unwrap();
    let (consensus, to_add) = (cluster.peers[leader].consensus(), address.clone());
    let adding = cluster.peers[leader].begin(async move { consensus.add_peer(&to_add, origin()).await });
    // Between the join and the vote, which is three syncs of a majority later: without a look every so often.
    new.peer.running().wait_for(Option::is_some).await.unwrap();
    cluster.peers.remove(leader).kill().await;
    assert!(adding.await.is_err(), "it was killed in the middle");
    cluster.await_leader().await;
    let added = eventually_async("the addition goes through", || async { cluster.add(1, &address).await.ok() }).await;
    assert_eq!(new.id(), added, "it has its data, so it keeps its id");
    assert_eq!(voters(&cluster.peers[0]).await.len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_peers_with_one_data_directory_and_bad_addresses_are_refused() {
    logs();
    let cluster = Cluster::new(1, quick()).await;
    let error = cluster.add(0, "no port").await.unwrap_err();
    assert!(matches!(error, MembershipError::BadAddress { .. }), "{error}");
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let error = cluster.add(0, &unused).await.unwrap_err();
    assert!(matches!(&error, MembershipError::Unreachable { address, .. } if *address == unused), "{error}");

    let config = rollcall_coordinator::raft::PeerConfig {
        data_dir: cluster.peers[0].dir.clone(),
        address: unused,
        tuning: quick(),
        observers: Observers::default(),
    };
    let error = rollcall_coordinator::raft::Peer::start(config).await.map(drop).unwrap_err();
    assert!(error.to_string().contains("in use by another process"), "{error}");
}
