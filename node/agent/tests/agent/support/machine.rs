//! A machine: a depot, a data folder, an agent that can be killed.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};

use rollcall_node::process::{find_by_environment, kill_by_environment};
use tempfile::TempDir;

use super::{Coordinator, GROUP, Package, eventually};

/// A machine's disk.
pub struct Machine {
    dir: TempDir,
    extra: String,
    /// What is done in a mount namespace of the agent's own before it starts.
    mounts: Vec<String>,
}

/// A running agent.
pub struct Agent {
    child: Child,
}

impl Machine {
    /// With nothing on it.
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["depot", "gates"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        File::create(dir.path().join("witness")).unwrap();
        Self { dir, extra: String::new(), mounts: Vec::new() }
    }

    /// With these releases in its depot.
    pub fn with(packages: &[Package]) -> Self {
        let machine = Self::new();
        packages.iter().for_each(|package| package.write(&machine.depot()));
        machine
    }

    /// More for the agent's config.
    pub fn config(mut self, text: &str) -> Self {
        self.extra.push_str(text);
        self
    }

    /// With a boot id of its own, which ends with [`Self::cut_power`].
    pub fn own_boot(mut self) -> Self {
        let boot_id = self.dir.path().join("boot_id");
        self.mounts.push(format!("mount --bind {} /proc/sys/kernel/random/boot_id", boot_id.display()));
        self.boot();
        self
    }

    /// With a data folder on a disk of its own, of this size.
    pub fn small_disk(mut self, size: &str) -> Self {
        fs::create_dir(self.data()).unwrap();
        self.mounts.push(format!("mount -t tmpfs -o size={size} tmpfs {}", self.data().display()));
        self
    }

    fn boot(&self) {
        fs::write(self.dir.path().join("boot_id"), format!("{}\n", uuid::Uuid::new_v4())).unwrap();
    }

    /// The boot id that the agent sees.
    pub fn boot_id(&self) -> String {
        fs::read_to_string(self.dir.path().join("boot_id")).unwrap().trim().to_owned()
    }

    /// Everything that runs on the machine dies; the next start is another boot.
    pub fn cut_power(&self, agent: Agent) {
        agent.kill();
        self.kill_everything();
        self.boot();
    }

    /// The next start is another boot.
    pub fn reboot(&self) {
        self.boot();
    }

    /// Copies the data folder, as a backup would: other inodes.
    pub fn back_up(&self, name: &str) -> PathBuf {
        let backup = self.dir.path().join(name);
        copy(&self.data(), &backup);
        backup
    }

    /// Puts a backup in the place of the data folder.
    pub fn restore(&self, backup: &Path) {
        fs::remove_dir_all(self.data()).unwrap();
        copy(backup, &self.data());
    }

    /// Hooks and the service die; the agent must be dead already.
    pub fn kill_everything(&self) {
        let witness = self.dir.path().join("witness").display().to_string();
        while !find_by_environment("WITNESS", &witness).is_empty() {
            kill_by_environment("WITNESS", |found| found == witness);
        }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn depot(&self) -> PathBuf {
        self.dir.path().join("depot")
    }

    pub fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    pub fn service(&self) -> PathBuf {
        self.data().join("svc").join(GROUP)
    }

    /// The agent's command, not started yet.
    pub fn command(&self, endpoints: &[String]) -> Command {
        let config = self.dir.path().join("node.toml");
        let text = format!(
            "name = \"node-1\"\nendpoints = {endpoints:?}\ndata_dir = {:?}\n{}\n\
             [[service]]\ngroup = \"{GROUP}\"\nsource = \"dir:{}\"\nhealth_check_interval = \"1s\"\n",
            self.data(),
            self.extra,
            self.depot().display(),
        );
        fs::write(&config, text).unwrap();
        let log = File::options().create(true).append(true).open(self.dir.path().join("agent.log")).unwrap();
        let mut command = self.program();
        command
            .arg("--config")
            .arg(&config)
            .env("WITNESS", self.dir.path().join("witness"))
            .env("GATES", self.dir.path().join("gates"))
            .env("ROLLCALL_LOG", "rollcall_node=debug")
            .stderr(log);
        command
    }

    /// The agent itself, or the agent in a mount namespace.
    fn program(&self) -> Command {
        let program = env!("CARGO_BIN_EXE_rollcall-node");
        if self.mounts.is_empty() {
            return Command::new(program);
        }
        let mut command = Command::new("unshare");
        if !rustix::process::geteuid().is_root() {
            command.arg("--map-root-user");
        }
        let script = format!("{} && exec \"$0\" \"$@\"", self.mounts.join(" && "));
        command.args(["--mount", "sh", "-c", &script]).arg(program);
        command
    }

    /// Starts the agent, which knows these peers.
    pub fn start_with(&self, endpoints: &[String]) -> Agent {
        Agent { child: self.command(endpoints).spawn().unwrap() }
    }

    /// Starts the agent.
    pub fn start(&self, coordinator: &Coordinator) -> Agent {
        self.start_with(&[coordinator.address()])
    }

    /// What the agent has logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("agent.log")).unwrap_or_default()
    }

    /// What hooks have written down: `begin|end HOOK PHASE ATTEMPT FENCE VERSION`.
    pub fn witness(&self) -> Vec<String> {
        fs::read_to_string(self.dir.path().join("witness")).unwrap().lines().map(str::to_owned).collect()
    }

    /// How often a hook of a version was started.
    pub fn starts(&self, hook: &str, version: u32) -> usize {
        let is_start =
            |line: &&String| line.starts_with(&format!("begin {hook} ")) && line.ends_with(&format!(" {version}"));
        self.witness().iter().filter(is_start).count()
    }

    /// Waits until a hook of a version was started so often.
    pub async fn until_started(&self, hook: &str, version: u32, times: usize) {
        let what = format!("start {times} of {hook} in version {version}");
        eventually(&what, || (self.starts(hook, version) >= times).then_some(())).await;
    }

    /// Lets a gated hook go on.
    pub fn open(&self, hook: &str) {
        File::create(self.dir.path().join("gates").join(hook)).unwrap();
    }

    /// The pid that the agent has recorded for the service.
    pub fn recorded_pid(&self) -> Option<u32> {
        let record = fs::read_to_string(self.service().join("instance")).ok()?;
        let line = record.lines().find_map(|line| line.strip_prefix("pid = "))?;
        line.parse().ok()
    }
}

fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap().success());
}

impl Drop for Machine {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- agent\n{}\n--- witness\n{}", self.log(), self.witness().join("\n"));
        }
        self.kill_everything();
    }
}

impl Agent {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has died by itself.
    pub fn is_gone(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// A path as the agent sees it.
    pub fn sees(&self, path: &Path) -> PathBuf {
        Path::new("/proc").join(self.pid().to_string()).join("root").join(path.strip_prefix("/").unwrap())
    }

    /// As a crash would: only the agent dies.
    pub fn kill(mut self) {
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }

    /// Asks it to end, and waits.
    #[allow(clippy::disallowed_methods, reason = "our own child, not reaped yet")]
    pub async fn terminate(mut self) -> ExitStatus {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        eventually("the agent's end", || self.child.try_wait().unwrap()).await
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
