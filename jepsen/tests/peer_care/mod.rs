//! Peers as processes that are started, stopped and killed by name, the operator's command, and somebody who writes all
//! the time. All of it real, on loopback.

// Each test program uses a part of it.
#![allow(dead_code)]
#![allow(clippy::unwrap_used, reason = "a test that can't go on, fails")]

pub mod writer;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rollcall_jepsen::agent::{Agent, AgentConfig};
use rollcall_jepsen::binaries::Binaries;
use rollcall_jepsen::ports::free_port;
use rollcall_jepsen::process::Process;
use rollcall_jepsen::run_dir::RunDir;
use serde_json::Value;

/// BOUND: what anything here may take, on a machine that is busy.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// One machine that hosts a peer: its disk, and its process while it runs.
pub struct Machine {
    pub dir: PathBuf,
    pub grpc: String,
    http: String,
    log: PathBuf,
    process: Option<Process>,
}

impl Machine {
    pub fn start(&mut self, programs: &Binaries) {
        self.start_with(programs, &[]);
    }

    /// Starts its peer, whatever becomes of it.
    pub fn launch(&mut self, programs: &Binaries) {
        self.process = Some(self.spawn(programs, &[]));
    }

    fn spawn(&self, programs: &Binaries, more: &[&str]) -> Process {
        assert!(self.process.is_none(), "it runs already");
        let dir = self.dir.to_str().unwrap();
        let mut arguments = vec!["--data-dir", dir, "--grpc", &self.grpc, "--http", &self.http];
        arguments.extend(more);
        Process::start(&programs.coordinator, &arguments, &self.log).unwrap()
    }

    /// Starts its peer and waits until it listens.
    pub fn start_with(&mut self, programs: &Binaries, more: &[&str]) {
        let mut process = self.spawn(programs, more);
        eventually("it listens", || {
            assert_eq!(process.ended(), None, "{}", self.log_text());
            std::net::TcpStream::connect(&self.grpc).ok()
        });
        self.process = Some(process);
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        self.process.take().expect("it runs").kill().unwrap();
    }

    /// SIGTERM, and waits for its end; how long that took.
    pub fn stop(&mut self) -> Duration {
        let mut process = self.process.take().expect("it runs");
        let began = Instant::now();
        kill(Pid::from_raw(process.id().try_into().unwrap()), Signal::SIGTERM).unwrap();
        let how = eventually("it ends", || process.ended());
        assert_eq!(how, "exit status: 0", "{}", self.log_text());
        began.elapsed()
    }

    /// Waits until it ends by itself; how.
    pub fn await_end(&mut self) -> String {
        let mut process = self.process.take().expect("it runs");
        eventually("it ends by itself", || process.ended())
    }

    pub fn is_running(&self) -> bool {
        self.process.is_some()
    }

    /// As a machine that comes back with a new disk.
    pub fn lose_disk(&self) {
        assert!(self.process.is_none(), "it runs");
        std::fs::remove_dir_all(&self.dir).unwrap();
    }

    /// It gets another address.
    pub fn move_away(&mut self) {
        self.grpc = format!("127.0.0.1:{}", free_port().unwrap());
    }

    /// At what time of the day lines with these words were logged.
    pub fn logged(&self, words: &str) -> Vec<Duration> {
        let text = self.log_text();
        let lines = text.lines().filter(|line| line.contains("rollcall_coordinator") && line.contains(words));
        // Of a line only the time of its day counts: 2026-11-30T21:29:31.486612Z
        let at = |line: &str| {
            let clock = line.get(11..26)?;
            let mut parts = clock.split(':').map(|part| part.parse::<f64>().ok());
            let (hours, minutes, seconds) = (parts.next()??, parts.next()??, parts.next()??);
            Some(Duration::from_secs_f64(hours * 3_600.0 + minutes * 60.0 + seconds))
        };
        lines.filter_map(at).collect()
    }

