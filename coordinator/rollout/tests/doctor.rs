//! What the doctor finds, and what it passes over.
#![allow(clippy::unwrap_used, reason = "test code")]

mod support;

use rollcall_ident::{Millis, PeerId, WallTime};
use rollcall_rollout::{
    Command, Finding, GroupPatch, Health, Mode, Order, PeerFacts, Policy, PolicyPatch, RolloutVerb, Severity, Stamp,
    diagnose,
};
use support::{GROUP, World, group, release};

const MINUTE: Millis = Millis::from_secs(60);
const DAY: Millis = Millis::from_secs(24 * 3600);

fn declare(world: &mut World, policy: PolicyPatch) {
    let package = Some("acme/redis".parse().unwrap());
    let patch = GroupPatch {
        name: group(),
        package,
        channel: None,
        update_condition: None,
        policy,
        config: None,
        windows: None,
    };
    world.propose(Command::ApplyGroup { patch }).outcome.unwrap();
}

/// Members that run release 1 and are well.
fn world(members: &[&str], policy: PolicyPatch) -> World {
    let mut world = World::new();
    declare(&mut world, policy);
    for name in members {
        world.connect(name);
        world.start_process(name, &release("1"));
        world.service(name).health = Health::Healthy;
        world.report_status(name).unwrap();
    }
    world
}

/// As a person sees it `later` than the last entry: the log of an idle cluster stands still.
fn found_later(world: &World, later: Millis) -> Vec<Finding> {
    let cluster_time = world.clock + later;
    diagnose(&world.state, Stamp { cluster_time, wall_time: WallTime(support::MIDNIGHT + cluster_time.0) })
}

fn names(world: &World, later: Millis) -> Vec<&'static str> {
    found_later(world, later).into_iter().map(|finding| finding.check).collect()
}

fn the_one(world: &World, later: Millis, check: &str) -> Finding {
    let found = found_later(world, later);
    let it = found.iter().find(|finding| finding.check == check);
    it.unwrap_or_else(|| panic!("no {check} in {found:#?}")).clone()
}

#[test]
fn a_cluster_that_is_well_has_no_findings() {
    let mut world = world(&["a", "b", "c"], PolicyPatch::default());
    assert_eq!(names(&world, DAY), Vec::<&str>::new());
    world.start("2").outcome.unwrap();
    world.run(true);
    assert_eq!(names(&world, Millis(0)), Vec::<&str>::new(), "a rollout that goes on is no finding");
    world.run_to_end(true);
    assert_eq!(names(&world, DAY), Vec::<&str>::new());
}

#[test]
fn a_holder_that_is_away_for_longer_than_it_may_be_is_stuck() {
    let mut world = world(&["a", "b"], PolicyPatch::default());
    world.start("2").outcome.unwrap();
    for name in ["a", "b"] {
        world.prefetch(name);
    }
    world.plan();
    for _ in 0..4 {
        world.act("a", true);
    }
    assert_eq!(names(&world, MINUTE), Vec::<&str>::new());
    world.disconnect("a", Millis(0));
    let limit = Policy::default().reboot_timeout;
    assert!(!names(&world, limit).contains(&"stuck_token"), "not before the limit");
    let finding = the_one(&world, Millis(limit.0 + 1), "stuck_token");
    assert_eq!((finding.severity, finding.subject.as_str()), (Severity::Error, "node a"));
    assert!(finding.advice.contains("rollcall token revoke a --force"), "{}", finding.advice);
}

#[test]
fn a_step_far_beyond_its_deadline_is_stuck_though_its_node_is_there() {
    let mut world = world(&["a"], PolicyPatch::default());
    world.start("2").outcome.unwrap();
    world.prefetch("a");
    world.plan();
    world.act("a", true);
    let limit = Policy::default().ready_timeout;
    assert!(!names(&world, Millis(limit.0 * 2)).contains(&"stuck_token"));
    let finding = the_one(&world, Millis(limit.0 * 2 + 1), "stuck_token");
    assert!(finding.text.contains("preparing") && finding.text.contains("ready_timeout"), "{}", finding.text);
}

