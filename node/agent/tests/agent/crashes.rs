//! The agent, the service and the machine die at every point of a step; the hooks' own record says what was started.

use rollcall_proto::v1::step_report::Event;
use rollcall_proto::v1::{Failed, Go};

use crate::support::{Coordinator, Machine, Package, eventually};

const EVERY_HOOK: [(&str, u32); 9] = [
    ("ready-to-update", 1),
    ("drain", 1),
    ("pre-stop", 1),
    ("post-stop", 1),
    ("install", 2),
    ("init", 2),
    ("run", 2),
    ("undrain", 2),
    ("run", 1),
];

/// A machine that runs version 1, and a version 2 to go to.
async fn machine(old: Package, new: Package) -> (Machine, Coordinator, crate::support::Agent) {
    let machine = Machine::with(&[old, new]);
    let coordinator = Coordinator::start().await;
    let agent = machine.start(&coordinator);
    coordinator.run_step(1, None, 10).await;
    (machine, coordinator, agent)
}

fn check_starts(machine: &Machine, again: &str, times: usize) {
    for (hook, version) in EVERY_HOOK {
        let expected = if hook == again { times } else { 1 };
        assert_eq!(machine.starts(hook, version), expected, "starts of {hook} in version {version}");
    }
}

/// Kills the agent while `hook` runs; everything else must have been started once.
async fn agent_dies_inside(hook: &str, expected_starts: usize) {
    let gated = |version| Package::new(version).gate(hook);
    let (old, new) = match hook {
        "install" | "init" | "undrain" => (Package::new(1), gated(2)),
        _ => (gated(1), Package::new(2)),
    };
    let version = if old.has_gate() { 1 } else { 2 };
    let (machine, coordinator, agent) = machine(old, new).await;
    coordinator.order_step(2, Some(1), 20, Go::Prepare);
    machine.until_started(hook, version, 1).await;
    agent.kill();
    let _agent = machine.start(&coordinator);
    machine.open(hook);
    coordinator.until_finished(20).await;
    check_starts(&machine, hook, expected_starts);
}

#[tokio::test]
async fn agent_dies_inside_ready_to_update() {
    agent_dies_inside("ready-to-update", 2).await;
}

#[tokio::test]
async fn agent_dies_inside_drain() {
    agent_dies_inside("drain", 2).await;
}

#[tokio::test]
async fn agent_dies_inside_pre_stop() {
    agent_dies_inside("pre-stop", 1).await;
}

#[tokio::test]
async fn agent_dies_inside_post_stop() {
    agent_dies_inside("post-stop", 1).await;
}

#[tokio::test]
async fn agent_dies_inside_install() {
    agent_dies_inside("install", 2).await;
}

#[tokio::test]
async fn agent_dies_inside_init() {
    agent_dies_inside("init", 2).await;
}

#[tokio::test]
async fn agent_dies_inside_undrain() {
    agent_dies_inside("undrain", 2).await;
}

/// Kills the agent at a boundary where it waits; then nothing at all is started twice.
async fn agent_dies_at(event: &str, go: Go) {
    let (machine, coordinator, agent) = machine(Package::new(1), Package::new(2)).await;
    coordinator.order_step_up_to(2, Some(1), 20, go);
    coordinator.until_event(event, 2).await;
    agent.kill();
    let _agent = machine.start(&coordinator);
    coordinator.drive(true);
    coordinator.until_finished(20).await;
    check_starts(&machine, "", 1);
}

#[tokio::test]
async fn agent_dies_before_commit_point_a() {
    // Prepared is reported, not synced with the coordinator's answer: that is asked again, nothing else.
    agent_dies_at("prepared", Go::Prepare).await;
}

#[tokio::test]
async fn agent_dies_before_commit_point_b() {
    agent_dies_at("drained", Go::Drain).await;
}

#[tokio::test]
async fn agent_dies_while_verifying() {
    agent_dies_at("started", Go::Replace).await;
}

