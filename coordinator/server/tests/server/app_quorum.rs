//! The quorum guard with real peers: each runs on the machine of one of the agents.

use rollcall_proto::v1;

use crate::app_support::agent::{Identity, R1, R2};
use crate::app_support::cluster::{Cluster, declare, start_rollout};
use crate::app_support::eventually;
use crate::app_support::follow::Follower;

const GROUP: &str = "web.default";

/// There and back, so that leadership has to move by whoever leads by then, more than once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leadership_moves_off_each_machine_whose_turn_it_is() {
    let cluster = Cluster::of(3).await;
    declare(&cluster.peers[0], GROUP).await;
    let _agents: Vec<Follower> = (0..3)
        .map(|n| {
            let peer = &cluster.peers[n];
            let identity = Identity { hosts_peer: peer.address.clone(), ..Identity::new(n as u32 + 1, GROUP) };
            Follower::start(identity, cluster.addresses())
        })
        .collect();
    let hosted = eventually("all agents have a session", || async {
        let nodes = cluster.peers[0].nodes().await.list(v1::ListNodesRequest::default()).await.unwrap().into_inner();
        let hosted: Vec<(String, u64)> = nodes
            .nodes
            .into_iter()
            .filter(|node| node.presence == "present")
            .filter_map(|node| Some((node.name.clone(), *node.hosted_peer_ids.first()?)))
            .collect();
        (hosted.len() == 3).then_some(hosted)
    })
    .await;
    for target in [R2, R1, R2] {
        let rollout = start_rollout(&cluster.peers[1], GROUP, target).await;
        eventually("the rollout's success", || async {
            let now = cluster.peers[2].rollout(&rollout.rollout_id).await;
            (now.status() == v1::RolloutStatus::Succeeded).then_some(())
        })
        .await;
    }
    let events = cluster.peers[2].events().await.list(v1::ListEventsRequest::default()).await.unwrap().into_inner();
    let (mut leader, mut stops) = (0, 0);
    for event in &events.events {
        if event.kind == "leader_changed" {
            leader = event.message.split(' ').nth(1).unwrap().parse().unwrap();
        }
        let stopped = hosted.iter().find(|(name, _)| event.message == format!("{name} stopping"));
        if let Some((name, peer)) = stopped {
            stops += 1;
            assert_ne!(leader, *peer, "{name} was stopped while its peer led");
        }
    }
    assert_eq!(stops, 9);
}
