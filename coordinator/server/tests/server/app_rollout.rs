//! A whole rollout through three peers, and what leads to it.

use rollcall_proto::v1;
use rollcall_proto::v1::step_report;

use crate::app_support::agent::{Identity, R1, R2, Session, on_step, prefetched};
use crate::app_support::cluster::{Cluster, declare, start_rollout};
use crate::app_support::follow::Follower;

const GROUP: &str = "web.default";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_agents_on_three_peers_are_updated_one_after_the_other() {
    let cluster = Cluster::of(3).await;
    declare(&cluster.peers[1], GROUP).await;
    let agents: Vec<Follower> = (0..3)
        .map(|n| {
            let mut peers = cluster.addresses();
            peers.rotate_left(n);
            Follower::start(Identity::new(n as u32 + 1, GROUP), peers)
        })
        .collect();
    present(&cluster, 3).await;
    let rollout = start_rollout(&cluster.peers[2], GROUP, R2).await;

    let request = v1::WatchRolloutRequest { rollout_id: rollout.rollout_id.clone(), group: String::new() };
    let mut watch = cluster.peers[1].rollouts().await.watch(request).await.unwrap().into_inner();
    let mut last = rollout;
    while let Some(change) = tokio::time::timeout(crate::app_support::PATIENCE, watch.message()).await.unwrap().unwrap()
    {
        last = change.rollout.unwrap();
        let holders = last.steps.iter().filter(|step| step.holds_token).count();
        assert!(holders <= 1, "max_parallel is 1: {:?}", last.steps);
    }
    assert_eq!(last.status(), v1::RolloutStatus::Succeeded, "the watch ends with the rollout");
    let order: Vec<&str> = last.steps.iter().map(|step| step.node_name.as_str()).collect();
    assert_eq!(order, ["web-1", "web-2", "web-3"]);
    for (n, agent) in agents.iter().enumerate() {
        assert_eq!(agent.hosts(), [cluster.peers[n].address.clone()], "nobody had to go elsewhere");
        let expected = ["Accepted", "Prepared", "Drained", "Stopped", "Installed", "Started", "Finished"];
        assert_eq!(agent.events(), expected, "web-{} did each thing once", n + 1);
    }
    tokens_never_overlapped(&cluster).await;
    let group = v1::GetGroupRequest { name: GROUP.to_owned(), options: None };
    let group = cluster.peers[0].groups().await.get(group).await.unwrap().into_inner().group.unwrap();
    assert!(group.members.iter().all(|member| member.release == R2), "{:?}", group.members);
}

async fn present(cluster: &Cluster, count: usize) {
    crate::app_support::eventually("all agents have a session", || async {
        let nodes = cluster.peers[0].nodes().await.list(v1::ListNodesRequest::default()).await.unwrap().into_inner();
        let present = nodes.nodes.iter().filter(|node| node.presence == "present").count();
        (present == count).then_some(())
    })
    .await;
}

async fn tokens_never_overlapped(cluster: &Cluster) {
    let events = cluster.peers[2].events().await.list(v1::ListEventsRequest::default()).await.unwrap().into_inner();
    let mut held = 0;
    for event in &events.events {
        match event.kind.as_str() {
            "token_granted" => held += 1,
            "token_ended" => held -= 1,
            _ => {}
        }
        assert!((0..=1).contains(&held), "{event:?}");
    }
    assert_eq!(events.events.iter().filter(|event| event.kind == "token_granted").count(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orders_are_pushed_after_a_grant_and_answers_are_not_asked_for() {
    let cluster = Cluster::of(3).await;
    let leader = cluster.leader().await;
    let host = &cluster.peers[(leader + 1) % 3];
    declare(host, GROUP).await;
    // Its heartbeats are answered by nothing: whatever comes was pushed.
    let mut session = Session::open(&host.address, Identity::new(1, GROUP).hello()).await.unwrap();
    session.beat();
    start_rollout(&cluster.peers[leader], GROUP, R2).await;
    session.orders_until(|group| group.prefetch == R2).await;

    let begun = std::time::Instant::now();
    assert_eq!(session.report(prefetched(GROUP, R2)).await.refusal, "");
    let orders = session.orders_until(|group| group.step.is_some()).await;
    let taken = begun.elapsed();
    let step = orders.step.clone().unwrap();
    assert_eq!((step.go(), step.phase(), step.from.as_str()), (v1::Go::Prepare, v1::Phase::Granted, R1));
    // Two commits, of the report and of the grant: some milliseconds. Not asserted, the machine is shared.
    println!("report → grant → orders: {taken:?}");

    let accepted = on_step(&orders, step_report::Event::Accepted(v1::Accepted {}));
    assert_eq!(session.report(accepted).await.refusal, "");
    let orders =
        session.orders_until(|group| group.step.as_ref().is_some_and(|step| step.phase() == v1::Phase::Preparing));
    assert_eq!(orders.await.step.unwrap().fence, step.fence);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn explain_and_plan_answer_on_any_peer() {
    let cluster = Cluster::of(3).await;
    declare(&cluster.peers[0], GROUP).await;
    let _session = Session::open(&cluster.peers[1].address, Identity::new(1, GROUP).hello()).await.unwrap();
    for peer in &cluster.peers {
        let plan = v1::PlanRolloutRequest { group: GROUP.to_owned(), target: R2.to_owned(), options: None };
        let plan = peer.rollouts().await.plan(plan).await.unwrap().into_inner();
        assert_eq!(plan.rounds.len(), 1, "{plan:?}");
        assert_eq!(plan.rounds[0].steps[0].node_name, "web-1");
        for subject in [GROUP, "web-1", "00000000-0000-4000-8000-000000000001"] {
            let request = v1::ExplainRequest { subject: subject.to_owned(), options: None };
            let answer = peer.rollouts().await.explain(request).await.unwrap().into_inner();
            assert!(!answer.chain.is_empty(), "{subject}");
        }
        let request = v1::ExplainRequest { subject: "web-9".to_owned(), options: None };
        let status = peer.rollouts().await.explain(request).await.unwrap_err();
        assert_eq!(
            (status.code(), crate::app_support::reason(&status).as_str()),
            (tonic::Code::NotFound, "unknown_subject")
        );
    }
}
