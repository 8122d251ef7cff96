//! Processes that lost their parent and became this process's children: services, and what hooks left behind.

use std::fs;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::{Pid, getpgrp, getpid};

use crate::failure::Failure;

const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Makes this process the parent of every process of its tree that loses its own.
pub fn adopt_all() -> Result<(), Failure> {
    prctl::set_child_subreaper(true).map_err(|error| Failure::Failed(format!("becoming a subreaper: {error}")))
}

/// Ends every child that isn't one of `own`, and what they leave in turn; kills what hasn't ended in time.
pub async fn end_all(own: &[Pid], patience: Duration) {
    let deadline = Instant::now() + patience;
    let mut told = Vec::new();
    loop {
        lay_to_rest(own);
        let orphans = find(own);
        if orphans.is_empty() {
            return;
        }
        let is_over = Instant::now() >= deadline;
        for pid in orphans {
            if is_over {
                signal(pid, Signal::SIGKILL);
            } else if !told.contains(&pid) {
                told.push(pid);
                signal(pid, Signal::SIGTERM);
            }
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Kills every child.
pub fn kill_all() {
    for pid in find(&[]) {
        signal(pid, Signal::SIGKILL);
    }
}

/// Waits for adopted children that have ended, so that nobody takes them for alive. `own` are left to whoever
/// started them.
pub fn lay_to_rest(own: &[Pid]) {
    for pid in find(own) {
        // Still running, or gone: both are fine.
        let _ = waitpid(pid, Some(WaitPidFlag::WNOHANG));
    }
}

/// To its whole group where it leads one; never to this process's own.
fn signal(pid: Pid, signal: Signal) {
    let group = nix::unistd::getpgid(Some(pid));
    let sent = match group {
        Ok(group) if group == pid && group != getpgrp() => killpg(group, signal),
        _ => kill(pid, signal),
    };
    debug_assert!(matches!(sent, Ok(()) | Err(Errno::ESRCH | Errno::EPERM)), "{sent:?}");
}

/// Children of this process but `own`.
fn find(own: &[Pid]) -> Vec<Pid> {
    let this = getpid();
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok().map(Pid::from_raw))
        .filter(|pid| !own.contains(pid) && parent_of(*pid) == Some(this))
        .collect()
}

/// Field 4 of `/proc/PID/stat`; the name before it is in parentheses and may hold anything.
fn parent_of(pid: Pid) -> Option<Pid> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(1)?.parse().ok().map(Pid::from_raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_knows_its_parent() {
        assert_eq!(parent_of(getpid()), Some(nix::unistd::getppid()));
    }
}
