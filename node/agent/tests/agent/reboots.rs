//! Machines that reboot inside a step, or should and don't. A reboot is proved by the boot id alone.

use rollcall_proto::v1::step_report::Event;
use rollcall_proto::v1::{Failed, Go};

use crate::support::{Agent, Coordinator, Machine, Package, eventually};

async fn running(machine: Machine) -> (Machine, Coordinator, Agent) {
    let coordinator = Coordinator::start().await;
    let agent = machine.start(&coordinator);
    coordinator.run_step(1, None, 10).await;
    (machine, coordinator, agent)
}

/// A machine whose `reboot_command` is this, and a release that wants a reboot.
async fn asked_by(command: &str) -> (Machine, Coordinator, Agent) {
    let packages = [Package::new(1), Package::new(2).hook("install", "exit 35")];
    let config = format!("reboot_command = [\"/bin/sh\", \"-c\", {command:?}]\nreboot_patience = \"200ms\"\n");
    let (machine, coordinator, agent) = running(Machine::with(&packages).config(&config)).await;
    coordinator.order_step(2, Some(1), 20, Go::Prepare);
    (machine, coordinator, agent)
}

async fn failure_of_step_20(coordinator: &Coordinator) -> Failed {
    let said = coordinator.until_event("failed", 1).await;
    let failed = said.events_of(20).into_iter().find_map(|event| match event {
        Event::Failed(failed) => Some(failed),
        _ => None,
    });
    failed.unwrap()
}

/// The step fails by name, and the old release is up again.
async fn check_given_up(machine: &Machine, coordinator: &Coordinator, why: &str) {
    let failed = failure_of_step_20(coordinator).await;
    assert_eq!(failed.reason, "reboot_failed");
    assert!(failed.detail.contains(why), "{}", failed.detail);
    coordinator.until("version 1 to be healthy", |said| said.is_healthy(1)).await;
    let asked = machine.witness().iter().filter(|line| *line == "begin reboot").count();
    assert_eq!(asked, 3, "it is asked a few times");
    assert_eq!((machine.starts("install", 2), machine.starts("run", 2)), (1, 0));
}

#[tokio::test]
async fn a_reboot_command_that_does_nothing_is_asked_again_and_then_given_up() {
    let (machine, coordinator, _agent) = asked_by("echo begin reboot >> $WITNESS").await;
    check_given_up(&machine, &coordinator, "still there").await;
}

#[tokio::test]
async fn a_reboot_command_that_fails_is_tried_again_and_then_given_up() {
    let (machine, coordinator, _agent) = asked_by("echo begin reboot >> $WITNESS; exit 4").await;
    check_given_up(&machine, &coordinator, "exited with 4").await;
}

#[tokio::test]
async fn an_agent_that_is_restarted_instead_of_the_machine_asks_again() {
    let packages = [Package::new(1), Package::new(2).hook("install", "exit 35")];
    let config = "reboot_command = [\"/bin/sh\", \"-c\", \"echo begin reboot >> $WITNESS\"]\n";
    let (machine, coordinator, agent) = running(Machine::with(&packages).config(config).own_boot()).await;
    coordinator.order_step(2, Some(1), 20, Go::Prepare);
    let asked =
        |times| move |machine: &Machine| machine.witness().iter().filter(|it| *it == "begin reboot").count() >= times;
    eventually("the command", || asked(1)(&machine).then_some(())).await;
    agent.kill();
    machine.kill_everything();
    let agent = machine.start(&coordinator);
    eventually("the command again", || asked(2)(&machine).then_some(())).await;
    assert_eq!(
        (machine.starts("install", 2), machine.starts("run", 2)),
        (1, 0),
        "the boot is the same: nothing is proved"
    );
    machine.cut_power(agent);
    let _agent = machine.start(&coordinator);
    coordinator.until_finished(20).await;
    assert_eq!((machine.starts("install", 2), machine.starts("init", 2)), (1, 1));
}

/// Hooks that reboot by themselves are told which reboot it is.
#[tokio::test]
async fn a_hook_that_reboots_by_itself_is_told_and_goes_on() {
    let install = "echo \"saw $ROLLCALL_ATTEMPT $ROLLCALL_REBOOTS\" >> $WITNESS; \
                   [ $ROLLCALL_REBOOTS -ge 2 ] || while :; do sleep 0.05; done";
    let packages = [Package::new(1), Package::new(2).hook("install", install)];
    let (machine, coordinator, mut agent) = running(Machine::with(&packages).own_boot()).await;
    coordinator.order_step(2, Some(1), 20, Go::Prepare);
    for boots in 1..=2 {
        machine.until_started("install", 2, boots).await;
        machine.cut_power(agent);
        agent = machine.start(&coordinator);
    }
    let said = coordinator.until_finished(20).await;
    let saw: Vec<String> = machine.witness().into_iter().filter(|line| line.starts_with("saw")).collect();
    assert_eq!(saw, ["saw 1 0", "saw 1 1", "saw 1 2"]);
    let begun = said.events_of(20).into_iter().filter_map(|event| match event {
        Event::RebootBegun(begun) => Some((begun.boot_id, begun.asked_for)),
        _ => None,
    });
    // What wasn't answered before the power went is said again.
    let mut begun: Vec<_> = begun.collect();
    begun.dedup();
    assert_eq!(begun.iter().map(|(_, asked_for)| *asked_for).collect::<Vec<_>>(), [false, false]);
    assert_eq!((machine.starts("init", 2), machine.starts("run", 2)), (1, 1));
    assert!(agent.terminate().await.success());
}

/// Reboots that nobody asked for, in the phases where nothing is installed.
#[tokio::test]
async fn a_reboot_in_any_other_phase_loses_and_repeats_nothing() {
    for (hook, version, starts) in [
        ("ready-to-update", 1, 2),
        ("drain", 1, 2),
        ("pre-stop", 1, 1),
        ("post-stop", 1, 1),
        ("init", 2, 2),
        ("undrain", 2, 2),
    ] {
        let gated = |n| if n == version { Package::new(n).gate(hook) } else { Package::new(n) };
        let machine = Machine::with(&[gated(1), gated(2)]).own_boot();
        let (machine, coordinator, agent) = running(machine).await;
        coordinator.order_step(2, Some(1), 20, Go::Prepare);
        machine.until_started(hook, version, 1).await;
        machine.cut_power(agent);
        machine.open(hook);
        let _agent = machine.start(&coordinator);
        coordinator.until_finished(20).await;
        // A service that isn't up yet has nothing to be asked.
        assert!((1..=starts).contains(&machine.starts(hook, version)), "starts of {hook}");
        for (other, version) in [("drain", 1), ("pre-stop", 1), ("post-stop", 1), ("install", 2), ("undrain", 2)] {
            assert!(other == hook || machine.starts(other, version) <= 1, "{other} was started again, cut in {hook}");
        }
        assert_eq!(machine.starts("install", 2), 1);
    }
}
