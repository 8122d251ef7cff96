//! What operators do to a step in flight: it is turned back, forced on, or loses its grant.

use std::fs;

use rollcall_node::process::read_stat;
use rollcall_proto::v1::{Go, Health};

use crate::support::{Agent, Coordinator, Machine, Package, eventually, ident, step};

async fn running(old: Package, new: Package) -> (Machine, Coordinator, Agent) {
    let machine = Machine::with(&[old, new]);
    let coordinator = Coordinator::start().await;
    let agent = machine.start(&coordinator);
    coordinator.run_step(1, None, 10).await;
    coordinator.drive(false);
    (machine, coordinator, agent)
}

/// A step to version 2 whose `hook` runs, after commit point B, until its gate is opened.
async fn inside(hook: &str) -> (Machine, Coordinator, Agent) {
    let (machine, coordinator, agent) = running(Package::new(1), Package::new(2).gate(hook)).await;
    coordinator.order_step_up_to(2, Some(1), 20, Go::Replace);
    machine.until_started(hook, 2, 1).await;
    (machine, coordinator, agent)
}

async fn until_logged(machine: &Machine, text: &str) {
    eventually(text, || machine.log().contains(text).then_some(())).await;
}

/// The agent has heard the orders as they stand.
async fn until_heard(machine: &Machine, coordinator: &Coordinator) {
    until_logged(machine, &format!("orders revision={}\n", coordinator.revision())).await;
}

async fn turn_back(machine: &Machine, coordinator: &Coordinator) {
    coordinator.go(Go::TurnBack);
    until_logged(machine, "ends at its next boundary, by order ending=TurnedBack").await;
}

async fn withdraw(machine: &Machine, coordinator: &Coordinator) {
    coordinator.order(|orders| orders.step = None);
    until_logged(machine, "ends at its next boundary, by order ending=Withdrawn").await;
}

/// Neither release was started by the step, and the coordinator knows how things stand.
async fn check_left_down(machine: &Machine, coordinator: &Coordinator, release: u32) {
    let is_down = |said: &crate::support::Said| {
        said.status().is_some_and(|status| {
            status.release == ident(release) && status.instance.is_none() && status.health() == Health::Critical
        })
    };
    coordinator.until("a service that is down", is_down).await;
    assert_eq!((machine.starts("run", 1), machine.starts("run", 2)), (1, 0));
}

/// What an operator would see in the environment of a hook.
fn telling(version: u32) -> Package {
    let body = "echo \"because $ROLLCALL_REASON $ROLLCALL_FROM $ROLLCALL_TO\" >> $WITNESS";
    Package::new(version).hook("init", body)
}

#[tokio::test]
async fn turned_back_after_the_stop_the_service_waits_for_its_next_step() {
    let (machine, coordinator, agent) = running(telling(1), Package::new(2).gate("install")).await;
    coordinator.order_step_up_to(2, Some(1), 20, Go::Replace);
    machine.until_started("install", 2, 1).await;
    turn_back(&machine, &coordinator).await;
    machine.open("install");
    let said = coordinator.until_event("turned_back", 1).await;
    // What ran was seen through, and that is told too.
    assert!(said.events().ends_with(&["stopped", "installed", "turned_back"]), "{:?}", said.events());
    check_left_down(&machine, &coordinator, 1).await;
    assert_eq!((machine.starts("undrain", 1), machine.starts("init", 2)), (2, 0));

    assert_eq!(coordinator.said().events().iter().filter(|event| **event == "turned_back").count(), 1);

    // The agent that comes after it starts nothing either, …
    agent.kill();
    let _agent = machine.start(&coordinator);
    coordinator.until("the second hello", |said| said.hellos.len() == 2).await;
    until_logged(&machine, "left down").await;
    check_left_down(&machine, &coordinator, 1).await;

    // … until the way back, which finds the old release on the disk, installed.
    fs::remove_dir_all(machine.depot()).unwrap();
    coordinator.drive(true);
    let mut back = step(1, Some(1), 30, Go::Prepare);
    back.reason = "rollback".to_owned();
    coordinator.order(|orders| orders.step = Some(back));
    coordinator.until_finished(30).await;
    assert_eq!((machine.starts("install", 1), machine.starts("run", 1)), (1, 2));
    let because: Vec<String> = machine.witness().into_iter().filter(|line| line.starts_with("because")).collect();
    assert_eq!(because, [format!("because update  {0}", ident(1)), format!("because rollback {0} {0}", ident(1))]);
}

#[tokio::test]
async fn a_turn_is_remembered_by_an_agent_that_hears_nobody() {
    let (machine, coordinator, agent) = inside("install").await;
    turn_back(&machine, &coordinator).await;
    agent.kill();
    coordinator.stop().await;
    let _agent = machine.start(&coordinator);
    machine.open("install");
    until_logged(&machine, "ending=TurnedBack timings").await;
    coordinator.restart().await;
    coordinator.until_event("turned_back", 1).await;
    check_left_down(&machine, &coordinator, 1).await;
    assert_eq!(machine.starts("install", 2), 1);
}