#[test]
fn a_paused_rollout_is_told_with_its_cause_and_the_way_out() {
    let mut world = world(&["a", "b"], PolicyPatch::default());
    world.start("2").outcome.unwrap();
    world.run_to_end(false);
    let finding = the_one(&world, MINUTE, "rollout_paused");
    assert_eq!(finding.severity, Severity::Error);
    assert!(finding.text.contains("step_failed") && finding.advice.contains("rollcall rollout retry"), "{finding:?}");
    assert_eq!(found_later(&world, MINUTE)[0].severity, Severity::Error, "the worst comes first");
    assert!(!names(&world, MINUTE).contains(&"member_unhealthy"), "its failed step is told already");
}

#[test]
fn an_operators_pause_is_told_unless_it_ends_by_itself() {
    let mut world = world(&["a"], PolicyPatch::default());
    world.start("2").outcome.unwrap();
    let rollout = world.state.active_rollout(&group()).unwrap().id;
    let until = Some(WallTime(support::MIDNIGHT + DAY.0));
    world.propose(Command::Steer { rollout, verb: RolloutVerb::Pause { until } }).outcome.unwrap();
    assert_eq!(names(&world, MINUTE), Vec::<&str>::new());
    world.propose(Command::Steer { rollout, verb: RolloutVerb::Pause { until: None } }).outcome.unwrap();
    assert_eq!(the_one(&world, MINUTE, "rollout_paused").severity, Severity::Warning);
}

#[test]
fn a_target_in_quarantine_and_a_release_that_cannot_be_had_are_told() {
    let mut world = world(&["a"], PolicyPatch::default());
    world.service("a").can_prefetch = false;
    world.start("2").outcome.unwrap();
    world.run(true);
    assert_eq!(names(&world, MINUTE), ["release_not_fetched"]);
    world.propose(Command::AddQuarantine { release: release("2") }).outcome.unwrap();
    let finding = the_one(&world, MINUTE, "target_quarantined");
    assert!(finding.advice.contains("rollcall rollout abort"), "{}", finding.advice);
}

#[test]
fn departed_members_that_use_up_the_budget_are_told_together_and_one_by_one() {
    let mut world = world(&["a", "b", "c"], PolicyPatch::default());
    world.disconnect("b", Millis(0));
    assert_eq!(names(&world, Millis(0)), Vec::<&str>::new(), "away isn't departed");
    world.advance(Policy::default().lost_after);
    assert_eq!(names(&world, Millis(0)), ["budget_used_by_departed", "node_departed"]);
    let finding = the_one(&world, Millis(0), "budget_used_by_departed");
    assert_eq!((finding.severity, finding.subject.as_str()), (Severity::Warning, "group redis.default"));
    world.start("2").outcome.unwrap();
    assert_eq!(the_one(&world, Millis(0), "budget_used_by_departed").severity, Severity::Error);
}

#[test]
fn a_member_that_is_unwell_is_told_and_worse_once_a_rollout_waits_for_it() {
    let mut world = world(&["a", "b", "c"], PolicyPatch::default());
    world.service("c").release = Some(release("2"));
    world.start_process("c", &release("2"));
    world.service("c").health = Health::Critical;
    world.report_status("c").unwrap();
    let finding = the_one(&world, MINUTE, "member_unhealthy");
    assert_eq!((finding.severity, finding.subject.as_str()), (Severity::Warning, "node c"));
    assert!(finding.text.starts_with("redis.default is critical for 1m"), "{}", finding.text);
    // It runs the target already, so no step mends it.
    world.start("2").outcome.unwrap();
    world.run(true);
    let finding = the_one(&world, Millis(0), "member_unhealthy");
    assert_eq!(finding.severity, Severity::Error);
    assert!(finding.text.ends_with(" waits for it"), "{}", finding.text);
    let node = world.id("c");
    world.propose(Command::SetHealth { node, is_healthy: Some(true) }).outcome.unwrap();
    world.run(true);
    assert!(!names(&world, Millis(0)).contains(&"member_unhealthy"), "the word of a person counts");
}

