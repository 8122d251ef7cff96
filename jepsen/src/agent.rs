//! One machine: its agent as a process, and whatever that has started.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Serialize;

use crate::process::Process;
use crate::run_dir::kill_processes_of;

/// An agent: its place, and its process while it runs.
#[derive(Debug)]
pub struct Agent {
    /// The node's name.
    pub name: String,
    folder: PathBuf,
    program: PathBuf,
    config: PathBuf,
    log: PathBuf,
    process: Option<Process>,
    peak_memory: u64,
}

/// Its config file, as operators write it.
#[derive(Debug, Clone, Default, Serialize)]
pub struct AgentConfig {
    /// The node's name.
    pub name: String,
    /// All peers.
    pub endpoints: Vec<String>,
    /// Filled in by [`Agent::create`].
    pub data_dir: PathBuf,
    /// The peer on its machine, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hosts_peer: Option<String>,
    /// What reboots its machine; empty: as the agent's default says.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reboot_command: Vec<String>,
    /// What it runs.
    pub service: Vec<ServiceConfig>,
}

/// A service of an agent.
#[derive(Debug, Clone, Serialize)]
pub struct ServiceConfig {
    /// `service.group`
    pub group: String,
    /// `dir:…`
    pub source: String,
    /// How often health is looked at while nothing changes.
    pub health_check_interval: String,
    /// Handed to the hooks.
    pub config: BTreeMap<String, toml::Value>,
}

impl AgentConfig {
    /// Writes it as a file.
    pub fn write(&self, path: &Path) -> Result<()> {
        Ok(std::fs::write(path, toml::to_string(self)?)?)
    }
}

impl Agent {
    /// Lays out a machine in `folder`; its agent doesn't run yet.
    pub fn create(folder: PathBuf, program: PathBuf, mut config: AgentConfig) -> Result<Self> {
        config.data_dir = folder.join("data");
        std::fs::create_dir_all(&config.data_dir)?;
        let path = folder.join("agent.toml");
        config.write(&path)?;
        let log = folder.join("log");
        Ok(Self { name: config.name, folder, program, config: path, log, process: None, peak_memory: 0 })
    }

    /// Starts the agent's process.
    pub fn start(&mut self) -> Result<()> {
        if self.is_running() {
            bail!("the agent of {} runs already", self.name);
        }
        let config = self.config.to_str().context("the run's path isn't UTF-8")?;
        self.process = Some(Process::start(&self.program, &["--config", config], &self.log)?);
        Ok(())
    }

    /// SIGKILL to the agent alone: its service goes on.
    pub fn kill(&mut self) -> Result<()> {
        self.measure();
        let mut process = self.process.take().with_context(|| format!("the agent of {} doesn't run", self.name))?;
        process.kill()
    }

    /// Everything on this machine at once, as when its power goes: agent, service, hooks. Returns once nothing of it is
    /// left; how many processes it took with it, the agent among them.
    pub fn cut_power(&mut self) -> Result<usize> {
        self.kill()?;
        Ok(1 + kill_processes_of(&self.folder)?)
    }

    /// The agent's process id while it runs.
    pub fn id(&self) -> Option<u32> {
        self.process.as_ref().map(Process::id)
    }

    /// Whether the agent was started and has not been killed.
    pub fn is_running(&self) -> bool {
        self.process.is_some()
    }

    /// The machine's folder: whatever belongs to it lies, or names a path, below.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// An error where the agent ended by itself.
    pub fn ensure_alive(&mut self) -> Result<()> {
        if let Some(how) = self.process.as_mut().and_then(Process::ended) {
            bail!("the agent of {} ended by itself ({how}); its log: {}", self.name, self.log.display());
        }
        Ok(())
    }

    /// As an init system does: starts the agent again where it has ended by itself; whether it had.
    pub fn start_again_if_ended(&mut self) -> Result<bool> {
        let has_ended = self.process.as_mut().is_some_and(|process| process.ended().is_some());
        if has_ended {
            self.process = None;
            self.start()?;
        }
        Ok(has_ended)
    }

    /// Takes note of the memory that the agent uses; the most over all its lives so far, in bytes.
    pub fn measure(&mut self) -> u64 {
        let now = self.process.as_ref().map_or(0, Process::peak_memory);
        self.peak_memory = self.peak_memory.max(now);
        self.peak_memory
    }
}
