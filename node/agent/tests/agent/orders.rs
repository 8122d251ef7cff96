//! Orders that are of the past, withdrawn, replaced, or not heard at all.

use rollcall_proto::v1::Go;
use rollcall_proto::v1::report::Kind as Reported;

use crate::support::{Coordinator, Machine, Package, eventually, ident, step};

async fn running(old: Package, new: Package) -> (Machine, Coordinator, crate::support::Agent) {
    let machine = Machine::with(&[old, new]);
    let coordinator = Coordinator::start().await;
    let agent = machine.start(&coordinator);
    coordinator.run_step(1, None, 10).await;
    coordinator.drive(false);
    (machine, coordinator, agent)
}

async fn until_logged(machine: &Machine, text: &str) {
    eventually(text, || machine.log().contains(text).then_some(())).await;
}

/// The agent has heard the orders as they stand.
async fn until_heard(machine: &Machine, coordinator: &Coordinator) {
    until_logged(machine, &format!("orders revision={}\n", coordinator.revision())).await;
}

#[tokio::test]
async fn a_lower_fence_is_refused() {
    let (machine, coordinator, agent) = running(Package::new(1), Package::new(2)).await;
    coordinator.order_step(2, Some(1), 9, Go::Replace);
    until_logged(&machine, "is below 10").await;
    // Also by an agent that has only its disk to know it from.
    agent.kill();
    let _agent = machine.start(&coordinator);
    coordinator.until("the second hello", |said| said.hellos.len() == 2).await;
    eventually("the refusal again", || (machine.log().matches("is below 10").count() >= 2).then_some(())).await;
    assert_eq!(machine.starts("ready-to-update", 1), 0);
    assert_eq!(coordinator.said().events().len(), 7);
}

#[tokio::test]
async fn a_step_that_vanishes_before_the_stop_is_undone() {
    let (machine, coordinator, _agent) = running(Package::new(1), Package::new(2)).await;
    coordinator.order_step(2, Some(1), 20, Go::Drain);
    coordinator.until_event("drained", 2).await;
    coordinator.order(|orders| orders.step = None);
    machine.until_started("undrain", 1, 2).await;
    until_logged(&machine, "ending=Withdrawn").await;
    assert_eq!((machine.starts("pre-stop", 1), machine.starts("run", 1)), (0, 1));
    // A coordinator that waits for it to be turned back is told that nothing is left to undo.
    coordinator.order_step(2, Some(1), 20, Go::TurnBack);
    coordinator.until_event("turned_back", 1).await;
    // The next grant finds a node that is free.
    coordinator.run_step(2, Some(1), 30).await;
}

#[tokio::test]
async fn a_higher_fence_takes_over_at_the_next_boundary() {
    let (machine, coordinator, _agent) = running(Package::new(1), Package::new(2).gate("install")).await;
    coordinator.order_step_up_to(2, Some(1), 20, Go::Replace);
    machine.until_started("install", 2, 1).await;
    coordinator.drive(true);
    coordinator.order(|orders| orders.step = Some(step(1, Some(2), 21, Go::Prepare)));
    until_heard(&machine, &coordinator).await;
    machine.open("install");
    let said = coordinator.until_finished(21).await;
    assert_eq!(said.status().unwrap().release, ident(1));
    assert_eq!((machine.starts("run", 2), machine.starts("install", 1)), (0, 1));
}

#[tokio::test]
async fn a_service_that_is_not_ready_is_asked_again() {
    let asked = "[ -e $GATES/ready ] || exit 75";
    let (machine, coordinator, _agent) = running(Package::new(1).hook("ready-to-update", asked), Package::new(2)).await;
    coordinator.order_step(2, Some(1), 20, Go::Prepare);
    machine.until_started("ready-to-update", 1, 3).await;
    assert_eq!(coordinator.said().events().last(), Some(&"accepted"));
    machine.open("ready");
    coordinator.until_event("prepared", 2).await;
}

#[tokio::test]
async fn a_drain_that_wants_to_be_called_again_can_be_forced() {
    let (machine, coordinator, _agent) = running(Package::new(1).hook("drain", "exit 75"), Package::new(2)).await;
    coordinator.order_step(2, Some(1), 20, Go::Drain);
    machine.until_started("drain", 1, 2).await;
    coordinator.drive(true);
    coordinator.go(Go::Replace);
    coordinator.until_finished(20).await;
}

#[tokio::test]
async fn a_drain_that_has_had_its_time_is_ended_and_one_that_has_not_is_waited_for() {
    let old = Package::new(1).hook("drain", "trap 'exit 0' TERM; while :; do sleep 0.1; done");
    let (machine, coordinator, _agent) = running(old, Package::new(2)).await;
    coordinator.order_step(2, Some(1), 20, Go::Drain);
    machine.until_started("drain", 1, 1).await;
    coordinator.go(Go::TurnBack);
    until_heard(&machine, &coordinator).await;
    assert!(!coordinator.said().events().contains(&"turned_back"), "{:?}", coordinator.said().events());
    coordinator.order(|orders| orders.step.as_mut().unwrap().cut_drain = true);
    coordinator.until_event("turned_back", 1).await;
    assert_eq!((machine.starts("drain", 1), machine.starts("undrain", 1)), (1, 2));
}

