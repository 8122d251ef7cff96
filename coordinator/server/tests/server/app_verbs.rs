//! What people say to groups, nodes, tokens, channels and windows: told to a peer that doesn't lead, read from a third.

use std::time::Duration;

use rollcall_proto::v1;
use rollcall_proto::v1::step_report;
use tonic::Code;

use crate::app_support::agent::{Identity, R1, R2, Session, on_step, prefetched};
use crate::app_support::cluster::{Cluster, TestPeer, declare, spec, start_rollout};
use crate::app_support::{in_time, refused};

const GROUP: &str = "web.default";
const HOUR: Duration = Duration::from_secs(3600);

fn list(values: &[&str]) -> Option<v1::StringList> {
    Some(v1::StringList { values: values.iter().map(|value| (*value).to_owned()).collect() })
}

fn window(start_time: &str) -> v1::Window {
    v1::Window {
        days: vec!["mon".to_owned(), "fri".to_owned()],
        start_time: start_time.to_owned(),
        length_ms: 7_200_000,
        time_zone: "Europe/Berlin".to_owned(),
        ..v1::Window::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_field_of_a_group_is_kept_and_what_is_not_named_stays() {
    let cluster = Cluster::of(3).await;
    let (teller, reader) = cluster.teller_and_reader().await;
    let policy = v1::Policy {
        mode: Some("manual".to_owned()),
        approval_required: Some(true),
        batches: list(&["1", "20%"]),
        order: Some("label:zone".to_owned()),
        canary: Some(2),
        delay_ms: Some(30_000),
        offline_policy: Some("skip".to_owned()),
        failure_action: Some("continue".to_owned()),
        max_failure_permille: Some(250),
        on_demote: Some("rollback".to_owned()),
        ..v1::Policy::default()
    };
    let windows = Some(v1::WindowList { values: vec![window("02:00"), window("22:30")] });
    let declared = v1::GroupSpec { policy: Some(policy.clone()), windows, ..spec(GROUP) };
    let apply = |spec| v1::ApplyGroupRequest { spec: Some(spec), options: None };
    teller.groups().await.apply(apply(declared)).await.unwrap();
    let seen = reader.group(GROUP).await.spec.unwrap();
    let kept = seen.policy.clone().unwrap();
    assert_eq!((&kept.mode, &kept.batches, &kept.order), (&policy.mode, &policy.batches, &policy.order));
    assert_eq!((kept.canary, kept.delay_ms, kept.max_failure_permille), (Some(2), Some(30_000), Some(250)));
    assert_eq!((&kept.offline_policy, &kept.on_demote), (&policy.offline_policy, &policy.on_demote));
    let starts: Vec<_> = seen.windows.unwrap().values.into_iter().map(|it| (it.window_id, it.start_time)).collect();
    assert_eq!(starts, [("w1".to_owned(), "02:00".to_owned()), ("w2".to_owned(), "22:30".to_owned())]);

    let change = v1::Policy { canary: Some(0), ..v1::Policy::default() };
    let change = v1::GroupSpec { name: GROUP.to_owned(), policy: Some(change), ..v1::GroupSpec::default() };
    teller.groups().await.apply(apply(change)).await.unwrap();
    let seen = reader.group(GROUP).await.spec.unwrap();
    assert_eq!(seen.policy.unwrap(), v1::Policy { canary: Some(0), ..kept });
    assert_eq!(seen.windows.unwrap().values.len(), 2);
    let bad = v1::WindowList { values: vec![v1::Window { time_zone: "Mars/Olympus".to_owned(), ..window("02:00") }] };
    let bad = v1::GroupSpec { windows: Some(bad), ..spec(GROUP) };
    refused(teller.groups().await.apply(apply(bad)).await, Code::InvalidArgument, "invalid_group");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_are_held_released_and_judged() {
    let cluster = Cluster::of(3).await;
    let (teller, reader) = cluster.teller_and_reader().await;
    declare(teller, GROUP).await;
    let session = Session::open(&teller.address, Identity::new(1, GROUP).hello()).await.unwrap();
    session.beat();
    let mut nodes = teller.nodes().await;
    let until = in_time(HOUR);
    let options = Some(v1::WriteOptions { reason: "disk".into(), actor: "alice".into(), ..Default::default() });
    let hold = v1::HoldNodeRequest { node: "web-1".to_owned(), until: Some(until), options };
    let told = nodes.hold(hold.clone()).await.unwrap().into_inner().node.unwrap();
    let held = reader.node("web-1").await;
    assert_eq!(told, held);
    let seen = held.hold.unwrap();
    assert_eq!((seen.by.as_str(), seen.reason.as_str()), ("alice", "disk"));
    // To the millisecond.
    assert_eq!(seen.until.unwrap().seconds, until.seconds);
    refused(nodes.hold(hold.clone()).await, Code::AlreadyExists, "already_so");
    let past = v1::HoldNodeRequest { until: Some(prost_types::Timestamp { seconds: 1, nanos: 0 }), ..hold.clone() };
    refused(nodes.hold(past).await, Code::InvalidArgument, "invalid_time");
    let ghost = v1::HoldNodeRequest { node: "web-9".to_owned(), ..hold };
    refused(nodes.hold(ghost).await, Code::NotFound, "unknown_node");
    let release = v1::ReleaseNodeRequest { node: "web-1".to_owned(), options: None };
    nodes.release(release.clone()).await.unwrap();
    assert_eq!(reader.node("web-1").await.hold, None);
    refused(nodes.release(release).await, Code::AlreadyExists, "already_so");

    let word = |health: &str| v1::SetHealthRequest { node: "web-1".into(), health: health.into(), options: None };
    nodes.set_health(word("unhealthy")).await.unwrap();
    let node = reader.node("web-1").await;
    assert_eq!(node.health_override.unwrap().health, "unhealthy");
    let member = node.services[0].member.clone().unwrap();
    assert_eq!(member.health(), v1::Health::Critical, "what counts is shown");
    assert!(member.health_detail.contains("its checks say healthy"), "{}", member.health_detail);
    nodes.set_health(word("auto")).await.unwrap();
    assert_eq!(reader.node("web-1").await.health_override, None);
    refused(nodes.set_health(word("fine")).await, Code::InvalidArgument, "invalid_argument");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_is_revoked_with_open_eyes_and_a_retry_tells_the_same() {
    let cluster = Cluster::of(3).await;
    let (teller, reader) = cluster.teller_and_reader().await;
    declare(teller, GROUP).await;
    let mut session = Session::open(&reader.address, Identity::new(1, GROUP).hello()).await.unwrap();
    session.beat();
    let revoke = |force, request_id: &str| v1::RevokeTokenRequest {
        node: "web-1".to_owned(),
        force,
        options: Some(v1::WriteOptions { request_id: request_id.to_owned(), ..Default::default() }),
    };
    let mut tokens = teller.tokens().await;
    refused(tokens.revoke(revoke(true, "")).await, Code::FailedPrecondition, "no_token");
    let rollout = start_rollout(teller, GROUP, R2).await;
    session.report(prefetched(GROUP, R2)).await;
    let orders = session.orders_until(|group| group.step.is_some()).await;
    refused(tokens.revoke(revoke(false, "")).await, Code::FailedPrecondition, "revoke_needs_force");
    let first = tokens.revoke(revoke(true, "once")).await.unwrap().into_inner();
    assert_eq!(first.rollout_id, rollout.rollout_id);
    assert_eq!(tokens.revoke(revoke(true, "once")).await.unwrap().into_inner(), first);
    let left = reader.tokens().await.list(v1::ListTokensRequest::default()).await.unwrap().into_inner().tokens;
    assert_eq!(left, []);
    assert_eq!(reader.rollout(&rollout.rollout_id).await.status(), v1::RolloutStatus::Paused);
    let late = session.report(on_step(&orders, step_report::Event::Accepted(v1::Accepted {}))).await;
    assert_eq!(late.refusal, "stale_fence", "its fence counts no more: {late:?}");
}

async fn releases(peer: &TestPeer) -> Vec<String> {
    let channels = peer.channels().await.list(v1::ListChannelsRequest::default()).await.unwrap().into_inner().channels;
    let stable = channels.into_iter().find(|channel| channel.name == "stable").unwrap();
    stable.releases.into_iter().map(|release| release.ident).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn releases_are_promoted_all_or_none_and_put_in_quarantine() {
    let cluster = Cluster::of(3).await;
    let (teller, reader) = cluster.teller_and_reader().await;
    let mut channels = teller.channels().await;
    let promote = |more: &[&str]| v1::PromoteRequest {
        ident: R1.to_owned(),
        channel: "stable".to_owned(),
        more_idents: more.iter().map(|ident| (*ident).to_owned()).collect(),
        ..v1::PromoteRequest::default()
    };
    refused(channels.promote(promote(&["acme/web"])).await, Code::InvalidArgument, "invalid_argument");
    channels.promote(promote(&[R2])).await.unwrap();
    assert_eq!(releases(reader).await, [R1, R2]);
    let demote = |ident: &str, more: &str| v1::DemoteRequest {
        ident: ident.to_owned(),
        channel: "stable".to_owned(),
        more_idents: vec![more.to_owned()],
        options: None,
    };
    let ghost = demote(R1, "acme/web/9.0.0/20260901000000");
    refused(channels.demote(ghost).await, Code::NotFound, "not_in_channel");
    assert_eq!(releases(reader).await, [R1, R2], "none of them");
    channels.demote(demote(R1, R2)).await.unwrap();
    assert_eq!(releases(reader).await, Vec::<String>::new());

    declare(teller, GROUP).await;
    let options = Some(v1::WriteOptions { reason: "leaks".into(), actor: "bob".into(), ..Default::default() });
    let bad = v1::QuarantineRequest { ident: R2.to_owned(), options };
    channels.add_quarantine(bad.clone()).await.unwrap();
    refused(channels.add_quarantine(bad.clone()).await, Code::AlreadyExists, "already_so");
    let listed = || async {
        let request = v1::ListQuarantineRequest::default();
        reader.channels().await.list_quarantine(request).await.unwrap().into_inner().releases
    };
    let seen = listed().await.remove(0);
    assert_eq!((seen.ident.as_str(), seen.by.as_str(), seen.reason.as_str()), (R2, "bob", "leaks"));
    let start = v1::StartRolloutRequest { group: GROUP.into(), target: R2.into(), ..Default::default() };
    refused(reader.rollouts().await.start(start).await, Code::FailedPrecondition, "quarantined");
    channels.remove_quarantine(bad.clone()).await.unwrap();
    assert_eq!(listed().await, []);
    refused(channels.remove_quarantine(bad).await, Code::NotFound, "not_in_quarantine");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn windows_and_freezes_are_told_with_when_they_end() {
    let cluster = Cluster::of(3).await;
    let (teller, reader) = cluster.teller_and_reader().await;
    declare(teller, GROUP).await;
    let mut windows = teller.windows().await;
    let add = |window| v1::AddWindowRequest { group: GROUP.to_owned(), window: Some(window), options: None };
    assert_eq!(windows.add(add(window("02:00"))).await.unwrap().into_inner().window_id, "w1");
    refused(windows.add(add(window("02:00"))).await, Code::AlreadyExists, "already_so");
    refused(windows.add(add(window("2:00"))).await, Code::InvalidArgument, "invalid_argument");
    let always = v1::Window { days: Vec::new(), start_time: "00:00".into(), length_ms: 86_400_000, ..window("") };
    windows.add(add(always)).await.unwrap();
    let seen = |group: &'static str| async move {
        let request = v1::ListWindowsRequest { group: group.to_owned(), options: None };
        reader.windows().await.list(request).await.map(|answer| answer.into_inner().groups)
    };
    let group = seen("").await.unwrap().remove(0);
    assert_eq!((group.windows.len(), group.open, group.changes_at.is_some()), (2, true, true), "{group:?}");
    refused(seen("web.other").await, Code::NotFound, "unknown_group");

    let until = in_time(HOUR);
    let freeze = |groups: &[&str], until| v1::CreateFreezeRequest {
        groups: groups.iter().map(|group| (*group).to_owned()).collect(),
        until,
        ..v1::CreateFreezeRequest::default()
    };
    refused(windows.create_freeze(freeze(&["web.other"], Some(until))).await, Code::NotFound, "unknown_group");
    let past = Some(prost_types::Timestamp { seconds: 1, nanos: 0 });
    refused(windows.create_freeze(freeze(&[], past)).await, Code::InvalidArgument, "invalid_time");
    let freeze_id = windows.create_freeze(freeze(&[GROUP], Some(until))).await.unwrap().into_inner().freeze_id;
    let group = seen(GROUP).await.unwrap().remove(0);
    assert_eq!((group.open, group.changes_at.unwrap().seconds), (false, until.seconds));
    let freezes = || async {
        let request = v1::ListFreezesRequest::default();
        reader.windows().await.list_freezes(request).await.unwrap().into_inner().freezes
    };
    assert_eq!(freezes().await[0].freeze_id, freeze_id);
    let endless = windows.create_freeze(freeze(&[], None)).await.unwrap().into_inner().freeze_id;
    assert_eq!(seen(GROUP).await.unwrap()[0].changes_at, None, "nothing ends it by itself");
    for freeze_id in [freeze_id, endless] {
        windows.lift_freeze(v1::LiftFreezeRequest { freeze_id, options: None }).await.unwrap();
    }
    assert_eq!(freezes().await, []);
    let lift = v1::LiftFreezeRequest { freeze_id: "f1".to_owned(), options: None };
    refused(windows.lift_freeze(lift).await, Code::NotFound, "unknown_freeze");
    let remove = |id: &str| v1::RemoveWindowRequest { group: GROUP.into(), window_id: id.into(), options: None };
    windows.remove(remove("w2")).await.unwrap();
    refused(windows.remove(remove("w2")).await, Code::NotFound, "unknown_window");
    assert_eq!(seen(GROUP).await.unwrap()[0].windows.len(), 1);
}
