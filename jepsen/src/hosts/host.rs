//! A machine, and the one program of the product on it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::hosts::tool;
use crate::power::keeper;
use crate::power::machine::Machine;
use crate::procfs;

/// BOUND: what the kernel does at once may take so long on a busy machine.
const DONE_WITHIN: Duration = Duration::from_secs(5);

/// A machine with a peer, or with an agent.
#[derive(Debug)]
pub struct Host {
    /// Power, disk and cable.
    pub machine: Machine,
    /// The program's file.
    program: PathBuf,
    /// Its data on the machine's disk.
    data: PathBuf,
    /// Where its peer is reached; agents have none.
    grpc: Option<String>,
}

impl Host {
    /// Of a machine that keeps `program` running.
    pub fn new(machine: Machine, program: PathBuf, data: PathBuf, grpc: Option<String>) -> Self {
        Self { machine, program, data, grpc }
    }

    /// The machine's name.
    pub fn name(&self) -> &str {
        self.machine.name()
    }

    /// host:port of its peer.
    pub fn grpc(&self) -> &str {
        self.grpc.as_deref().unwrap_or_default()
    }

    /// Whether it runs a peer.
    pub fn is_peer(&self) -> bool {
        self.grpc.is_some()
    }

    /// The program's data on the disk, there while the machine has power.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// The program's process, while it runs.
    pub fn process(&self) -> Option<Pid> {
        let is_it = |pid: &Pid| std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == self.program);
        self.machine.processes().into_iter().find(is_it)
    }

    /// The same, or why nothing can be done to it.
    pub fn living(&self) -> Result<Pid, String> {
        if !self.machine.is_running() {
            return Err(format!("{} has no power", self.name()));
        }
        self.process().ok_or_else(|| format!("the program of {} doesn't run", self.name()))
    }

    /// SIGKILL to the program alone. Returns once it is gone; it is started again unless it is held.
    pub async fn kill(&self, process: Pid) -> Result<()> {
        // It may have ended by itself.
        let _ = kill(process, Signal::SIGKILL);
        self.await_end(process).await.with_context(|| format!("the program of {} outlives SIGKILL", self.name()))
    }

    /// Ends the program as an init system does: SIGTERM, and SIGKILL where that isn't enough. Also where it stands still.
    pub async fn end(&self, process: Pid) -> Result<()> {
        // It may have ended by itself.
        let _ = kill(process, Signal::SIGTERM);
        match self.await_end(process).await {
            Ok(()) => Ok(()),
            Err(_) => self.kill(process).await,
        }
    }

    async fn await_end(&self, process: Pid) -> Result<()> {
        let id = u32::try_from(process.as_raw())?;
        until(|| !procfs::is_alive(id)).await
    }

    /// Its file.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// From its next start on it is another one.
    pub fn replace_program(&mut self, program: &Path) -> Result<()> {
        lay_program(self.machine.folder(), program)?;
        program.clone_into(&mut self.program);
        Ok(())
    }

    /// From here on the program isn't started again.
    pub fn hold(&self) -> Result<()> {
        Ok(std::fs::write(self.machine.folder().join(keeper::HOLD), "")?)
    }

    /// It may be started again.
    pub fn release(&self) -> Result<()> {
        match std::fs::remove_file(self.machine.folder().join(keeper::HOLD)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// SIGSTOP; returns once it stands still.
    pub async fn freeze(&self, process: Pid) -> Result<()> {
        kill(process, Signal::SIGSTOP)?;
        until(|| is_frozen(process)).await.with_context(|| format!("the program of {} doesn't stop", self.name()))
    }

    /// SIGCONT; whether it still stood still.
    pub fn thaw(&self, process: Pid) -> bool {
        let stood = is_frozen(process);
        // It may have been killed meanwhile.
        let _ = kill(process, Signal::SIGCONT);
        stood
    }

    /// How often the program has ended, for whatever reason.
    pub fn end_count(&self) -> usize {
        let ends = std::fs::read_to_string(self.machine.folder().join(keeper::ENDS)).unwrap_or_default();
        ends.lines().count()
    }

    /// What its log says, from a byte on.
    pub fn log_since(&self, from: u64) -> String {
        let bytes = std::fs::read(self.machine.log()).unwrap_or_default();
        let from = usize::try_from(from).unwrap_or(usize::MAX).min(bytes.len());
        String::from_utf8_lossy(&bytes[from..]).into_owned()
    }

    /// How long its log is.
    pub fn log_length(&self) -> u64 {
        std::fs::metadata(self.machine.log()).map_or(0, |metadata| metadata.len())
    }

    /// Runs a command in the machine's network.
    pub fn in_network(&self, command: &[&str]) -> Result<String> {
        self.enter(&["--net"], command)
    }

    /// Runs a command in the machine, as one of its processes.
    pub fn inside(&self, command: &[&str]) -> Result<String> {
        self.enter(&["--net", "--mount", "--pid"], command)
    }

    fn enter(&self, namespaces: &[&str], command: &[&str]) -> Result<String> {
        let Some(first) = self.machine.first() else { bail!("{} has no power", self.name()) };
        let target = first.to_string();
        tool::run(&[&["nsenter", "--target", &target], namespaces, &["--"], command].concat())
    }
}

/// Makes the file `program` in a machine's folder lead to one; where that is.
pub fn lay_program(folder: &Path, program: &Path) -> Result<PathBuf> {
    let (place, new) = (folder.join("program"), folder.join("program.new"));
    std::os::unix::fs::symlink(program, &new)?;
    std::fs::rename(new, &place)?;
    Ok(place)
}

/// Whether a process stands still by a signal.
pub fn is_frozen(process: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('T'))
}

async fn until(is_so: impl Fn() -> bool) -> Result<()> {
    let deadline = tokio::time::Instant::now() + DONE_WITHIN;
    while !is_so() {
        if tokio::time::Instant::now() > deadline {
            bail!("not after {DONE_WITHIN:?}");
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok(())
}
