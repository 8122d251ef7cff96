//! Who the service is: never another process, never an old one, never one that it has left behind.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use rollcall_node::disk::seal_text;
use rollcall_node::process::read_stat;
use rollcall_proto::v1::report::Kind as Reported;
use rollcall_proto::v1::step_report::Event;
use rollcall_proto::v1::{Go, Health};

use crate::support::{Agent, Coordinator, Machine, Package, Said, eventually, ident};

async fn running(machine: Machine) -> (Machine, Coordinator, Agent) {
    let coordinator = Coordinator::start().await;
    let agent = machine.start(&coordinator);
    coordinator.run_step(1, None, 10).await;
    (machine, coordinator, agent)
}

fn is_alive(pid: u32) -> bool {
    read_stat(pid).is_some_and(|stat| !stat.is_zombie)
}

fn kill(pid: u32) {
    assert!(Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap().success());
}

/// A process of somebody else that leads its group, as the service would.
fn stranger() -> Child {
    Command::new("sleep").arg("1000").stdin(Stdio::null()).process_group(0).spawn().unwrap()
}

fn write_record(machine: &Machine, record: &str) {
    for name in ["instance", "instance.copy"] {
        fs::write(machine.service().join(name), record).unwrap();
    }
}

fn record(pid: u32, boot_id: &str) -> String {
    let start_time = read_stat(pid).unwrap().start_time;
    seal_text(&format!(
        "pid = {pid}\nstart_time = {start_time}\nboot_id = \"{boot_id}\"\nrelease = \"{}\"\nstart = \"ab\"\n",
        ident(1)
    ))
}

#[tokio::test]
async fn a_process_that_has_pid_and_start_time_in_another_boot_is_left_alone() {
    let packages = [Package::new(1), Package::new(2)];
    let (machine, coordinator, agent) = running(Machine::with(&packages).own_boot()).await;
    let mut stranger = stranger();
    write_record(&machine, &record(stranger.id(), &machine.boot_id()));
    machine.cut_power(agent);
    let _agent = machine.start(&coordinator);
    machine.until_started("run", 1, 2).await;
    eventually("a record of its own", || machine.recorded_pid().filter(|pid| *pid != stranger.id())).await;
    coordinator.run_step(2, Some(1), 20).await;
    assert!(stranger.try_wait().unwrap().is_none(), "it was signalled");
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}

#[tokio::test]
async fn a_record_that_names_nobody_of_ours_is_not_believed() {
    let (machine, coordinator, mut agent) = running(Machine::with(&[Package::new(1)]).own_boot()).await;
    let boot_id = machine.boot_id();
    let whole = fs::read_to_string(machine.service().join("instance")).unwrap();
    let flipped = whole.replace("acme/app/1.0", "acme/app/3.0");
    let zero = seal_text(&format!("pid = 0\nstart_time = 0\nboot_id = \"{boot_id}\"\nrelease = \"{}\"\n", ident(1)));
    // The first process has led its group since the boot.
    let records = ["", "pid = ", "\0\0\0\0", &zero, &flipped, &record(1, &boot_id)];
    for (round, record) in (2..).zip(records) {
        agent.kill();
        machine.kill_everything();
        write_record(&machine, record);
        agent = machine.start(&coordinator);
        machine.until_started("run", 1, round).await;
        let said = coordinator.until("a hello", |said| said.hellos.len() >= round).await;
        assert_eq!(said.hellos.last().unwrap().services[0].release, ident(1), "{record:?}");
    }
    assert!(agent.terminate().await.success());
}

#[tokio::test]
async fn a_flipped_bit_in_the_record_does_not_change_what_runs() {
    let (machine, coordinator, agent) = running(Machine::with(&[Package::new(1), Package::new(2)])).await;
    let pid = machine.recorded_pid().unwrap();
    agent.kill();
    let whole = fs::read_to_string(machine.service().join("instance")).unwrap();
    write_record(&machine, &whole.replace("acme/app/1.0/20260101", "acme/app/2.0/20260102"));
    let _agent = machine.start(&coordinator);
    let said = coordinator.until("the second hello", |said| said.hellos.len() == 2).await;
    let instance = said.hellos[1].services[0].instance.clone().unwrap();
    assert_eq!((instance.pid, instance.release), (pid, ident(1)));
}

