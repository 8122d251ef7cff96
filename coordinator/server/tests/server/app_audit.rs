//! The audit trail as the API hands it out: who did what, and the chain that proves it, on every peer.

use rollcall_proto::v1;
use tonic::Status;

use crate::app_support::cluster::{Cluster, TestPeer, declare};
use crate::app_support::{eventually, reason};
use crate::storage_support::tamper;

/// The audit trail of a peer, page by page, and where it should end.
async fn trail(peer: &TestPeer) -> (Vec<v1::AuditRecord>, v1::AuditHead) {
    let (mut records, mut since_revision) = (Vec::new(), 0);
    loop {
        let request = v1::AuditRequest { since_revision, limit: 7 };
        let page = peer.events().await.audit(request).await.unwrap().into_inner();
        assert!(page.records.len() <= 7);
        assert_eq!(page.answering_peer_id, peer.peer_id());
        records.extend(page.records);
        since_revision = page.revision;
        if !page.more {
            return (records, page.head.unwrap());
        }
    }
}

/// Recomputes it from its bytes alone.
fn verify(records: &[v1::AuditRecord], head: &v1::AuditHead) -> Result<(), u64> {
    let mut hash = records[0].previous.clone().unwrap().hash;
    for record in records {
        hash = blake3::Hasher::new().update(&hash).update(&record.record).finalize().as_bytes().to_vec();
        if record.hash != hash {
            return Err(record.revision);
        }
    }
    if (records.last().unwrap().revision, &hash) == (head.revision, &head.hash) { Ok(()) } else { Err(head.revision) }
}

async fn create_channel(peer: &TestPeer, name: &str, options: v1::WriteOptions) -> Result<u64, Status> {
    let request = v1::CreateChannelRequest { name: name.to_owned(), options: Some(options) };
    Ok(peer.channels().await.create(request).await?.into_inner().revision)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_peer_hands_out_one_chain_and_a_changed_copy_is_told() {
    let mut cluster = Cluster::of(3).await;
    for n in 0..20 {
        declare(&cluster.peers[n % 3], &format!("g{n}.x")).await;
    }
    let (records, head) = trail(&cluster.peers[0]).await;
    assert_eq!(verify(&records, &head), Ok(()));
    assert_eq!(records[0].previous, Some(v1::AuditHead { revision: 0, hash: vec![0; 32] }));
    assert_eq!(
        records.iter().flat_map(|record| &record.events).filter(|event| event.kind == "group_applied").count(),
        20
    );
    for peer in &cluster.peers[1..] {
        assert_eq!(trail(peer).await, (records.clone(), head.clone()));
    }

    let changed = records[12].revision;
    cluster.peers[1].stop().await;
    let dir = cluster.peers[1].dir.clone();
    eventually("its files are closed", || async { tamper::is_closed(&dir).then_some(()) }).await;
    tamper::change_reason(&dir, changed, "nothing to see here");
    cluster.restart(1).await;
    let (records, head) = trail(&cluster.peers[1]).await;
    assert_eq!(records.iter().find(|record| record.revision == changed).unwrap().reason, "nothing to see here");
    assert_eq!(verify(&records, &head), Err(changed));
    let (records, head) = trail(&cluster.peers[2]).await;
    assert_eq!(verify(&records, &head), Ok(()));

    // What the operator is told to do.
    cluster.peers[1].stop().await;
    eventually("its files are closed", || async { tamper::is_closed(&dir).then_some(()) }).await;
    std::fs::rename(dir.join("history"), dir.join("history-aside")).unwrap();
    cluster.restart(1).await;
    assert_eq!(trail(&cluster.peers[1]).await.0, trail(&cluster.peers[2]).await.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_change_says_who_and_why() {
    let cluster = Cluster::of(1).await;
    let peer = &cluster.peers[0];
    let named = v1::WriteOptions { actor: "ann@desk".into(), reason: "a new line".into(), ..Default::default() };
    let by_name = create_channel(peer, "nightly", named).await.unwrap();
    let by_address = create_channel(peer, "edge", v1::WriteOptions::default()).await.unwrap();
    for actor in ["rollcall", "ann\nbob"] {
        let options = v1::WriteOptions { actor: actor.into(), ..Default::default() };
        let refused = create_channel(peer, "beta", options).await.unwrap_err();
        assert_eq!(reason(&refused), "invalid_argument", "{actor:?}: {refused}");
    }
    let (records, _) = trail(peer).await;
    let who = |revision| {
        let record = records.iter().find(|record| record.revision == revision).unwrap();
        (record.actor.as_str(), record.reason.as_str(), record.at.is_some())
    };
    assert_eq!(who(by_name), ("ann@desk", "a new line", true));
    assert_eq!(who(by_address), ("127.0.0.1", "", true));
    assert!(records.iter().all(|record| !record.actor.is_empty()), "{records:?}");
}