#[test]
fn a_member_that_is_being_moved_or_is_not_connected_is_not_told_as_unwell() {
    let mut world = world(&["a", "b"], PolicyPatch::default());
    world.start("2").outcome.unwrap();
    for name in ["a", "b"] {
        world.prefetch(name);
    }
    world.plan();
    while world.service("a").instance.is_some() {
        assert!(world.act("a", false));
    }
    assert!(world.state.tokens().contains_key(&world.id("a")));
    world.disconnect("b", Millis(0));
    assert_eq!(names(&world, Millis(0)), Vec::<&str>::new());
}

#[test]
fn held_nodes_are_told_and_a_group_of_them_as_one_that_can_not_move() {
    let mut world = world(&["a", "b"], PolicyPatch::default());
    let (a, b) = (world.id("a"), world.id("b"));
    world.propose(Command::HoldNode { node: a, until: None }).outcome.unwrap();
    assert_eq!(names(&world, Millis(0)), ["node_held"]);
    world.propose(Command::HoldNode { node: b, until: Some(WallTime(support::MIDNIGHT + DAY.0)) }).outcome.unwrap();
    assert_eq!(names(&world, Millis(0)), ["every_member_held", "node_held"], "b is released by itself");
}

#[test]
fn a_word_on_health_is_told_for_as_long_as_it_counts() {
    let mut world = world(&["a"], PolicyPatch::default());
    let node = world.id("a");
    world.propose(Command::SetHealth { node, is_healthy: Some(true) }).outcome.unwrap();
    let finding = the_one(&world, MINUTE, "health_overridden");
    assert!(finding.text.contains("by the word of tester for 1m"), "{}", finding.text);
    world.propose(Command::SetHealth { node, is_healthy: None }).outcome.unwrap();
    assert_eq!(names(&world, MINUTE), Vec::<&str>::new());
}

#[test]
fn an_order_that_does_not_fit_is_told_with_what_is_missing() {
    let inventory = |names: &[&str]| PolicyPatch {
        order: Some(Order::Inventory),
        inventory: Some(names.iter().map(|name| (*name).to_owned()).collect()),
        ..PolicyPatch::default()
    };
    let mut world = world(&["a", "b"], inventory(&["a", "x"]));
    let finding = the_one(&world, Millis(0), "order_does_not_fit");
    assert!(finding.text.contains("doesn't name b") && finding.text.contains("names x in vain"), "{}", finding.text);
    declare(&mut world, inventory(&["b", "a"]));
    assert_eq!(names(&world, Millis(0)), Vec::<&str>::new());
    declare(&mut world, PolicyPatch { order: Some(Order::Label("zone".to_owned())), ..PolicyPatch::default() });
    let finding = the_one(&world, Millis(0), "order_does_not_fit");
    assert!(finding.text.contains("a, b have no label \"zone\""), "{}", finding.text);
}

#[test]
fn a_freeze_is_told_if_it_has_no_end_and_has_begun() {
    let mut world = world(&["a"], PolicyPatch::default());
    let freeze = |from, until| Command::CreateFreeze { groups: vec![group()], from, until };
    world.propose(freeze(None, Some(WallTime(support::MIDNIGHT + DAY.0)))).outcome.unwrap();
    world.propose(freeze(Some(WallTime(support::MIDNIGHT + MINUTE.0)), None)).outcome.unwrap();
    assert_eq!(names(&world, Millis(0)), Vec::<&str>::new());
    let finding = the_one(&world, MINUTE, "endless_freeze");
    assert!(finding.text.contains(GROUP) && finding.advice.contains("rollcall freeze lift f"), "{finding:?}");
}

