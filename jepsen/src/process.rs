//! One process of the system under test, started by us and ended by its id.

use std::fs::OpenOptions;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

use crate::procfs;

/// A running process. Dropping it kills and reaps it.
#[derive(Debug)]
pub struct Process {
    child: Child,
}

impl Process {
    /// Starts `program` with `arguments`; both its outputs are appended to `log`.
    ///
    /// It gets a process group of its own, so that a Ctrl-C at the terminal reaches us only and we end it in order.
    pub fn start(program: &Path, arguments: &[&str], log: &Path) -> Result<Self> {
        let output = OpenOptions::new().create(true).append(true).open(log)?;
        let child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .process_group(0)
            .spawn()
            .with_context(|| format!("can't start {}", program.display()))?;
        Ok(Self { child })
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended by itself; how.
    pub fn ended(&mut self) -> Option<String> {
        self.child.try_wait().ok().flatten().map(|status| status.to_string())
    }

    /// SIGKILL; returns once it's gone.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// The most memory it ever had resident, in bytes.
    pub fn peak_memory(&self) -> u64 {
        procfs::peak_memory(self.id()).unwrap_or(0)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may be gone already; there is nobody left to tell.
        let _ = self.kill();
    }
}
