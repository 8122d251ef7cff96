//! A change of the voters whose leader goes between its two steps.

use std::collections::BTreeSet;
use std::time::Duration;

use openraft::EntryPayload;
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep};
use tonic::transport::Server;

use super::{Consensus, Origin, Peer, PeerConfig, Tuning};
use crate::storage::types::Membership;

const PATIENCE: Duration = Duration::from_secs(30);

async fn start(disk: &std::path::Path) -> Peer {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let tuning = Tuning { election_min_ms: 500, election_max_ms: 1_000, heartbeat_ms: 100, ..Tuning::default() };
    let config =
        PeerConfig { data_dir: disk.to_owned(), address, tuning, observers: super::consensus::Observers::default() };
    let peer = Peer::start(config).await.unwrap();
    let incoming = tonic::transport::server::TcpIncoming::from(listener);
    tokio::spawn(Server::builder().add_service(peer.peer_service()).serve_with_incoming(incoming));
    peer
}

fn voter_sets(consensus: &Consensus) -> Vec<BTreeSet<u64>> {
    consensus.inner.addresses.membership().get_joint_config().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_leader_finishes_what_was_left_half_done() {
    let disks = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let (first, second) = (start(disks[0].path()).await, start(disks[1].path()).await);
    first.init_cluster(&[second.address().to_owned()], Origin::default()).await.unwrap();
    let (first, second) = (first.consensus().unwrap(), second.consensus().unwrap());
    let both = BTreeSet::from([first.peer_id().0, second.peer_id().0]);
    assert_eq!(voter_sets(&first), std::slice::from_ref(&both));

    // The first step alone: both sets of voters are asked from here on.
    let membership = first.inner.addresses.membership();
    let nodes = membership.nodes().map(|(id, node)| (*id, node.clone())).collect::<std::collections::BTreeMap<_, _>>();
    let joint = Membership::new(vec![BTreeSet::from([first.peer_id().0]), both.clone()], nodes).unwrap();
    first.inner.raft.append_membership(joint, EntryPayload::Blank, []).await.unwrap();
    assert_eq!(voter_sets(&first).len(), 2);

    first.transfer_leader(second.peer_id()).await.unwrap();
    let deadline = Instant::now() + PATIENCE;
    while voter_sets(&first) != std::slice::from_ref(&both) {
        assert!(Instant::now() < deadline, "{:?}", voter_sets(&first));
        sleep(Duration::from_millis(5)).await;
    }
    first.shutdown().await;
    second.shutdown().await;
}
