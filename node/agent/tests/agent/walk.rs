//! The recovery table, walked with real processes: the agent is killed at every write and every sync of its journal, then
//! the service and the hooks too, then the machine with everything that wasn't synced.
//!
//! Needs `strace` (`apt-get install strace`), which kills the agent as it enters a system call. All points with
//! `ROLLCALL_FULL=1`, else a sample.

use std::fs;
use std::path::Path;
use std::process::Command;

use bincode::{Kind, decode_envelope};
use rollcall_node::disk::Journal;
use rollcall_proto::v1::Go;

use crate::support::{Agent, Coordinator, Machine, Package, eventually};

/// What dies at the point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    Agent,
    Both,
    PowerCut,
}

const CAUSES: [Cause; 3] = [Cause::Agent, Cause::Both, Cause::PowerCut];

/// A sampled walk takes each so-manyth point, another one for each cause.
const STRIDE: usize = 5;

/// `install` and `drain` of a release whose `probe` says the truth: what the witness has seen end isn't to be run again.
fn package(version: u32) -> Package {
    let hook = "case $ROLLCALL_PHASE in draining) hook=drain;; *) hook=install;; esac";
    let probe = format!("{hook}; grep -q \"^end $hook $ROLLCALL_PHASE $ROLLCALL_ATTEMPT $ROLLCALL_FENCE\" $WITNESS");
    Package::new(version).hook("probe", &format!("{probe} || exit 1"))
}

/// Cuts the journal back to what was synced: a record that isn't synced itself is, once a later one has been.
fn lose_unsynced(journal: &Path) {
    let bytes = fs::read(journal).unwrap();
    let copy = journal.with_extension("read");
    fs::write(&copy, &bytes).unwrap();
    let opened = Journal::open(&copy).unwrap();
    let kept = opened.events().iter().rposition(rollcall_steps::Event::is_synced).map_or(0, |last| last + 1);
    let mut offset = 0;
    for _ in 0..kept {
        offset += decode_envelope(Kind::JOURNAL, &bytes[offset..]).unwrap().consumed;
    }
    fs::write(journal, &bytes[..offset]).unwrap();
    fs::remove_file(copy).unwrap();
}

/// Files that are written without a sync are empty after a power cut.
fn lose_volatile(machine: &Machine) {
    for name in ["instance", "instance.copy", "current"] {
        fs::write(machine.service().join(name), "").unwrap();
    }
}

/// Kills the agent when it enters its `nth` write or sync of the journal. Gives whether it came to that.
struct Killer(std::process::Child);

impl Killer {
    async fn attach(machine: &Machine, agent: &Agent, nth: usize) -> Self {
        let journal = machine.service().join("journal");
        let log = machine.path().join("strace.log");
        let child = Command::new("strace")
            .args(["-f", "-q", "-o"])
            .arg(&log)
            .args(["-e", "trace=write,fdatasync", "-e", &format!("inject=write,fdatasync:signal=KILL:when={nth}")])
            .arg("-P")
            .arg(&journal)
            .args(["-p", &agent.pid().to_string()])
            .spawn()
            .expect("strace is missing: apt-get install strace");
        let status = format!("/proc/{}/status", agent.pid());
        let is_traced = || {
            let status = fs::read_to_string(&status).ok()?;
            status.lines().any(|line| line.starts_with("TracerPid:") && !line.ends_with("\t0")).then_some(())
        };
        eventually("strace", is_traced).await;
        Self(child)
    }
}

impl Drop for Killer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One point, one cause. Gives whether the agent came to the point before the step was over.
async fn die_at(nth: usize, cause: Cause) -> bool {
    let machine = Machine::with(&[package(1), package(2)]).own_boot();
    let coordinator = Coordinator::start().await;
    let mut agent = machine.start(&coordinator);
    coordinator.run_step(1, None, 10).await;
    let what = format!("killed at {nth} by {cause:?}");
    let killer = Killer::attach(&machine, &agent, nth).await;
    coordinator.order_step(2, Some(1), 20, Go::Prepare);
    let is_over = |machine: &Machine| machine.log().matches("step closed").count() == 2;
    let ended = eventually(&what, || match agent.is_gone() {
        true => Some(true),
        false => is_over(&machine).then_some(false),
    });
    let is_dead = ended.await;
    drop(killer);
    if !is_dead {
        return false;
    }
    agent.kill();
    if cause != Cause::Agent {
        machine.kill_everything();
    }
    if cause == Cause::PowerCut {
        lose_unsynced(&machine.service().join("journal"));
        lose_volatile(&machine);
        machine.reboot();
    }
    let _agent = machine.start(&coordinator);
    coordinator.until_finished(20).await;
    eventually("the end", || machine.log().contains("ending=Finished timings").then_some(())).await;
    check(&machine, &coordinator, &what);
    true
}

fn check(machine: &Machine, coordinator: &Coordinator, what: &str) {
    let witness = machine.witness();
    let count = |text: &str| witness.iter().filter(|line| line.starts_with(text) && line.contains(" 20 ")).count();
    for hook in ["pre-stop", "post-stop"] {
        assert!(count(&format!("begin {hook} ")) <= 1, "{what}: {hook} began twice\n{witness:#?}");
    }
    for (hook, phase) in [("drain", "draining"), ("install", "installing")] {
        let (begun, ended) = (count(&format!("begin {hook} {phase}")), count(&format!("end {hook} {phase}")));
        assert!(ended <= 1, "{what}: {hook} was run again although it had ended\n{witness:#?}");
        assert!(begun <= 2, "{what}: {hook} began {begun} times\n{witness:#?}");
    }
    assert_eq!(count("end install"), 1, "{what}: a phase was skipped\n{witness:#?}");
    for hook in ["init", "undrain"] {
        assert!((1..=2).contains(&count(&format!("begin {hook} "))), "{what}: {hook}\n{witness:#?}");
    }
    assert!((1..=2).contains(&machine.starts("run", 2)), "{what}: run\n{witness:#?}");
    // Hooks of a later phase never began before one of an earlier.
    let phases = ["preparing", "draining", "stopping", "installing", "starting", "verifying"];
    let order: Vec<usize> = witness
        .iter()
        .filter(|line| line.starts_with("begin ") && line.contains(" 20 ") && !line.starts_with("begin post-run"))
        .filter_map(|line| phases.iter().position(|phase| line.contains(phase)))
        .collect();
    assert!(order.is_sorted(), "{what}\n{witness:#?}");
    // One recorded outcome, however often it was said.
    let ends: Vec<&str> = coordinator
        .said()
        .events_of(20)
        .iter()
        .map(crate::support::name)
        .filter(|event| ["finished", "failed", "turned_back"].contains(event))
        .collect();
    assert!(!ends.is_empty() && ends.iter().all(|end| *end == "finished"), "{what}: {ends:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_agent_dies_at_every_write_and_sync_of_its_journal() {
    let stride = if std::env::var_os("ROLLCALL_FULL").is_some() { 1 } else { STRIDE };
    for (offset, cause) in CAUSES.into_iter().enumerate() {
        let mut points = 0;
        // BOUND: a step has some forty writes and syncs.
        for nth in (1 + offset * 2..100).step_by(stride) {
            if !die_at(nth, cause).await {
                break;
            }
            points += 1;
        }
        assert!(points * stride >= 25, "only {points} points were reached by {cause:?}");
    }
}
