//! One process that we started, now or in an earlier life.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::signal::{ProcessKey, may_be_ours, signal_group};
use super::{members_of_group, read_stat};

/// A file that was just written may be held open for an instant by a child that was forked meanwhile (ETXTBSY).
const BUSY_RETRIES: u32 = 20;
const BUSY_PAUSE: Duration = Duration::from_millis(5);

/// A process, leader of its own group.
#[derive(Debug)]
pub struct Process {
    pid: u32,
    start_time: u64,
    pidfd: AsyncFd<OwnedFd>,
    /// Ours to reap; none where it was re-adopted.
    child: Option<Child>,
}

/// Why a program couldn't be started.
#[derive(Debug, thiserror::Error)]
#[error("can't run {program}: {source}{}", hint(source))]
pub struct SpawnError {
    /// Which one.
    pub program: String,
    /// What the system said.
    #[source]
    pub source: io::Error,
}

/// `ENOEXEC`
const NO_FORMAT: i32 = 8;

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => " (it, or the interpreter in its first line, is missing)",
        io::ErrorKind::PermissionDenied => " (has it its run bit?)",
        _ if error.raw_os_error() == Some(NO_FORMAT) => " (a script needs a first line like #!/bin/sh)",
        _ => "",
    }
}

impl Process {
    /// Starts a program in a process group of its own.
    ///
    /// # Errors
    /// [`SpawnError`]
    pub async fn spawn(command: &mut Command) -> Result<Self, SpawnError> {
        command.process_group(0);
        let program = command.get_program().to_string_lossy().into_owned();
        let error = |source| SpawnError { program: program.clone(), source };
        let mut tries = 0;
        let mut child = loop {
            match command.spawn() {
                Err(busy) if busy.kind() == io::ErrorKind::ExecutableFileBusy && tries < BUSY_RETRIES => {
                    tries += 1;
                    tokio::time::sleep(BUSY_PAUSE).await;
                }
                other => break other.map_err(error)?,
            }
        };
        let pid = child.id();
        // Until it is reaped its pid is its own, so neither of these can meet another process.
        let opened = open_pidfd(pid).and_then(|pidfd| {
            read_stat(pid).map(|stat| (pidfd, stat)).ok_or_else(|| io::Error::other("it has no stat"))
        });
        match opened {
            Ok((pidfd, stat)) => Ok(Self { pid, start_time: stat.start_time, pidfd, child: Some(child) }),
            Err(source) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(error(source))
            }
        }
    }

    /// Re-adopts a process of an earlier life of the agent; none where it isn't that process any more.
    #[must_use]
    pub fn adopt(pid: u32, start_time: u64) -> Option<Self> {
        if !may_be_ours(pid) {
            return None;
        }
        let pidfd = open_pidfd(pid).ok()?;
        // Checked behind the pidfd: from here on it can't become another one.
        let stat = read_stat(pid)?;
        (stat.start_time == start_time && stat.group == pid && !stat.is_zombie).then_some(Self {
            pid,
            start_time,
            pidfd,
            child: None,
        })
    }

    /// Its process id, and its group's.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Clock ticks after boot.
    #[must_use]
    pub fn start_time(&self) -> u64 {
        self.start_time
    }

    /// How long ago it was started.
    #[must_use]
    pub fn age(&self) -> Duration {
        let ticks_per_second = rustix::param::clock_ticks_per_second().max(1);
        let started_at = Duration::from_millis(self.start_time.saturating_mul(1000) / ticks_per_second);
        uptime().saturating_sub(started_at)
    }

    /// Completes once the process has exited.
    pub async fn exited(&self) {
        if self.pidfd.readable().await.is_err() {
            // The reactor is gone: so is the agent.
            std::future::pending::<()>().await;
        }
    }

    /// Whether another process of its group lives: a child that hasn't got out of it, or never will.
    pub fn has_company(&self) -> bool {
        members_of_group(self.pid).into_iter().any(|member| member != self.pid)
    }

    /// Completes once no process of its group lives any more: a script's children may outlive it.
    pub async fn group_gone(&self) {
        self.exited().await;
        while let Some(member) = members_of_group(self.pid).first() {
            if let Ok(pidfd) = open_pidfd(*member) {
                // Only now, behind the pidfd, is it known to be (still) a member.
                let is_member = read_stat(*member).is_some_and(|stat| stat.group == self.pid && !stat.is_zombie);
                if is_member && pidfd.readable().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        }
    }

    /// Its exit status, once it has exited; none where it isn't our child.
    pub fn reap(&mut self) -> Option<ExitStatus> {
        self.child.as_mut()?.wait().ok()
    }

    /// Sends a signal to its whole group. Refused (false) unless the leader, alive or not yet reaped, is provably ours.
    pub fn signal_group(&self, signal: Signal) -> bool {
        signal_group(ProcessKey { pid: self.pid, start_time: self.start_time }, signal)
    }
}

/// Since the boot; zero where that can't be read.
fn uptime() -> Duration {
    let text = std::fs::read_to_string("/proc/uptime").unwrap_or_default();
    let seconds = text.split(' ').next().and_then(|seconds| seconds.parse().ok());
    seconds.map_or(Duration::ZERO, |seconds: f64| Duration::try_from_secs_f64(seconds).unwrap_or_default())
}

/// The deprecated constructor is unsound for types that may close or swap their descriptor; an `OwnedFd` does neither, and
/// its successor is `unsafe`, which this workspace forbids.
#[allow(deprecated)]
fn open_pidfd(pid: u32) -> io::Result<AsyncFd<OwnedFd>> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
    AsyncFd::with_interest(pidfd_open(pid, PidfdFlags::empty())?, Interest::READABLE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_exit_is_seen_and_reaped() {
        let mut process = Process::spawn(Command::new("/bin/sh").args(["-c", "exit 7"])).await.unwrap();
        process.exited().await;
        assert_eq!(process.reap().unwrap().code(), Some(7));
        assert!(!process.signal_group(Signal::KILL), "once reaped, its pid may be another's");
    }

    #[tokio::test]
    async fn only_the_very_process_is_adopted() {
        let mut process = Process::spawn(Command::new("/bin/sleep").arg("60")).await.unwrap();
        assert!(Process::adopt(process.pid(), process.start_time() + 1).is_none());
        assert!(process.age() < Duration::from_secs(30), "{:?}", process.age());
        let adopted = Process::adopt(process.pid(), process.start_time()).unwrap();
        assert!(adopted.signal_group(Signal::KILL));
        adopted.exited().await;
        process.exited().await;
        process.reap();
        assert!(Process::adopt(process.pid(), process.start_time()).is_none());
    }

    #[tokio::test]
    async fn pids_that_are_never_ours_are_never_adopted() {
        let group = rustix::process::getpgrp().as_raw_nonzero().get().cast_unsigned();
        for pid in [0, 1, std::process::id(), group, u32::MAX] {
            let start_time = read_stat(pid).map_or(0, |stat| stat.start_time);
            assert!(Process::adopt(pid, start_time).is_none());
        }
    }

    #[tokio::test]
    async fn a_missing_program_is_named_with_a_hint() {
        let error = Process::spawn(&mut Command::new("/nowhere/hook")).await.unwrap_err().to_string();
        assert!(error.contains("/nowhere/hook") && error.contains("missing"), "{error}");
    }
}
