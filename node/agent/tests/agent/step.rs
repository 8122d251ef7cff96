//! Whole steps.

use rollcall_proto::v1::step_report::Event;
use rollcall_proto::v1::{Go, Health};

use crate::support::{Coordinator, Machine, Package, ident};

const WHOLE: [&str; 7] = ["accepted", "prepared", "drained", "stopped", "installed", "started", "finished"];

#[tokio::test]
async fn an_unprovisioned_node_goes_straight_through() {
    let machine = Machine::with(&[Package::new(1)]);
    let coordinator = Coordinator::start().await;
    let _agent = machine.start(&coordinator);
    let said = coordinator.until("the hello", |said| !said.hellos.is_empty()).await;
    assert_eq!(said.hellos[0].services[0].health(), Health::Unprovisioned);

    let said = coordinator.run_step(1, None, 10).await;
    assert_eq!(said.events(), WHOLE);
    let begun: Vec<String> = machine
        .witness()
        .iter()
        .filter_map(|line| line.strip_prefix("begin ").map(str::to_owned))
        .filter(|line| !line.starts_with("post-run"))
        .collect();
    assert_eq!(begun[..3], ["install installing 1 10 1", "init starting 1 10 1", "run starting 1 10 1"]);
    assert_eq!(machine.starts("drain", 1) + machine.starts("pre-stop", 1), 0);
}

#[tokio::test]
async fn an_update_runs_every_hook_once_and_in_order() {
    let machine = Machine::with(&[Package::new(1), Package::new(2)]);
    let coordinator = Coordinator::start().await;
    let _agent = machine.start(&coordinator);
    coordinator.run_step(1, None, 10).await;
    let before = machine.witness().len();
    let said = coordinator.run_step(2, Some(1), 20).await;
    assert_eq!(said.events()[7..], WHOLE);

    let lines = machine.witness()[before..].to_vec();
    let hooks: Vec<&str> = lines
        .iter()
        .filter(|line| line.starts_with("begin ") && !line.contains("post-run"))
        .map(|line| line.as_str())
        .collect();
    assert_eq!(
        hooks,
        [
            "begin ready-to-update preparing 1 20 1",
            "begin drain draining 1 20 1",
            "begin pre-stop stopping 1 20 1",
            "begin post-stop stopping 1 20 1",
            "begin install installing 1 20 2",
            "begin init starting 1 20 2",
            "begin run starting 1 20 2",
            "begin undrain verifying 1 20 2",
        ]
    );
    let status = said.status().unwrap();
    assert_eq!((status.release.as_str(), status.health()), (ident(2).as_str(), Health::Healthy));
    let Some(Event::Finished(finished)) = said.step_events().last() else { panic!("the last event") };
    assert!(finished.total_us >= finished.hooks_us + finished.service_us + finished.soak_us);
    assert!(finished.hooks_us > 0 && finished.service_us > 0);
}

#[tokio::test]
async fn nothing_is_disturbed_before_its_commit_point() {
    let machine = Machine::with(&[Package::new(1), Package::new(2)]);
    let coordinator = Coordinator::start().await;
    let _agent = machine.start(&coordinator);
    coordinator.run_step(1, None, 10).await;
    coordinator.drive(false);
    // A first release is undrained too, once it has succeeded.
    assert_eq!(machine.starts("undrain", 1), 1);

    coordinator.order_step(2, Some(1), 20, Go::Prepare);
    coordinator.until_event("prepared", 2).await;
    assert_eq!(machine.starts("drain", 1), 0);
    coordinator.go(Go::Drain);
    coordinator.until_event("drained", 2).await;
    assert_eq!(machine.starts("pre-stop", 1), 0);

    coordinator.go(Go::TurnBack);
    let said = coordinator.until_event("turned_back", 1).await;
    assert_eq!((machine.starts("undrain", 1), machine.starts("install", 2)), (2, 0));
    assert_eq!(said.status().unwrap().release, ident(1));
    assert_eq!(machine.starts("run", 1), 1);
}

#[tokio::test]
async fn install_runs_once_per_release_on_a_node() {
    let machine = Machine::with(&[Package::new(1), Package::new(2)]);
    let coordinator = Coordinator::start().await;
    let _agent = machine.start(&coordinator);
    coordinator.run_step(1, None, 10).await;
    coordinator.run_step(2, Some(1), 20).await;
    let said = coordinator.run_step(1, Some(2), 30).await;
    assert_eq!((machine.starts("install", 1), machine.starts("install", 2)), (1, 1));
    let ran: Vec<bool> = said
        .step_events()
        .filter_map(|event| match event {
            Event::Installed(installed) => Some(installed.hook_ran),
            _ => None,
        })
        .collect();
    assert_eq!(ran, [true, true, false]);
}