#[test]
fn a_word_that_nobody_gives_is_told_after_an_hour() {
    let hour = Millis::from_secs(3600);
    let gated: [PolicyPatch; 2] = [
        PolicyPatch { approval_required: Some(true), ..PolicyPatch::default() },
        PolicyPatch { mode: Some(Mode::Manual), ..PolicyPatch::default() },
    ];
    for policy in gated {
        let mut world = world(&["a"], policy);
        world.start("2").outcome.unwrap();
        world.run(true);
        assert_eq!(names(&world, hour), Vec::<&str>::new());
        let finding = the_one(&world, Millis(hour.0 + 1), "word_pending");
        assert!(finding.advice.contains("rollcall rollout "), "{}", finding.advice);
    }
}

#[test]
fn a_group_without_members_and_agents_of_two_versions_are_told() {
    let mut world = World::new();
    declare(&mut world, PolicyPatch::default());
    assert_eq!(names(&world, Millis(0)), ["group_without_members"]);
    world.connect("a");
    assert_eq!(names(&world, Millis(0)), Vec::<&str>::new());
    world.connect("b");
    let mut hello = world.hello("b");
    hello.agent_version = "0.2.0".to_owned();
    world.propose(Command::OpenSession { host: PeerId(1), hello }).outcome.unwrap();
    let finding = the_one(&world, Millis(0), "agent_versions");
    assert!(finding.text.ends_with("0.1.0 on 1, 0.2.0 on 1"), "{}", finding.text);
}

#[test]
fn many_alike_are_cut_short_and_counted() {
    let mut world = world(&[], PolicyPatch::default());
    for i in 0..25 {
        world.connect(&format!("n{i:02}"));
        let node = world.id(&format!("n{i:02}"));
        world.propose(Command::HoldNode { node, until: None }).outcome.unwrap();
    }
    let held: Vec<Finding> = found_later(&world, Millis(0)).into_iter().filter(|it| it.check == "node_held").collect();
    assert_eq!(held.len(), 20);
    assert!(held[19].text.ends_with("and 5 more like this"), "{}", held[19].text);
}

#[test]
fn a_group_that_was_stopped_half_way_is_told() {
    let mut world = world(&["a", "b"], PolicyPatch::default());
    world.start("2").outcome.unwrap();
    assert!(!names(&world, Millis(0)).contains(&"stopped_half_way"));
    world.steer(RolloutVerb::Stop).outcome.unwrap();
    let finding = the_one(&world, Millis(0), "stopped_half_way");
    assert!(finding.text.contains("2 of 2") && finding.advice.contains("rollout undo"), "{finding:?}");
}

/// A peer says where it runs; what is found then.
fn say(world: &mut World, peer: u64, machine: &str) -> Vec<&'static str> {
    let facts = PeerFacts { machine_id: machine.to_owned(), version: "0.1.0".to_owned(), feature_level: 1 };
    world.propose(Command::DescribePeer { peer: PeerId(peer), facts }).outcome.unwrap();
    names(world, Millis(0))
}

#[test]
fn a_peer_that_does_not_exist_and_peers_that_share_a_machine_are_told() {
    let mut world = world(&["a"], PolicyPatch::default());
    world.machine("a").hosts_peer = Some("10.0.0.9:7400".to_owned());
    world.connect("a").outcome.unwrap();
    let finding = the_one(&world, MINUTE, "hosts_no_peer");
    assert!(finding.text.contains("10.0.0.9:7400") && finding.subject == "node a", "{finding:?}");
    world.machine("a").hosts_peer = Some("127.0.0.1:7400".to_owned());
    world.connect("a").outcome.unwrap();
    assert_eq!(names(&world, Millis(0)), Vec::<&str>::new());
    assert_eq!(say(&mut world, 1, "m"), Vec::<&str>::new());
    for address in ["p2", "p3"] {
        world.propose(Command::AddPeer { address: address.to_owned() }).outcome.unwrap();
    }
    let ids: Vec<u64> = world.state.peers().keys().map(|id| id.0).collect();
    assert_eq!(
        say(&mut world, ids[1], "m"),
        Vec::<&str>::new(),
        "all that have said so are on one machine: somebody's own"
    );
    assert_eq!(say(&mut world, ids[2], "n"), ["peers_share_a_machine"]);
    assert_eq!(say(&mut world, ids[1], "o"), Vec::<&str>::new());
}