/// The old process takes its time to die, and what it serves still answers: the step waits for its end.
#[tokio::test]
async fn an_old_process_that_is_slow_to_die_proves_nothing() {
    let slow = "trap 'sleep 3; rm -f $ROLLCALL_DATA_DIR/port; exit 0' TERM; touch $ROLLCALL_DATA_DIR/port; \
                while :; do sleep 0.05; done";
    let answers = "[ -e $ROLLCALL_DATA_DIR/port ]";
    let old = Package::new(1).hook("run", slow).hook("health-check", answers);
    let old = old.manifest("[service]\nstop_timeout = \"30s\"\n");
    let new =
        Package::new(2).hook("run", "touch $ROLLCALL_DATA_DIR/port; exec sleep 1000").hook("health-check", answers);
    let (machine, coordinator, _agent) = running(Machine::with(&[old, new])).await;
    let old = machine.recorded_pid().unwrap();
    coordinator.order_step(2, Some(1), 20, Go::Prepare);
    machine.until_started("pre-stop", 1, 1).await;
    // What is reported when the old one has just gone, and before that.
    let said = coordinator.until_event("stopped", 2).await;
    assert!(!is_alive(old), "stopped was reported while it lived");
    let stopped_at = position(&said, |event| matches!(event, Event::Stopped(_)));
    for report in &said.reports[..stopped_at] {
        if let Some(Reported::Status(status)) = &report.kind {
            assert!(status.instance.as_ref().is_none_or(|instance| instance.release == ident(1)), "{status:?}");
        }
    }
    let said = coordinator.until_finished(20).await;
    let Some(Event::Stopped(stopped)) = said.step_events().filter(|event| matches!(event, Event::Stopped(_))).last()
    else {
        panic!("stopped")
    };
    assert!(!stopped.killed);
    assert_ne!(machine.recorded_pid(), Some(old));
}

fn position(said: &Said, is_it: impl Fn(&Event) -> bool) -> usize {
    let is_step = |report: &rollcall_proto::v1::Report| match &report.kind {
        Some(Reported::Step(step)) => step.fence == 20 && step.event.as_ref().is_some_and(&is_it),
        _ => false,
    };
    said.reports.iter().position(is_step).unwrap()
}

#[tokio::test]
async fn an_old_process_that_never_dies_is_killed_and_the_step_says_so() {
    let stubborn = "trap '' TERM; while :; do sleep 0.05; done";
    let old = Package::new(1).hook("run", stubborn).manifest("[service]\nstop_timeout = \"300ms\"\n");
    let (machine, coordinator, _agent) = running(Machine::with(&[old, Package::new(2)])).await;
    let pid = machine.recorded_pid().unwrap();
    let said = coordinator.run_step(2, Some(1), 20).await;
    assert!(said.events_of(20).iter().any(|event| matches!(event, Event::Stopped(stopped) if stopped.killed)));
    assert!(!is_alive(pid));
}

/// A service that puts itself into the background has no process that could prove anything.
#[tokio::test]
async fn a_service_that_double_forks_fails_its_step_and_leaks_nothing() {
    let daemon = "setsid sleep 1000 & echo $! >> $ROLLCALL_DATA_DIR/daemons; exit 0";
    let (machine, coordinator, agent) =
        running(Machine::with(&[Package::new(1), Package::new(2).hook("run", daemon)])).await;
    coordinator.order_step_up_to(2, Some(1), 20, Go::Replace);
    let said = coordinator.until_event("failed", 1).await;
    let Some(Event::Failed(failed)) = said.step_events().last() else { panic!("failed") };
    assert_eq!(failed.reason, "crash_loop");
    assert!(failed.detail.contains("must stay in the foreground"), "{}", failed.detail);
    agent.kill();
    let pids = fs::read_to_string(machine.service().join("data/daemons")).unwrap();
    let pids: Vec<u32> = pids.lines().map(|pid| pid.parse().unwrap()).collect();
    assert!(pids.len() >= 5);
    // All but one that was started as the agent died.
    let alive = pids.iter().filter(|pid| is_alive(**pid)).count();
    assert!(alive <= 1, "{alive} daemons of {} were left", pids.len());
    // The next agent doesn't take that one for the service either.
    coordinator.order(|orders| orders.step = None);
    let _agent = machine.start(&coordinator);
    machine.until_started("run", 2, pids.len() + 1).await;
    let is_gone = || pids.iter().all(|pid| !is_alive(*pid)).then_some(());
    eventually("the end of every earlier daemon", is_gone).await;
}