    pub fn log_text(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

/// Some machines, and the programs.
pub struct Peers {
    pub machines: Vec<Machine>,
    pub programs: Binaries,
    run: RunDir,
}

impl Peers {
    /// Machines whose peers are blank and run.
    pub fn blank(count: usize) -> Self {
        let run = RunDir::create("rollcall-peers-").unwrap();
        let mut peers = Self { machines: Vec::new(), programs: Binaries::find().unwrap(), run };
        for _ in 0..count {
            let machine = peers.new_machine();
            peers.machines.push(machine);
        }
        for machine in &mut peers.machines {
            machine.start(&peers.programs);
        }
        peers
    }

    /// A cluster.
    pub fn of(count: usize) -> Self {
        let peers = Self::blank(count);
        let others: Vec<_> = peers.machines[1..].iter().map(|machine| machine.grpc.clone()).collect();
        let mut arguments = vec!["--timeout", "60s", "cluster", "init"];
        arguments.extend(others.iter().map(String::as_str));
        done(&peers.rollcall(&arguments));
        peers
    }

    /// One more machine, switched off.
    pub fn new_machine(&self) -> Machine {
        let name = format!("machine-{}", self.machines.len() + 1);
        Machine {
            dir: self.run.path().join(&name).join("data"),
            grpc: format!("127.0.0.1:{}", free_port().unwrap()),
            http: format!("127.0.0.1:{}", free_port().unwrap()),
            log: self.run.folder(&name).unwrap().join("log"),
            process: None,
        }
    }

    pub fn path(&self) -> &Path {
        self.run.path()
    }

    pub fn endpoints(&self) -> String {
        self.machines.iter().map(|machine| machine.grpc.as_str()).collect::<Vec<_>>().join(",")
    }

    /// The operator's command, told of all peers.
    pub fn rollcall(&self, arguments: &[&str]) -> Output {
        rollcall(&self.programs, &self.endpoints(), arguments)
    }

    /// What it prints as JSON.
    pub fn ask(&self, arguments: &[&str]) -> Value {
        ask(&self.programs, &self.endpoints(), arguments)
    }

    /// An agent without a service, told of all peers.
    pub fn start_agent(&self, name: &str) -> Agent {
        let endpoints = self.machines.iter().map(|machine| machine.grpc.clone()).collect();
        let config = AgentConfig { name: name.to_owned(), endpoints, ..AgentConfig::default() };
        let mut agent = Agent::create(self.run.folder(name).unwrap(), self.programs.node.clone(), config).unwrap();
        agent.start().unwrap();
        agent
    }

    pub fn start(&mut self, index: usize) {
        self.machines[index].start(&self.programs);
    }

    /// The machine whose peer leads, once one does and all voters are heard of.
    pub fn await_leader(&self) -> usize {
        let expected = self.machines.iter().filter(|machine| machine.is_running()).count();
        eventually("a leader hears of everybody", || {
            let status = self.status();
            let peers = status["peers"].as_array()?;
            let reached = peers.iter().filter(|peer| peer["reachable"] == true).count();
            let leader = peers.iter().find(|peer| peer["leader"] == true)?["address"].as_str()?.to_owned();
            (status["condition"] == "serving" && reached >= expected)
                .then(|| self.machines.iter().position(|machine| machine.grpc == leader))
                .flatten()
        })
    }

    /// How the peers stand.
    pub fn status(&self) -> Value {
        status(&self.programs, &self.endpoints())
    }

    /// Peers that vote, by id.
    pub fn voters(&self) -> Vec<u64> {
        let status = self.status();
        let peers = status["peers"].as_array().unwrap();
        let voters = peers.iter().filter(|peer| peer["voter"] == true);
        voters.map(|peer| peer["peer_id"].as_str().unwrap().parse().unwrap()).collect()
    }

    /// The id of the peer at an address.
    pub fn peer_at(&self, address: &str) -> String {
        let status = self.status();
        let peers = status["peers"].as_array().unwrap().clone();
        let found =
            peers.iter().find(|peer| peer["address"] == address).unwrap_or_else(|| panic!("{address}: {status}"));
        found["peer_id"].as_str().unwrap().to_owned()
    }

    pub fn channels(&self) -> Vec<String> {
        let list = self.ask(&["channel", "list"]);
        let names =
            list["items"].as_array().unwrap().iter().map(|channel| channel["name"].as_str().unwrap().to_owned());
        names.collect()
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.run.keep();
            eprintln!("all logs and data: {}", self.run.path().display());
        }
    }
}

pub fn rollcall(programs: &Binaries, endpoints: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(&programs.cli);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("ROLLCALL_")) {
        command.env_remove(name);
    }
    command.args(["--endpoints", endpoints]).args(arguments).output().unwrap()
}

pub fn ask(programs: &Binaries, endpoints: &str, arguments: &[&str]) -> Value {
    let mut all = vec!["-o", "json"];
    all.extend(arguments);
    let output = rollcall(programs, endpoints, &all);
    done(&output);
    serde_json::from_slice(&output.stdout).unwrap()
}

/// How the peers stand, once one of them says that a leader serves: between two leaders there is none for a moment.
pub fn status(programs: &Binaries, endpoints: &str) -> Value {
    eventually("a leader serves", || {
        let output = rollcall(programs, endpoints, &["-o", "json", "cluster", "status"]);
        let status: Value = serde_json::from_slice(&output.stdout).ok()?;
        (status["condition"] == "serving").then_some(status)
    })
}

/// It ended with 0; what it printed.
pub fn done(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// It ended with this code; what it said.
pub fn fails(output: &Output, code: i32) -> String {
    assert_eq!(output.status.code(), Some(code), "{} {}", String::from_utf8_lossy(&output.stdout), stderr(output));
    stderr(output)
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Looks until there is something to see.
pub fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
