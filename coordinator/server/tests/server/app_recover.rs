//! A cluster that was recovered from what one peer has: agents of the lost majority meet it.

use rollcall_coordinator::config::{Origin, RefoundArgs};
use rollcall_coordinator::refound;
use rollcall_proto::v1;

use crate::app_support::agent::{Identity, NoSession, R2, Session, prefetched};
use crate::app_support::cluster::{Cluster, TestPeer, declare, start_rollout};
use crate::app_support::eventually;

const GROUP: &str = "web.default";

/// What the numbers of a recovered cluster begin at.
const FIRST_RECOVERED: u64 = 1_000_000_000_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_moves_by_itself_and_fences_go_on_above_whatever_was_lost() {
    let mut cluster = Cluster::of(1).await;
    let peer = &cluster.peers[0];
    declare(peer, GROUP).await;
    let mut session = Session::open(&peer.address, Identity::new(1, GROUP).hello()).await.unwrap();
    session.beat();
    let rollout = start_rollout(peer, GROUP, R2).await;
    session.report(prefetched(GROUP, R2)).await;
    let before = session.orders_until(|group| group.step.is_some()).await.step.unwrap();
    let (dir, address) = (peer.dir.clone(), peer.address.clone());
    drop(session);
    cluster.peers[0].stop().await;

    let origin = Origin { actor: "ann".to_owned(), reason: Some("burned".to_owned()) };
    let args = RefoundArgs { advertise: None, origin };
    let folder = dir.clone();
    let made = eventually("the folder is free", || async {
        let (folder, args) = (folder.clone(), args.clone());
        tokio::task::spawn_blocking(move || refound::peer(&folder, args, true)).await.unwrap().ok()
    })
    .await;
    cluster.peers[0] = TestPeer::start(dir, &address).await;
    let peer = &cluster.peers[0];
    eventually("it leads", || async { (peer.status().await.condition == "serving").then_some(()) }).await;
    assert_eq!(peer.status().await.cluster_id, made["cluster_id"]);

    // The agent had got further with the lost majority than this log knows: a grant of a later revision.
    let mut hello = Identity::new(1, GROUP).hello();
    hello.highest_fence = before.fence + 5_000;
    hello.cluster_id = "00000000-0000-4000-8000-00000000000c".to_owned();
    let refused = Session::open(&peer.address, hello.clone()).await.err();
    assert!(matches!(refused, Some(NoSession::Refused(refused)) if refused.reason == "other_cluster"));
    // An agent of the former cluster is one of this.
    hello.cluster_id = made["former_cluster_id"].as_str().unwrap().to_owned();
    let mut session = Session::open(&peer.address, hello.clone()).await.unwrap();
    assert_eq!(session.welcome.former_cluster_ids, [hello.cluster_id]);
    assert_eq!(made["cluster_id"], session.welcome.cluster_id);
    session.beat();
    let waits = || async { peer.rollout(&rollout.rollout_id).await.waiting_on.map(|it| it.reason).unwrap_or_default() };
    eventually("everything is frozen", || async { (waits().await == "frozen").then_some(()) }).await;
    let second = Identity::new(2, GROUP);
    let mut fresh = Session::open(&peer.address, second.hello()).await.unwrap();
    fresh.beat();
    fresh.report(prefetched(GROUP, R2)).await;
    // The token that is held is the former cluster's; no other one is granted.
    let tokens =
        || async { peer.tokens().await.list(v1::ListTokensRequest::default()).await.unwrap().into_inner().tokens };
    assert!(tokens().await.iter().all(|token| token.fence == before.fence), "{:?}", tokens().await);

    // The operator has looked: the old token is of the past, and the next one is above all that any agent has seen.
    let revoke = v1::RevokeTokenRequest { node: "web-1".to_owned(), force: true, options: None };
    if !tokens().await.is_empty() {
        peer.tokens().await.revoke(revoke).await.unwrap();
    }
    let freeze_id = made["freeze_id"].as_str().unwrap().to_owned();
    peer.windows().await.lift_freeze(v1::LiftFreezeRequest { freeze_id, options: None }).await.unwrap();
    let verb = |rollout_id: &str| v1::RolloutVerbRequest { rollout_id: rollout_id.to_owned(), ..Default::default() };
    // A revoked token has paused it.
    let _ = peer.rollouts().await.resume(verb(&rollout.rollout_id)).await;
    session.report(prefetched(GROUP, R2)).await;
    let granted = eventually("a token is granted", || async {
        tokens().await.into_iter().find(|token| token.fence != before.fence)
    })
    .await;
    assert!(granted.fence > FIRST_RECOVERED && granted.fence > before.fence + 5_000, "{granted:?}");
}