/// The service died while no agent was there; what it had started lives on and carries its mark.
#[tokio::test]
async fn what_a_dead_service_has_left_behind_is_not_the_service() {
    let run = "setsid sleep 1000 & echo $! > $ROLLCALL_DATA_DIR/child; exec sleep 1000";
    let (machine, coordinator, agent) = running(Machine::with(&[Package::new(1).hook("run", run)])).await;
    let main = machine.recorded_pid().unwrap();
    let read = || fs::read_to_string(machine.service().join("data/child")).ok()?.trim().parse::<u32>().ok();
    let child = eventually("the child", read).await;
    agent.kill();
    kill(main);
    let _agent = machine.start(&coordinator);
    machine.until_started("run", 1, 2).await;
    let is_another = |said: &Said| {
        said.is_healthy(1) && said.status().unwrap().instance.as_ref().is_some_and(|instance| instance.pid != main)
    };
    let said = coordinator.until("another process to be healthy", is_another).await;
    assert_ne!(said.status().unwrap().instance.as_ref().unwrap().pid, child);
    assert!(!is_alive(child), "it ran beside the new process");
}

#[tokio::test]
async fn a_process_killed_while_it_is_verified_has_to_prove_itself_again() {
    let (machine, coordinator, _agent) = running(Machine::with(&[Package::new(1), Package::new(2)])).await;
    coordinator.order_step_up_to(2, Some(1), 20, Go::Replace);
    let said = coordinator.until("version 2 to be healthy", |said| said.is_healthy(2)).await;
    let first = said.status().unwrap().instance.clone().unwrap();
    let before = said.reports.len();
    kill(first.pid);
    machine.until_started("run", 2, 2).await;
    let is_again = |said: &Said| said.is_healthy(2) && said.status().unwrap().instance.as_ref() != Some(&first);
    let said = coordinator.until("another process to be healthy", is_again).await;
    // The bad sample isn't lost between two good ones.
    let statuses = said.reports[before..].iter().filter_map(|report| match &report.kind {
        Some(Reported::Status(status)) => Some((status.health(), status.instance.is_some())),
        _ => None,
    });
    assert!(statuses.into_iter().any(|status| status == (Health::Critical, false)));
    let started = said.events_of(20).into_iter().filter_map(|event| match event {
        Event::Started(started) => started.instance,
        _ => None,
    });
    let started: Vec<u32> = started.map(|instance| instance.pid).collect();
    assert_eq!(started.len(), 2);
    assert_eq!(started[0], first.pid);
    coordinator.drive(true);
    coordinator.until_finished(20).await;
    assert_eq!((machine.starts("install", 2), machine.starts("undrain", 2)), (1, 1));
}

#[tokio::test]
async fn a_release_that_crashes_again_and_again_never_succeeds() {
    let (machine, coordinator, _agent) =
        running(Machine::with(&[Package::new(1), Package::new(2).hook("run", "sleep 0.2; exit 7")])).await;
    coordinator.order_step_up_to(2, Some(1), 20, Go::Replace);
    let said = coordinator.until_event("failed", 1).await;
    let Some(Event::Failed(failed)) = said.step_events().last() else { panic!("failed") };
    assert_eq!(failed.reason, "crash_loop");
    assert!(failed.detail.contains("exited with 7"), "{}", failed.detail);
    assert!(!said.is_finished(20));
    assert!(machine.starts("run", 2) >= 5);
}
