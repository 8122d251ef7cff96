//! The folder of one run. All that the run starts names it, so all of it can be found and ended.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::procfs;

/// BOUND: how long killed processes may take to vanish.
const GONE_WITHIN: Duration = Duration::from_secs(5);

/// A run's folder. Dropping it ends every process that names it, then removes it unless it is to be kept.
#[derive(Debug)]
pub struct RunDir {
    folder: Option<TempDir>,
    path: PathBuf,
}

impl RunDir {
    /// A new folder whose name begins with `prefix`.
    pub fn create(prefix: &str) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix(prefix).tempdir().context("can't create the run's folder")?;
        let path = folder.path().to_path_buf();
        Ok(Self { folder: Some(folder), path })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A folder in it, created where it doesn't exist.
    pub fn folder(&self, name: &str) -> Result<PathBuf> {
        let path = self.path.join(name);
        std::fs::create_dir_all(&path)?;
        Ok(path)
    }

    /// Leaves the folder in place for a look at its logs.
    pub fn keep(&mut self) {
        if let Some(folder) = self.folder.take() {
            self.path = folder.keep();
        }
    }
}

impl Drop for RunDir {
    fn drop(&mut self) {
        if let Err(error) = kill_processes_of(&self.path) {
            eprintln!("{error:#}");
        }
    }
}

/// BOUND: looks in a row that find nothing. One isn't enough: what forks while we look is found by the next look only,
/// and a process in the middle of its exec has no environment to be found by.
const EMPTY_LOOKS: usize = 3;

/// SIGKILL to every process that names `path`, again until none is left. Returns how many there were.
pub fn kill_processes_of(path: &Path) -> Result<usize> {
    let begun = Instant::now();
    let mut empty_looks = 0;
    let mut killed = std::collections::BTreeSet::new();
    loop {
        let living: Vec<Pid> = procfs::processes_of(path)
            .into_iter()
            .filter(|pid| u32::try_from(pid.as_raw()).is_ok_and(procfs::is_alive))
            .collect();
        empty_looks = if living.is_empty() { empty_looks + 1 } else { 0 };
        if empty_looks == EMPTY_LOOKS {
            return Ok(killed.len());
        }
        if begun.elapsed() > GONE_WITHIN {
            bail!("processes of {} outlive SIGKILL: {living:?}", path.display());
        }
        for pid in living {
            // It may have ended by itself since.
            let _ = kill(pid, Signal::SIGKILL);
            killed.insert(pid);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn dropping_a_run_ends_its_processes_and_removes_it() {
        let run = RunDir::create("rollcall-test-").unwrap();
        let path = run.path().to_path_buf();
        let script = "sleep 60 & wait";
        let mut child = Command::new("sh").args(["-c", script]).env("DATA", path.join("x")).spawn().unwrap();
        drop(run);
        assert!(!child.wait().unwrap().success());
        assert!(procfs::processes_of(&path).is_empty());
        assert!(!path.exists());
    }
}