#[tokio::test]
async fn a_machine_whose_step_is_turned_back_is_not_rebooted() {
    let install = "while [ ! -e $GATES/install ]; do sleep 0.02; done; exit 35";
    let machine = Machine::with(&[Package::new(1), Package::new(2).hook("install", install)])
        .config("reboot_command = [\"/bin/sh\", \"-c\", \"echo begin reboot >> $WITNESS\"]\n");
    let coordinator = Coordinator::start().await;
    let _agent = machine.start(&coordinator);
    coordinator.run_step(1, None, 10).await;
    coordinator.order_step_up_to(2, Some(1), 20, Go::Replace);
    machine.until_started("install", 2, 1).await;
    turn_back(&machine, &coordinator).await;
    machine.open("install");
    coordinator.until_event("turned_back", 1).await;
    check_left_down(&machine, &coordinator, 1).await;
    assert!(!machine.witness().contains(&"begin reboot".to_owned()));
}

#[tokio::test]
async fn a_turn_that_comes_too_late_changes_nothing() {
    let (machine, coordinator, _agent) = running(Package::new(1), Package::new(2)).await;
    coordinator.order_step_up_to(2, Some(1), 20, Go::Replace);
    coordinator.until_event("started", 2).await;
    coordinator.go(Go::TurnBack);
    until_heard(&machine, &coordinator).await;
    coordinator.until("version 2 to be healthy", |said| said.is_healthy(2)).await;
    coordinator.go(Go::Finish);
    coordinator.until_finished(20).await;
}

/// A hook that never ends, with a child.
fn hanging(hook: &str) -> Package {
    Package::new(1).hook(hook, "sleep 1000 & echo $! > child; wait")
}

async fn child_of(machine: &Machine) -> u32 {
    let pid = || fs::read_to_string(machine.service().join("child")).ok()?.trim().parse().ok();
    eventually("the hook's child", pid).await
}

/// `hook` hangs in version 1; the log goes on without it, whether the agent dies in between or not.
async fn forced_past(hook: &str, at: Go, next: Go, dies: bool) {
    let (machine, coordinator, mut agent) = running(hanging(hook), Package::new(2)).await;
    coordinator.order_step_up_to(2, Some(1), 20, at);
    machine.until_started(hook, 1, 1).await;
    let child = child_of(&machine).await;
    if dies {
        agent.kill();
        coordinator.go(next);
        agent = machine.start(&coordinator);
    } else {
        coordinator.go(next);
    }
    let is_gone = || read_stat(child).is_none_or(|stat| stat.is_zombie).then_some(());
    eventually("the end of the hook's child", is_gone).await;
    coordinator.drive(true);
    coordinator.until_finished(20).await;
    assert_eq!(machine.starts(hook, 1), 1);
    assert!(machine.log().contains("forced: nobody waits"), "the journal has it as forced");
    for (later, version) in [("drain", 1), ("pre-stop", 1), ("post-stop", 1), ("install", 2), ("undrain", 2)] {
        assert_eq!(machine.starts(later, version), 1, "starts of {later}");
    }
    drop(agent);
}

#[tokio::test]
async fn a_service_that_is_never_ready_is_forced() {
    forced_past("ready-to-update", Go::Prepare, Go::Drain, false).await;
}

#[tokio::test]
async fn a_service_that_is_never_ready_is_forced_after_a_crash() {
    forced_past("ready-to-update", Go::Prepare, Go::Drain, true).await;
}

#[tokio::test]
async fn a_drain_that_never_ends_is_forced() {
    forced_past("drain", Go::Drain, Go::Replace, false).await;
}

#[tokio::test]
async fn a_drain_that_never_ends_is_forced_after_a_crash() {
    forced_past("drain", Go::Drain, Go::Replace, true).await;
}

#[tokio::test]
async fn a_grant_that_is_lost_after_the_stop_starts_nothing_any_more() {
    for (hook, release) in [("install", 1), ("init", 2)] {
        let (machine, coordinator, agent) = inside(hook).await;
        withdraw(&machine, &coordinator).await;
        machine.open(hook);
        until_logged(&machine, "ending=Withdrawn timings").await;
        check_left_down(&machine, &coordinator, release).await;
        // Not even `undrain`, which a drained step that still holds its grant is owed.
        assert_eq!(machine.starts("undrain", 1) + machine.starts("undrain", 2), 1);
        agent.kill();
        let _agent = machine.start(&coordinator);
        coordinator.until("the second hello", |said| said.hellos.len() == 2).await;
        until_logged(&machine, "left down").await;
        check_left_down(&machine, &coordinator, release).await;
        // The next grant brings it up.
        coordinator.run_step(2, Some(1), 30).await;
        assert_eq!(machine.starts("run", 2), 1);
    }
}

#[tokio::test]
async fn orders_of_the_past_take_no_grant_away() {
    let (machine, coordinator, agent) = inside("install").await;
    agent.kill();
    // A peer that hasn't heard of the grant yet: it orders nothing.
    let ordered = coordinator.orders().step;
    coordinator.order_of_the_past(19, |orders| orders.step = None);
    let _agent = machine.start(&coordinator);
    until_heard(&machine, &coordinator).await;
    machine.open("install");
    machine.until_started("run", 2, 1).await;
    coordinator.order(|orders| orders.step = ordered);
    // What the agent has reported by now is answered at once, the rest as it comes.
    coordinator.drive(true);
    coordinator.until_finished(20).await;
}
