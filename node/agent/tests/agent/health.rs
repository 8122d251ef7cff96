//! What is said about the service: health, role, priority; to the coordinator and over HTTP.

use std::io::{Read, Write};
use std::net::TcpStream;

use rollcall_proto::v1::report::Kind as Reported;
use rollcall_proto::v1::{Go, Health};

use crate::support::{Coordinator, Machine, Package, eventually};

const HEALTH: &str = "cat $GATES/said 2>/dev/null; [ -e $GATES/code ] && exit $(cat $GATES/code); exit 0";

async fn running(package: Package) -> (Machine, Coordinator, crate::support::Agent) {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let machine = Machine::with(&[package]).config(&format!("http = \"{port}\"\n"));
    std::fs::write(machine.path().join("http"), port.to_string()).unwrap();
    let coordinator = Coordinator::start().await;
    let agent = machine.start(&coordinator);
    coordinator.run_step(1, None, 10).await;
    (machine, coordinator, agent)
}

/// Status code and body.
fn get(machine: &Machine, path: &str) -> (u16, String) {
    let address = std::fs::read_to_string(machine.path().join("http")).unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let code = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (code, answer)
}

fn say(machine: &Machine, name: &str, text: &str) {
    std::fs::write(machine.path().join("gates").join(name), text).unwrap();
}

#[tokio::test]
async fn every_exit_code_reaches_the_coordinator_and_http() {
    let (machine, coordinator, _agent) = running(Package::new(1).hook("health-check", HEALTH)).await;
    let path = "/services/app/default/health";
    for (code, health, http) in
        [(1, Health::Warning, 200), (2, Health::Critical, 503), (7, Health::Unknown, 500), (0, Health::Healthy, 200)]
    {
        say(&machine, "said", "lag 7 s\n");
        say(&machine, "code", &code.to_string());
        let said = coordinator.until("the health", |said| said.status().unwrap().health() == health).await;
        if code == 2 {
            assert_eq!(said.status().unwrap().health_detail, "lag 7 s");
        }
        assert_eq!(get(&machine, path).0, http);
    }
    assert_eq!(get(&machine, "/services/app/other/health").0, 404);
    assert!(get(&machine, "/services").1.contains("\"health\":\"healthy\""));
    let metrics = get(&machine, "/metrics").1;
    assert!(metrics.contains("rollcall_agent_service_health{group=\"app.default\",health=\"healthy\"} 1"), "{metrics}");
    assert!(metrics.contains("rollcall_agent_session_up 1"));
}

#[tokio::test]
async fn role_and_priority_are_reported_when_they_change() {
    let package = Package::new(1).hook("health-check", HEALTH).hook("suitability", "echo thinking; echo 42");
    let (machine, coordinator, _agent) = running(package).await;
    coordinator.until("the priority", |said| said.status().unwrap().priority == Some(42)).await;
    assert!(!coordinator.said().status().unwrap().primary);
    say(&machine, "said", "status primary=true\n");
    coordinator.until("the role", |said| said.status().unwrap().primary).await;
    say(&machine, "said", "");
    coordinator.until("the end of the role", |said| !said.status().unwrap().primary).await;
    std::fs::write(machine.service().join("status.toml"), "primary = true\n").unwrap();
    coordinator.until("the role by file", |said| said.status().unwrap().primary).await;
}

#[tokio::test]
async fn without_a_check_a_process_that_stays_up_is_healthy() {
    let (_machine, coordinator, _agent) = running(Package::new(1).without("health-check")).await;
    assert!(coordinator.said().is_healthy(1));
}

/// The words of every status since then, in order.
fn details_since(said: &crate::support::Said, before: usize) -> Vec<String> {
    let statuses = said.reports[before..].iter().filter_map(|report| match &report.kind {
        Some(Reported::Status(status)) => Some(status.health_detail.clone()),
        _ => None,
    });
    statuses.collect()
}

#[tokio::test]
async fn other_words_for_the_same_health_are_reported_but_not_each_time() {
    // Each sample has other words, until the test lets it rest; samples are far quicker than the interval of 1 s.
    let check = "echo x >> looks; [ -e $GATES/rest ] || echo x >> count; wc -l < count; exit 2";
    let package = Package::new(1).hook("health-check", check);
    let machine = Machine::with(&[package]);
    let coordinator = Coordinator::start().await;
    let _agent = machine.start(&coordinator);
    coordinator.order_step_up_to(1, None, 10, Go::Replace);
    let is_critical = |said: &crate::support::Said| {
        said.status().is_some_and(|status| status.health() == Health::Critical && status.health_detail.trim() == "1")
    };
    let before = coordinator.until("the first words", is_critical).await.reports.len();
    let said = coordinator.until("other words", |said| details_since(said, before).len() >= 2).await;
    let words: Vec<u32> = details_since(&said, before).iter().map(|words| words.trim().parse().unwrap()).collect();
    // By back-off from 250 ms on there was more than one sample before the first report that was due.
    assert!(words[0] > 2 && words[1] > words[0], "{words:?}");
    say(&machine, "rest", "");
    let last = || std::fs::read_to_string(machine.service().join("count")).unwrap().lines().count().to_string();
    let said = coordinator.until("the last words", |said| said.status().unwrap().health_detail.trim() == last()).await;
    // Nothing changes any more, so nothing more is said.
    let looks = || std::fs::read_to_string(machine.service().join("looks")).unwrap().lines().count();
    let enough = looks() + 4;
    eventually("some more looks", || (looks() >= enough).then_some(())).await;
    assert_eq!(coordinator.said().reports.len(), said.reports.len());
}
