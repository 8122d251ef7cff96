//! The processes that `dev` starts, until they end.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::unistd::Pid;
use tokio::process::{Child, Command};

use super::{LOOK_EVERY, orphans};
use crate::failure::Failure;
use crate::output::Output;

/// How long a process may take to end before it is killed.
const PATIENCE: Duration = Duration::from_secs(10);
/// As much of a log as tells why a process died.
const LAST_LINES: usize = 8;

/// All children, in the order in which they were started: peers, then agents.
#[derive(Default)]
pub struct Children {
    all: Vec<Running>,
}

struct Running {
    name: String,
    program: PathBuf,
    config: PathBuf,
    log: PathBuf,
    child: Child,
    is_dead: bool,
}

impl Children {
    /// Starts `program --config CONFIG` with its output in a log. Each child has a process group of its own, so that
    /// Ctrl-C reaches this process only, which ends them in order.
    pub fn start(&mut self, name: &str, program: &Path, config: &Path, log: &Path) -> Result<(), Failure> {
        let context = |error: std::io::Error| Failure::Failed(format!("{}: {error}", program.display()));
        let out = fs::OpenOptions::new().create(true).append(true).open(log).map_err(context)?;
        let mut command = Command::new(program);
        // What is set for this command isn't meant for its children.
        for (variable, _) in std::env::vars_os() {
            let is_ours = variable.to_string_lossy().starts_with("ROLLCALL_");
            if is_ours && variable != "ROLLCALL_LOG" {
                command.env_remove(variable);
            }
        }
        command.arg("--config").arg(config).process_group(0).kill_on_drop(true).stdin(Stdio::null());
        command.stdout(out.try_clone().map_err(context)?).stderr(out);
        let child = command.spawn().map_err(context)?;
        self.all.push(Running {
            name: name.to_owned(),
            program: program.to_owned(),
            config: config.to_owned(),
            log: log.to_owned(),
            child,
            is_dead: false,
        });
        Ok(())
    }

    /// Waits for something that needs all children: the first death is its failure.
    pub async fn while_alive<T>(&mut self, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        tokio::pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return done,
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
            if let Some(death) = self.look().into_iter().next() {
                return Err(Failure::Failed(death));
            }
        }
    }

    /// Says so when a child dies; the others go on. Returns when none is left.
    pub async fn tell_deaths(&mut self, output: &Output) {
        while self.all.iter().any(|running| !running.is_dead) {
            tokio::time::sleep(LOOK_EVERY).await;
            for death in self.look() {
                output.note(&death);
            }
        }
    }

    /// Ends everything: agents first, then what they ran, then the peers.
    pub async fn end_all(&mut self, output: &Output) {
        let (peers, agents): (Vec<_>, Vec<_>) =
            self.all.iter_mut().partition(|running| running.name.starts_with("peer"));
        end(agents, output).await;
        let peer_pids = peers.iter().filter_map(|peer| peer.pid()).collect::<Vec<_>>();
        orphans::end_all(&peer_pids, PATIENCE).await;
        end(peers, output).await;
        orphans::end_all(&[], PATIENCE).await;
    }

    /// Kills everything at once.
    pub fn kill_all(&mut self) {
        for running in &mut self.all {
            running.signal(Signal::SIGKILL);
        }
        orphans::kill_all();
    }

    /// Children that have died since the last look, with what is known of it.
    fn look(&mut self) -> Vec<String> {
        let own: Vec<_> = self.all.iter().filter_map(Running::pid).collect();
        orphans::lay_to_rest(&own);
        let newly_dead = self.all.iter_mut().filter(|running| !running.is_dead);
        newly_dead.filter_map(Running::death).collect()
    }
}

async fn end(mut children: Vec<&mut Running>, output: &Output) {
    for running in &children {
        running.signal(Signal::SIGTERM);
    }
    let deadline = Instant::now() + PATIENCE;
    for running in &mut children {
        let left = deadline.saturating_duration_since(Instant::now());
        if tokio::time::timeout(left, running.child.wait()).await.is_err() {
            output.note(&format!("{} didn't end within {} s; killing it", running.name, PATIENCE.as_secs()));
            running.signal(Signal::SIGKILL);
            // A killed process ends; what fails here is only that it was waited for before.
            drop(running.child.wait().await);
        }
    }
}

impl Running {
    fn pid(&self) -> Option<Pid> {
        self.child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw)
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = self.pid() {
            // It may just have ended: then there is nobody left to tell.
            let _ = nix::sys::signal::kill(pid, signal);
        }
    }

    fn death(&mut self) -> Option<String> {
        let status = self.child.try_wait().ok().flatten()?;
        self.is_dead = true;
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        let last: String =
            lines.iter().skip(lines.len().saturating_sub(LAST_LINES)).map(|line| format!("\n    {line}")).collect();
        Some(format!(
            "{} ended: {status}\n  the end of {}:{last}\n  to start it again: {} --config {}",
            self.name,
            self.log.display(),
            self.program.display(),
            self.config.display()
        ))
    }
}