#[tokio::test]
async fn orders_that_lag_behind_the_journal_change_nothing() {
    let (machine, coordinator, agent) = machine(Package::new(1), Package::new(2)).await;
    coordinator.order_step_up_to(2, Some(1), 20, Go::Replace);
    coordinator.until_event("started", 2).await;
    coordinator.order(|orders| orders.step.as_mut().unwrap().go = Go::Drain.into());
    let heard = format!("orders revision={}\n", coordinator.revision());
    eventually("the orders", || machine.log().contains(&heard).then_some(())).await;
    // It still takes part in everything, and doesn't turn in circles.
    coordinator.until("it to be healthy", |said| said.is_healthy(2)).await;
    assert!(machine.log().matches("action=Verify").count() < 10);
    assert!(agent.terminate().await.success());
}

#[tokio::test]
async fn after_commit_point_b_the_agent_needs_nobody() {
    let (machine, coordinator, agent) = machine(Package::new(1), Package::new(2).gate("install")).await;
    coordinator.order_step(2, Some(1), 20, Go::Prepare);
    machine.until_started("install", 2, 1).await;
    agent.kill();
    coordinator.stop().await;
    let _agent = machine.start(&coordinator);
    machine.open("install");
    machine.until_started("run", 2, 1).await;
    coordinator.restart().await;
    coordinator.until_finished(20).await;
    check_starts(&machine, "install", 2);
}

#[tokio::test]
async fn a_service_that_dies_with_the_agent_is_started_again_and_proved_again() {
    let (machine, coordinator, agent) = machine(Package::new(1), Package::new(2)).await;
    coordinator.order_step_up_to(2, Some(1), 20, Go::Replace);
    coordinator.until_event("started", 2).await;
    let old = machine.recorded_pid().unwrap();
    agent.kill();
    machine.kill_everything();
    let _agent = machine.start(&coordinator);
    let is_other = |event: &Event| match event {
        Event::Started(started) => started.instance.as_ref().is_some_and(|instance| instance.pid != old),
        _ => false,
    };
    coordinator.until("another instance", |said| said.events_of(20).iter().any(is_other)).await;
    coordinator.drive(true);
    coordinator.until_finished(20).await;
    check_starts_after_death(&machine);
}

fn check_starts_after_death(machine: &Machine) {
    assert_eq!((machine.starts("install", 2), machine.starts("run", 2), machine.starts("run", 1)), (1, 2, 1));
}

/// Kills the agent inside `install`, where version 2 has this manifest and this probe.
async fn install_is_settled(manifest: &str, probe: Option<&str>) -> (Machine, Coordinator, crate::support::Agent) {
    let mut new = Package::new(2).gate("install").manifest(manifest);
    if let Some(body) = probe {
        new = new.hook("probe", body);
    }
    let (machine, coordinator, agent) = machine(Package::new(1), new).await;
    coordinator.order_step(2, Some(1), 20, Go::Prepare);
    machine.until_started("install", 2, 1).await;
    agent.kill();
    machine.open("install");
    let agent = machine.start(&coordinator);
    (machine, coordinator, agent)
}

#[tokio::test]
async fn a_probe_that_says_it_happened_spares_the_install() {
    let (machine, coordinator, _agent) = install_is_settled("", Some("exit 0")).await;
    coordinator.until_finished(20).await;
    assert_eq!((machine.starts("probe", 2), machine.starts("install", 2)), (1, 1));
}

#[tokio::test]
async fn a_probe_that_says_it_did_not_happen_runs_the_install() {
    let (machine, coordinator, _agent) = install_is_settled("", Some("exit 1")).await;
    coordinator.until_finished(20).await;
    assert_eq!((machine.starts("probe", 2), machine.starts("install", 2)), (1, 2));
}

fn last_failure(said: &crate::support::Said) -> Failed {
    let failures = said.step_events().filter_map(|event| match event {
        Event::Failed(failed) => Some(failed.clone()),
        _ => None,
    });
    failures.last().unwrap()
}

