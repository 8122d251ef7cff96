//! What people say to a rollout: told to a peer that doesn't lead, read from a third.

use std::time::Duration;

use rollcall_proto::v1;
use rollcall_proto::v1::RolloutStatus;
use tonic::Code;

use crate::app_support::agent::{Identity, R1, R2, Session};
use crate::app_support::cluster::{Cluster, TestPeer, spec, start_rollout};
use crate::app_support::follow::Follower;
use crate::app_support::{eventually, in_time, refused};

const GROUP: &str = "web.default";

async fn declare(peer: &TestPeer, policy: v1::Policy) {
    let policy = v1::Policy { min_healthy_time_ms: Some(100), ..policy };
    let spec = v1::GroupSpec { policy: Some(policy), ..spec(GROUP) };
    peer.groups().await.apply(v1::ApplyGroupRequest { spec: Some(spec), options: None }).await.unwrap();
}

fn to(rollout: &v1::Rollout) -> v1::RolloutVerbRequest {
    v1::RolloutVerbRequest { rollout_id: rollout.rollout_id.clone(), ..v1::RolloutVerbRequest::default() }
}

fn by(actor: &str) -> Option<v1::WriteOptions> {
    Some(v1::WriteOptions { actor: actor.to_owned(), ..v1::WriteOptions::default() })
}

/// Agents that never fetch anything: their rollout waits where it stands.
async fn idle_members(peer: &TestPeer, count: u32) -> Vec<Session> {
    let mut sessions = Vec::new();
    for n in 1..=count {
        let session = Session::open(&peer.address, Identity::new(n, GROUP).hello()).await.unwrap();
        session.beat();
        sessions.push(session);
    }
    sessions
}

