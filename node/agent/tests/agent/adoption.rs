//! The service outlives the agent, and is never taken for another process.

use std::fs;
use std::process::{Command, Stdio};

use rollcall_node::process::read_stat;
use rollcall_proto::v1::{Go, Health};

use crate::support::{Coordinator, Machine, Package, eventually};

async fn running() -> (Machine, Coordinator, crate::support::Agent, u32) {
    let machine = Machine::with(&[Package::new(1), Package::new(2)]);
    let coordinator = Coordinator::start().await;
    let agent = machine.start(&coordinator);
    coordinator.run_step(1, None, 10).await;
    let pid = machine.recorded_pid().unwrap();
    (machine, coordinator, agent, pid)
}

async fn until_hello(coordinator: &Coordinator, times: usize) -> crate::support::Said {
    coordinator.until("a hello", |said| said.hellos.len() >= times).await
}

/// What was reported since then.
fn health_since(said: &crate::support::Said, before: usize) -> Vec<Health> {
    let statuses = said.reports[before..].iter().filter_map(|report| match &report.kind {
        Some(rollcall_proto::v1::report::Kind::Status(status)) => Some(status.health()),
        _ => None,
    });
    statuses.collect()
}

#[tokio::test]
async fn a_restarted_agent_re_adopts_the_service() {
    let (machine, coordinator, agent, pid) = running().await;
    coordinator.until("version 1 to be healthy", |said| said.is_healthy(1)).await;
    agent.kill();
    let before = coordinator.said().reports.len();
    let _agent = machine.start(&coordinator);
    let said = until_hello(&coordinator, 2).await;
    let hello = said.hellos.last().unwrap();
    assert_eq!((hello.highest_fence, hello.last_epoch), (10, 1));
    assert!(!hello.cluster_id.is_empty());
    // Nobody who looks at this member sees it as anything but healthy.
    assert_eq!(hello.services[0].health(), Health::Healthy);
    let said = coordinator.until("a report", |said| said.reports.len() > before).await;
    assert!(health_since(&said, before).iter().all(|health| *health == Health::Healthy));
    assert_eq!(machine.recorded_pid(), Some(pid));
    assert_eq!(machine.starts("run", 1), 1);
}

#[tokio::test]
async fn an_agent_that_is_asked_to_end_leaves_the_service_running() {
    let (machine, _coordinator, agent, pid) = running().await;
    assert!(agent.terminate().await.success());
    assert!(read_stat(pid).is_some_and(|stat| !stat.is_zombie));
    assert_eq!(machine.starts("pre-stop", 1), 0);
}

#[tokio::test]
async fn a_re_adopted_service_is_stopped_and_its_end_observed() {
    let (machine, coordinator, agent, pid) = running().await;
    agent.kill();
    let _agent = machine.start(&coordinator);
    until_hello(&coordinator, 2).await;
    coordinator.run_step(2, Some(1), 20).await;
    assert!(read_stat(pid).is_none_or(|stat| stat.is_zombie));
    assert_ne!(machine.recorded_pid(), Some(pid));
}

#[tokio::test]
async fn a_lost_record_does_not_start_a_second_process() {
    let (machine, coordinator, agent, pid) = running().await;
    agent.kill();
    for name in ["instance", "instance.copy", "journal"] {
        fs::write(machine.service().join(name), "").unwrap();
    }
    let _agent = machine.start(&coordinator);
    until_hello(&coordinator, 2).await;
    coordinator.until("version 1 to be healthy", |said| said.hellos.len() == 2 && said.is_healthy(1)).await;
    assert_eq!(machine.recorded_pid(), Some(pid));
    assert_eq!(machine.starts("run", 1), 1);
}

#[tokio::test]
async fn a_process_that_only_has_the_same_pid_is_left_alone() {
    let (machine, coordinator, agent, pid) = running().await;
    agent.kill();
    machine.kill_everything();
    let mut stranger = Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().unwrap();
    for name in ["instance", "instance.copy"] {
        let path = machine.service().join(name);
        let record = fs::read_to_string(&path).unwrap();
        fs::write(&path, record.replace(&format!("pid = {pid}"), &format!("pid = {}", stranger.id()))).unwrap();
    }
    let _agent = machine.start(&coordinator);
    machine.until_started("run", 1, 2).await;
    coordinator.run_step(2, Some(1), 20).await;
    assert!(stranger.try_wait().unwrap().is_none(), "it was signalled");
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}

#[tokio::test]
async fn a_service_that_dies_is_critical_at_once_and_started_again() {
    let (machine, coordinator, _agent, pid) = running().await;
    let before = coordinator.said().reports.len();
    Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap();
    machine.until_started("run", 1, 2).await;
    let said = coordinator.until("it to be healthy again", |said| {
        said.is_healthy(1) && said.status().unwrap().instance.as_ref().unwrap().pid != pid
    });
    let said = said.await;
    let health = health_since(&said, before);
    let changes: Vec<&Health> = health.iter().skip_while(|health| **health == Health::Healthy).collect();
    assert_eq!(changes, [&Health::Critical, &Health::Unknown, &Health::Healthy]);
    assert_eq!(machine.starts("init", 1), 2);
}

#[tokio::test]
async fn a_second_agent_on_the_same_folder_is_told_who_has_it() {
    let (machine, coordinator, agent, _) = running().await;
    let output = machine.command(&[coordinator.address()]).stderr(Stdio::piped()).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success());
    for part in [format!("pid {}", agent.pid()), machine.data().display().to_string()] {
        assert!(error.contains(&part), "{part} isn't in: {error}");
    }
}

#[tokio::test]
async fn children_of_a_script_get_their_time_to_end() {
    let child =
        "echo $$ > child; trap 'sleep 0.5; echo end graceful >> $WITNESS; exit 0' TERM; while :; do sleep 0.05; done";
    let run = format!("sh -c '{}' & wait", child.replace('\'', "'\\''"));
    let machine = Machine::with(&[Package::new(1).hook("run", &run), Package::new(2)]);
    let coordinator = Coordinator::start().await;
    let _agent = machine.start(&coordinator);
    coordinator.run_step(1, None, 10).await;
    eventually("the child", || fs::read_to_string(machine.service().join("child")).ok()).await;
    coordinator.drive(true);
    coordinator.order_step(2, Some(1), 20, Go::Prepare);
    coordinator.until_finished(20).await;
    assert!(machine.witness().contains(&"end graceful".to_owned()));
}