#[tokio::test]
async fn an_install_that_must_not_run_twice_fails_and_the_old_release_comes_back() {
    let (machine, coordinator, _agent) = install_is_settled("[hooks.install]\nrerun = \"fail\"\n", None).await;
    let said = coordinator.until_event("failed", 1).await;
    assert_eq!(last_failure(&said).reason, "outcome_unknown");
    machine.until_started("run", 1, 2).await;
    coordinator.until("version 1 to be healthy", |said| said.is_healthy(1)).await;
    assert_eq!(machine.starts("install", 2), 1);
}

#[tokio::test]
async fn an_undrain_that_must_not_run_twice_fails_the_step() {
    let new = Package::new(2).gate("undrain").manifest("[hooks.undrain]\nrerun = \"fail\"\n");
    let (machine, coordinator, agent) = machine(Package::new(1), new).await;
    coordinator.order_step(2, Some(1), 20, Go::Prepare);
    machine.until_started("undrain", 2, 1).await;
    agent.kill();
    machine.open("undrain");
    let _agent = machine.start(&coordinator);
    let said = coordinator.until_event("failed", 1).await;
    assert_eq!(last_failure(&said).reason, "outcome_unknown");
    eventually("the end", || machine.log().contains("step closed group=app.default ending=Failed").then_some(())).await;
    assert_eq!(machine.starts("undrain", 2), 1);
}

#[tokio::test]
async fn a_reboot_that_install_asks_for_is_survived() {
    let machine = Machine::with(&[Package::new(1), Package::new(2).hook("install", "exit 35")])
        .config("reboot_command = [\"/bin/sh\", \"-c\", \"echo begin reboot >> $WITNESS\"]\n")
        .own_boot();
    let coordinator = Coordinator::start().await;
    let agent = machine.start(&coordinator);
    coordinator.run_step(1, None, 10).await;
    coordinator.order_step(2, Some(1), 20, Go::Prepare);
    let said = coordinator.until_event("reboot_begun", 1).await;
    let Some(Event::RebootBegun(begun)) = said.step_events().last() else { panic!("the last event") };
    assert!(begun.asked_for && begun.boot_id == machine.boot_id());
    eventually("the reboot command", || machine.witness().contains(&"begin reboot".to_owned()).then_some(())).await;

    machine.cut_power(agent);
    let _agent = machine.start(&coordinator);
    let said = coordinator.until_finished(20).await;
    assert!(said.events().ends_with(&["reboot_begun", "installed", "started", "finished"]), "{:?}", said.events());
    check_starts(&machine, "", 1);
}

#[tokio::test]
async fn a_machine_that_reboots_again_and_again_fails_its_step() {
    let machine = Machine::with(&[Package::new(1), Package::new(2).gate("install")]).own_boot();
    let coordinator = Coordinator::start().await;
    let mut agent = machine.start(&coordinator);
    coordinator.run_step(1, None, 10).await;
    coordinator.order_step(2, Some(1), 20, Go::Prepare);
    for boots in 1..=4 {
        machine.until_started("install", 2, boots).await;
        machine.cut_power(agent);
        agent = machine.start(&coordinator);
    }
    let said = coordinator.until_event("failed", 1).await;
    assert_eq!(last_failure(&said).reason, "max_reboots");
    assert_eq!(machine.starts("install", 2), 4);
    coordinator.until("version 1 to be healthy", |said| said.is_healthy(1)).await;
}

#[tokio::test]
async fn a_power_cut_while_verifying_starts_the_new_release() {
    let machine = Machine::with(&[Package::new(1), Package::new(2)]).own_boot();
    let coordinator = Coordinator::start().await;
    let agent = machine.start(&coordinator);
    coordinator.run_step(1, None, 10).await;
    coordinator.order_step_up_to(2, Some(1), 20, Go::Replace);
    coordinator.until_event("started", 2).await;
    machine.cut_power(agent);
    let _agent = machine.start(&coordinator);
    machine.until_started("run", 2, 2).await;
    coordinator.drive(true);
    coordinator.until_finished(20).await;
    check_starts_after_death(&machine);
}