async fn becomes(peer: &TestPeer, rollout: &v1::Rollout, status: RolloutStatus) -> v1::Rollout {
    eventually(&format!("{} is {status:?}", rollout.rollout_id), || async {
        let now = peer.rollout(&rollout.rollout_id).await;
        (now.status() == status).then_some(now)
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rollout_is_paused_resumed_left_out_of_and_aborted() {
    let cluster = Cluster::of(3).await;
    let (teller, reader) = cluster.teller_and_reader().await;
    declare(teller, v1::Policy::default()).await;
    let _members = idle_members(reader, 2).await;
    let rollout = start_rollout(teller, GROUP, R2).await;
    let mut verbs = teller.rollouts().await;
    let until = in_time(Duration::from_secs(3600));
    verbs.pause(v1::RolloutVerbRequest { until: Some(until), ..to(&rollout) }).await.unwrap();
    let seen = reader.rollout(&rollout.rollout_id).await;
    assert_eq!((seen.status(), seen.resumes_at.unwrap().seconds), (RolloutStatus::Paused, until.seconds));
    verbs.resume(v1::RolloutVerbRequest { until: Some(until), ..to(&rollout) }).await.unwrap();
    let seen = reader.rollout(&rollout.rollout_id).await;
    assert_eq!((seen.status(), seen.resumes_at), (RolloutStatus::Running, None));
    assert_eq!(seen.pauses_at.unwrap().seconds, until.seconds);
    refused(verbs.resume(to(&rollout)).await, Code::FailedPrecondition, "not_in_this_state");

    refused(verbs.skip(to(&rollout)).await, Code::InvalidArgument, "invalid_argument");
    let skip = |node: &str| v1::RolloutVerbRequest { node: node.to_owned(), ..to(&rollout) };
    refused(verbs.skip(skip("web-9")).await, Code::NotFound, "unknown_node");
    verbs.skip(skip("web-2")).await.unwrap();
    let seen = reader.rollout(&rollout.rollout_id).await;
    let step = seen.steps.iter().find(|step| step.node_name == "web-2").unwrap();
    assert_eq!((step.phase(), step.skipped.as_str()), (v1::Phase::Skipped, "operator"));
    assert_eq!(reader.group(GROUP).await.left_out_nodes, ["web-2"]);

    refused(verbs.next(to(&rollout)).await, Code::FailedPrecondition, "not_manual");
    refused(verbs.promote(to(&rollout)).await, Code::FailedPrecondition, "not_in_this_state");
    refused(verbs.approve(to(&rollout)).await, Code::FailedPrecondition, "not_in_this_state");
    refused(verbs.retry(to(&rollout)).await, Code::FailedPrecondition, "not_in_this_state");
    verbs.abort(to(&rollout)).await.unwrap();
    becomes(reader, &rollout, RolloutStatus::RolledBack).await;
    refused(verbs.stop(to(&rollout)).await, Code::FailedPrecondition, "rollout_ended");
    let undo = v1::UndoRolloutRequest { group: GROUP.to_owned(), ..v1::UndoRolloutRequest::default() };
    refused(verbs.undo(undo).await, Code::FailedPrecondition, "nothing_to_undo");
    let ghost = v1::RolloutVerbRequest { rollout_id: "r9999".to_owned(), ..v1::RolloutVerbRequest::default() };
    refused(verbs.pause(ghost).await, Code::NotFound, "unknown_rollout");
    let moved = Some(v1::WriteOptions { expected_revision: 1, ..v1::WriteOptions::default() });
    let again = start_rollout(teller, GROUP, R2).await;
    let stop = v1::RolloutVerbRequest { options: moved, ..to(&again) };
    refused(verbs.stop(stop).await, Code::Aborted, "revision_moved");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_person_approves_and_each_step_has_its_word() {
    let cluster = Cluster::of(3).await;
    let (teller, reader) = cluster.teller_and_reader().await;
    let policy = v1::Policy { approval_required: Some(true), mode: Some("manual".to_owned()), ..Default::default() };
    declare(teller, policy).await;
    let _members = idle_members(reader, 1).await;
    let mut verbs = teller.rollouts().await;
    let start = v1::StartRolloutRequest {
        group: GROUP.to_owned(),
        target: R2.to_owned(),
        options: by("alice"),
        ..v1::StartRolloutRequest::default()
    };
    let rollout = verbs.start(start.clone()).await.unwrap().into_inner().rollout.unwrap();
    assert_eq!(reader.rollout(&rollout.rollout_id).await.status(), RolloutStatus::AwaitingApproval);
    let approve = |actor| v1::RolloutVerbRequest { options: by(actor), ..to(&rollout) };
    refused(verbs.approve(approve("alice")).await, Code::FailedPrecondition, "approval_by_same_person");
    verbs.approve(approve("bob")).await.unwrap();
    let seen = reader.rollout(&rollout.rollout_id).await;
    assert_eq!((seen.status(), seen.approved_by.as_str()), (RolloutStatus::Running, "bob"));
    verbs.next(to(&rollout)).await.unwrap();
    refused(verbs.next(to(&rollout)).await, Code::AlreadyExists, "already_so");
    verbs.stop(to(&rollout)).await.unwrap();
    assert_eq!(reader.rollout(&rollout.rollout_id).await.status(), RolloutStatus::Stopped);
    let rollout = verbs.start(start).await.unwrap().into_inner().rollout.unwrap();
    verbs.deny(to(&rollout)).await.unwrap();
    assert_eq!(reader.rollout(&rollout.rollout_id).await.status(), RolloutStatus::Denied);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_canary_is_promoted_and_the_whole_is_undone() {
    let cluster = Cluster::of(3).await;
    let (teller, reader) = cluster.teller_and_reader().await;
    declare(teller, v1::Policy { canary: Some(1), ..v1::Policy::default() }).await;
    let _members: Vec<Follower> =
        (1..=2).map(|n| Follower::start(Identity::new(n, GROUP), cluster.addresses())).collect();
    eventually("both are members", || async { (reader.group(GROUP).await.members.len() == 2).then_some(()) }).await;
    // Undo leads to where the group has been once.
    let first = start_rollout(teller, GROUP, R1).await;
    becomes(reader, &first, RolloutStatus::Succeeded).await;
    let plan = v1::PlanRolloutRequest { group: GROUP.to_owned(), target: R2.to_owned(), options: None };
    let plan = reader.rollouts().await.plan(plan).await.unwrap().into_inner();
    let rounds: Vec<_> = plan.rounds.iter().map(|round| (round.batch, round.awaits_promotion)).collect();
    assert_eq!(rounds, [(0, false), (1, true)]);
    assert_eq!(plan.window, None, "it has neither windows nor freezes");

    let rollout = start_rollout(teller, GROUP, R2).await;
    let seen = becomes(reader, &rollout, RolloutStatus::AwaitingPromotion).await;
    let done: Vec<_> = seen.steps.iter().map(|step| (step.phase(), step.batch)).collect();
    assert_eq!(done, [(v1::Phase::Succeeded, Some(0)), (v1::Phase::Queued, None)]);
    teller.rollouts().await.promote(v1::RolloutVerbRequest { full: true, ..to(&rollout) }).await.unwrap();
    becomes(reader, &rollout, RolloutStatus::Succeeded).await;
    assert!(reader.group(GROUP).await.typical_step_ms.is_some(), "a step has shown how long it takes");

    let undo = v1::UndoRolloutRequest { group: GROUP.to_owned(), ..v1::UndoRolloutRequest::default() };
    let back = teller.rollouts().await.undo(undo).await.unwrap().into_inner().rollout.unwrap();
    assert_eq!((back.target.as_str(), back.kind.as_str()), (R1, "rollback"));
    becomes(reader, &back, RolloutStatus::AwaitingPromotion).await;
    // Half of it is back already; those return to R2, whence they came.
    teller.rollouts().await.abort(to(&back)).await.unwrap();
    let seen = becomes(reader, &back, RolloutStatus::RolledBack).await;
    assert!(seen.going_back_since.is_some() && seen.going_back_why.contains("aborted"), "{seen:?}");
    let group = reader.group(GROUP).await;
    assert!(group.members.iter().all(|member| member.release == R2), "{:?}", group.members);
}
