//! One permanent peer as a process.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Serialize;

use crate::process::Process;

/// A peer: its place, and its process while it runs.
#[derive(Debug)]
pub struct Peer {
    /// `peer-1`, for people.
    pub name: String,
    /// host:port for gRPC.
    pub grpc: String,
    /// host:port for HTTP.
    pub http: String,
    program: PathBuf,
    config: PathBuf,
    log: PathBuf,
    process: Option<Process>,
    peak_memory: u64,
}

/// Its config file.
#[derive(Debug, Serialize)]
pub struct PeerConfig<'a> {
    /// Where its data lies.
    pub data_dir: &'a Path,
    /// host:port for gRPC.
    pub grpc: &'a str,
    /// host:port for HTTP.
    pub http: &'a str,
}

impl PeerConfig<'_> {
    /// Writes it as a file.
    pub fn write(&self, path: &Path) -> Result<()> {
        Ok(std::fs::write(path, toml::to_string(self)?)?)
    }
}

impl Peer {
    /// Lays out a peer below `folder`; it doesn't run yet.
    pub fn create(name: &str, folder: PathBuf, program: PathBuf, grpc_port: u16, http_port: u16) -> Result<Self> {
        let grpc = format!("127.0.0.1:{grpc_port}");
        let http = format!("127.0.0.1:{http_port}");
        let data_dir = folder.join("data");
        std::fs::create_dir_all(&data_dir)?;
        let config = folder.join("coordinator.toml");
        PeerConfig { data_dir: &data_dir, grpc: &grpc, http: &http }.write(&config)?;
        let log = folder.join("log");
        Ok(Self { name: name.to_owned(), grpc, http, program, config, log, process: None, peak_memory: 0 })
    }

    /// Starts its process.
    pub fn start(&mut self) -> Result<()> {
        if self.is_running() {
            bail!("{} runs already", self.name);
        }
        let config = self.config.to_str().context("the run's path isn't UTF-8")?;
        self.process = Some(Process::start(&self.program, &["--config", config], &self.log)?);
        Ok(())
    }

    /// SIGKILL.
    pub fn kill(&mut self) -> Result<()> {
        self.measure();
        let mut process = self.process.take().with_context(|| format!("{} doesn't run", self.name))?;
        process.kill()
    }

    /// Its process id while it runs.
    pub fn id(&self) -> Option<u32> {
        self.process.as_ref().map(Process::id)
    }

    /// Whether it was started and has not been killed.
    pub fn is_running(&self) -> bool {
        self.process.is_some()
    }

    /// An error where it ended by itself.
    pub fn ensure_alive(&mut self) -> Result<()> {
        if let Some(how) = self.process.as_mut().and_then(Process::ended) {
            bail!("{} ended by itself ({how}); its log: {}", self.name, self.log.display());
        }
        Ok(())
    }

    /// Takes note of the memory that it uses; the most over all its lives so far, in bytes.
    pub fn measure(&mut self) -> u64 {
        let now = self.process.as_ref().map_or(0, Process::peak_memory);
        self.peak_memory = self.peak_memory.max(now);
        self.peak_memory
    }
}