#[tokio::test]
async fn a_question_whose_step_is_over_is_not_waited_for() {
    let old = Package::new(1).hook("ready-to-update", "sleep 600");
    let (machine, coordinator, _agent) = running(old, Package::new(2)).await;
    coordinator.order_step(2, Some(1), 20, Go::Prepare);
    machine.until_started("ready-to-update", 1, 1).await;
    coordinator.order(|orders| orders.step = None);
    coordinator.order_step(2, Some(1), 30, Go::Prepare);
    machine.until_started("ready-to-update", 1, 2).await;
}

#[tokio::test]
async fn what_was_not_answered_is_reported_again() {
    let (machine, coordinator, agent) = running(Package::new(1), Package::new(2)).await;
    coordinator.mute(true);
    coordinator.order_step_up_to(2, Some(1), 20, Go::Drain);
    coordinator.until_event("drained", 2).await;
    // By the same agent in a new session, …
    coordinator.stop().await;
    coordinator.restart().await;
    coordinator.until_event("drained", 3).await;
    let numbers = |said: crate::support::Said| -> Vec<u64> {
        let steps = said.reports.iter().filter(|report| matches!(report.kind, Some(Reported::Step(_))));
        steps.map(|report| report.number).collect()
    };
    let sent = numbers(coordinator.said());
    let (first, again) = sent[7..].split_at(3);
    assert_eq!(first, again, "in the same order, under the same numbers");
    // … and by the next agent, from its journal. What was answered isn't said again.
    agent.kill();
    coordinator.mute(false);
    let agent = machine.start(&coordinator);
    coordinator.until_event("drained", 4).await;
    until_logged(&machine, "fence=20 milestone=3").await;
    agent.kill();
    let before = coordinator.said().events().len();
    let _agent = machine.start(&coordinator);
    coordinator.drive(true);
    let said = coordinator.until_finished(20).await;
    assert!(!said.events()[before..].contains(&"accepted"), "{:?}", said.events());
    assert_eq!((machine.starts("drain", 1), machine.starts("ready-to-update", 1)), (1, 1));
}

#[tokio::test]
async fn another_endpoint_is_tried_when_one_fails() {
    let machine = Machine::with(&[Package::new(1)]);
    let coordinator = Coordinator::start().await;
    let dead = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let _agent = machine.start_with(&[dead, coordinator.address()]);
    coordinator.run_step(1, None, 10).await;
}

#[tokio::test]
async fn a_refusal_that_only_a_person_can_lift_is_named_and_not_hammered() {
    let machine = Machine::with(&[Package::new(1)]);
    let coordinator = Coordinator::start().await;
    coordinator.refuse("identity_in_use", false);
    let _agent = machine.start(&coordinator);
    until_logged(&machine, "identity_in_use").await;
    assert_eq!(coordinator.said().hellos.len(), 1);
}

#[tokio::test]
async fn a_copied_data_folder_says_the_same_node_at_another_place() {
    let (machine, coordinator, agent) = running(Package::new(1), Package::new(2)).await;
    agent.kill();
    let copy = Machine::with(&[Package::new(1)]);
    let status = std::process::Command::new("cp").arg("-a").arg(machine.data()).arg(copy.path()).status().unwrap();
    assert!(status.success());
    let _agent = copy.start(&coordinator);
    let said = coordinator.until("the second hello", |said| said.hellos.len() == 2).await;
    assert_eq!(said.hellos[0].node_id, said.hellos[1].node_id);
    assert_ne!(said.hellos[0].identity_locus, said.hellos[1].identity_locus);
}

#[tokio::test]
async fn how_fetching_went_is_told_once_in_each_session() {
    let (_machine, coordinator, _agent) = running(Package::new(1), Package::new(2)).await;
    let told = |said: &crate::support::Said| {
        let fetched = said.reports.iter().filter(|it| matches!(it.kind, Some(Reported::Prefetch(_))));
        fetched.count()
    };
    coordinator.order(|orders| orders.prefetch = ident(2));
    coordinator.until("it is told", |said| told(said) == 1).await;
    // With each phase of a step the orders change, and what is to be fetched stays.
    coordinator.run_step(2, Some(1), 20).await;
    assert_eq!(told(&coordinator.said()), 1);
    // Another peer, or another cluster, may not have heard it.
    coordinator.stop().await;
    coordinator.restart().await;
    coordinator.until("it is told again", |said| told(said) == 2).await;
}

#[tokio::test]
async fn a_question_that_outlived_its_agent_does_not_outlive_its_step() {
    let (machine, coordinator, agent) = running(Package::new(1).gate("ready-to-update"), Package::new(2)).await;
    coordinator.order_step_up_to(2, Some(1), 20, Go::Prepare);
    machine.until_started("ready-to-update", 1, 1).await;
    agent.kill();
    coordinator.order(|orders| orders.step = None);
    let _agent = machine.start(&coordinator);
    until_logged(&machine, "ending=Withdrawn").await;
    // What had lived on would go on now, and say so.
    machine.open("ready-to-update");
    coordinator.drive(true);
    coordinator.run_step(2, Some(1), 30).await;
    let answered: Vec<String> = machine.witness().into_iter().filter(|line| line.starts_with("end ready")).collect();
    assert_eq!(answered, ["end ready-to-update preparing 1 30 1"]);
}
