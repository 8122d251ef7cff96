//! Runs one hook: own process group, captured output, bounded time.
//!
//! The hook holds its pipes open for reading too, so that it is never killed by SIGPIPE when the agent dies: it blocks at
//! most, and the next agent drains what it prints ([`wait_for_survivor`]).

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rollcall_steps::{Hook, RunToken};
use rustix::process::Signal;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::time::timeout;

use super::output::{Collector, Stream};
use super::{HookEnvironment, HookOutput};
use crate::process::{Process, find_by_environment, kill_by_environment, read_stat};

/// In the environment of every hook: finds what is left of it.
pub const HOOK_TOKEN: &str = "ROLLCALL_HOOK_TOKEN";

/// A hook that is asked to end gets this long before it is killed.
const KILL_GRACE: Duration = Duration::from_secs(2);

/// After the hook's own exit its children may hold the pipes open: what they print is waited for this long.
const PIPE_GRACE: Duration = Duration::from_millis(100);

/// One run of a hook.
#[derive(Debug)]
pub struct HookRun {
    /// Which hook.
    pub hook: Hook,
    /// Its file.
    pub path: PathBuf,
    /// The folder it runs in.
    pub folder: PathBuf,
    /// What it sees.
    pub environment: HookEnvironment,
    /// After this it is killed.
    pub timeout: Duration,
    /// Whom it runs as; none: the agent's user. An error: there is no such user.
    pub user: Result<Option<(u32, u32)>, String>,
    /// Its log.
    pub log: PathBuf,
    /// Finds it again.
    pub token: RunToken,
}

/// How a hook ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exit {
    /// With this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// It outlived its timeout and was killed with its group.
    TimedOut(Duration),
    /// Nobody waited for it any more: it was ended with its group.
    CutOff,
    /// It couldn't be started.
    NotStarted(String),
}

/// A run that is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookEnd {
    /// How.
    pub exit: Exit,
    /// What it printed.
    pub output: HookOutput,
    /// How long it took.
    pub took: Duration,
}

impl Exit {
    /// The exit code, where there was one.
    #[must_use]
    pub fn code(&self) -> Option<i32> {
        match self {
            Self::Code(code) => Some(*code),
            Self::Signal(_) | Self::TimedOut(_) | Self::CutOff | Self::NotStarted(_) => None,
        }
    }
}

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exited with {code}"),
            Self::Signal(signal) => write!(f, "was ended by signal {signal}"),
            Self::TimedOut(limit) => write!(f, "did not end within {limit:?} and was killed with its group"),
            Self::CutOff => write!(f, "was ended with its group, since nobody waited for it any more"),
            Self::NotStarted(why) => write!(f, "could not be started: {why}"),
        }
    }
}

impl From<ExitStatus> for Exit {
    fn from(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Code(code),
            (None, signal) => Self::Signal(signal.unwrap_or_default()),
        }
    }
}

impl HookRun {
    /// Runs the hook to its end.
    pub async fn run(self) -> HookEnd {
        self.run_unless(std::future::pending()).await
    }

    /// Runs the hook to its end, or until `cut` completes.
    pub async fn run_unless(self, cut: impl Future<Output = ()>) -> HookEnd {
        let begun = Instant::now();
        let (exit, output) = match self.start().await {
            Ok((process, pipes)) => self.attend(process, pipes, cut).await,
            Err(why) => (Exit::NotStarted(why), HookOutput::default()),
        };
        let took = begun.elapsed();
        tracing::debug!(hook = self.hook.name(), group = %self.environment.group, %exit, ?took, "hook");
        HookEnd { exit, output, took }
    }

    async fn start(&self) -> Result<(Process, Pipes), String> {
        let (out, out_end) = open_pipe().map_err(|error| error.to_string())?;
        let (err, err_end) = open_pipe().map_err(|error| error.to_string())?;
        let mut command = Command::new(&self.path);
        command.current_dir(&self.folder).stdin(Stdio::null()).stdout(out_end).stderr(err_end);
        self.environment.apply(&mut command);
        command.env(HOOK_TOKEN, self.token.to_string());
        if let Some((uid, gid)) = self.user.clone()? {
            command.uid(uid).gid(gid);
        }
        let process = Process::spawn(&mut command).await.map_err(|error| error.to_string())?;
        Ok((process, Pipes { out, err, out_open: true, err_open: true }))
    }

    async fn attend(
        &self,
        mut process: Process,
        mut pipes: Pipes,
        cut: impl Future<Output = ()>,
    ) -> (Exit, HookOutput) {
        let environment = &self.environment;
        let mut collector = Collector::open(&self.log, &headline(self.hook, environment));
        let ended = tokio::select! {
            () = process.exited() => None,
            () = pipes.drain_forever(&mut collector) => unreachable!("it never completes"),
            () = tokio::time::sleep(self.timeout) => Some(Exit::TimedOut(self.timeout)),
            () = cut => Some(Exit::CutOff),
        };
        if ended.is_some() {
            process.signal_group(Signal::TERM);
            tokio::select! {
                () = process.exited() => {}
                () = pipes.drain_forever(&mut collector) => unreachable!("it never completes"),
                () = tokio::time::sleep(KILL_GRACE) => {}
            }
        }
        // What the hook left behind in its group ends with it. The leader isn't reaped yet, so the group is ours.
        process.signal_group(Signal::KILL);
        process.exited().await;
        if ended.is_some() {
            let _ = timeout(KILL_GRACE, process.group_gone()).await;
        }
        let status = process.reap();
        let _ = timeout(PIPE_GRACE, pipes.drain_to_end(&mut collector)).await;
        let exit = match (ended, status) {
            (Some(ended), _) => ended,
            (None, Some(status)) => Exit::from(status),
            (None, None) => Exit::NotStarted("its exit status is lost".to_owned()),
        };
        (exit, collector.finish())
    }
}

#[allow(clippy::disallowed_methods, reason = "for people alone")]
fn headline(hook: Hook, environment: &HookEnvironment) -> String {
    let seconds = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since_epoch| since_epoch.as_secs());
    format!("{} of {} at {seconds} (seconds since 1970)", hook.name(), environment.release)
}

/// Our ends of a hook's pipes.
struct Pipes {
    out: Receiver,
    err: Receiver,
    out_open: bool,
    err_open: bool,
}

impl Pipes {
    /// Takes whatever is printed until both ends are closed.
    async fn drain_to_end(&mut self, collector: &mut Collector) {
        let (mut out, mut err) = ([0; 4096], [0; 4096]);
        while self.out_open || self.err_open {
            tokio::select! {
                read = self.out.read(&mut out), if self.out_open => match read {
                    Ok(0) | Err(_) => self.out_open = false,
                    Ok(bytes) => collector.push(Stream::Out, &out[..bytes]),
                },
                read = self.err.read(&mut err), if self.err_open => match read {
                    Ok(0) | Err(_) => self.err_open = false,
                    Ok(bytes) => collector.push(Stream::Err, &err[..bytes]),
                },
            }
        }
    }

    async fn drain_forever(&mut self, collector: &mut Collector) {
        self.drain_to_end(collector).await;
        std::future::pending::<()>().await;
    }
}

/// A pipe whose writing end is open for reading too, see the head of this file.
fn open_pipe() -> io::Result<(Receiver, File)> {
    let (reader, writer) = io::pipe()?;
    let both = File::options().read(true).write(true).open(format!("/proc/self/fd/{}", writer.as_raw_fd()))?;
    Ok((Receiver::from_owned_fd(OwnedFd::from(reader))?, both))
}

/// Waits for what an earlier agent's run of a hook has left, draining what it prints; after `limit`, or when `cut`
/// completes, it is killed. How it ended nobody can know.
pub async fn wait_for_survivor(token: RunToken, limit: Duration, log: &std::path::Path, cut: impl Future<Output = ()>) {
    let value = token.to_string();
    let found = find_by_environment(HOOK_TOKEN, &value);
    let leader = found.iter().find_map(|(pid, _)| {
        let stat = read_stat(*pid).filter(|stat| stat.group == *pid)?;
        Process::adopt(*pid, stat.start_time)
    });
    if let Some(process) = leader {
        tracing::info!(pid = process.pid(), "a hook outlived the agent; waiting for its end");
        let mut collector = Collector::open(log, "after a restart of the agent");
        let pipes = [1, 2].map(|fd| reopen_pipe(process.pid(), fd));
        let ended = match pipes {
            [Ok(out), Ok(err)] => {
                let mut pipes = Pipes { out, err, out_open: true, err_open: true };
                tokio::select! {
                    () = process.exited() => true,
                    () = pipes.drain_forever(&mut collector) => unreachable!("it never completes"),
                    () = tokio::time::sleep(limit) => false,
                    () = cut => false,
                }
            }
            _ => tokio::select! {
                () = process.exited() => true,
                () = tokio::time::sleep(limit) => false,
                () = cut => false,
            },
        };
        if !ended {
            process.signal_group(Signal::KILL);
            process.exited().await;
        }
        collector.finish();
    }
    let _ = tokio::task::spawn_blocking(move || kill_by_environment(HOOK_TOKEN, |found| found == value)).await;
}

fn reopen_pipe(pid: u32, fd: u32) -> io::Result<Receiver> {
    let path = format!("/proc/{pid}/fd/{fd}");
    let is_pipe = std::fs::read_link(&path)?.to_string_lossy().starts_with("pipe:");
    if !is_pipe {
        return Err(ErrorKind::InvalidInput.into());
    }
    let file = File::open(path)?;
    Receiver::from_owned_fd(OwnedFd::from(file))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::hooks::HookReason;
    use crate::package::HookConfig;

    fn hook(dir: &std::path::Path, script: &str, limit: Duration) -> HookRun {
        let path = dir.join("hook");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        HookRun {
            hook: Hook::Install,
            path,
            folder: dir.to_owned(),
            environment: HookEnvironment {
                group: "app.default".parse().unwrap(),
                node: "n1".parse().unwrap(),
                data_dir: dir.join("data"),
                config: HookConfig {
                    file: dir.join("config.toml"),
                    table: toml::Table::from_iter([("max-clients".to_owned(), toml::Value::Integer(7))]),
                },
                status_file: dir.join("status.toml"),
                package_path: dir.to_owned(),
                release: "acme/app/1.0/20260101000000".to_owned(),
                reason: HookReason::Start,
                step: None,
            },
            timeout: limit,
            user: Ok(None),
            log: dir.join("hook.log"),
            token: RunToken(*uuid::Uuid::new_v4().as_bytes()),
        }
    }

    const LONG: Duration = Duration::from_secs(30);

    #[tokio::test]
    async fn exit_code_output_and_environment_come_through() {
        let dir = tempfile::tempdir().unwrap();
        let script = "echo \"$ROLLCALL_GROUP $ROLLCALL_REASON $ROLLCALL_CONFIG_MAX_CLIENTS\"; echo oops >&2; exit 3";
        let end = hook(dir.path(), script, LONG).run().await;
        assert_eq!(end.exit, Exit::Code(3));
        assert_eq!(end.output.stdout, "app.default start 7\n");
        assert!(end.output.tail.contains("oops"));
        assert!(fs::read_to_string(dir.path().join("hook.log")).unwrap().contains("oops"));
    }

    #[tokio::test]
    async fn a_hook_that_hangs_is_killed_with_its_whole_group() {
        let dir = tempfile::tempdir().unwrap();
        let script = "trap '' TERM; sleep 600 & echo $! > child; while :; do sleep 600; done";
        let end = hook(dir.path(), script, Duration::from_millis(300)).run().await;
        assert_eq!(end.exit, Exit::TimedOut(Duration::from_millis(300)));
        let child: u32 = fs::read_to_string(dir.path().join("child")).unwrap().trim().parse().unwrap();
        assert!(read_stat(child).is_none_or(|stat| stat.is_zombie), "its child lives on");
    }

    #[tokio::test]
    async fn children_that_keep_the_pipes_open_do_not_hold_the_agent() {
        let dir = tempfile::tempdir().unwrap();
        let begun = Instant::now();
        let end = hook(dir.path(), "setsid sleep 5 & echo done", LONG).run().await;
        assert_eq!(end.exit, Exit::Code(0));
        assert_eq!(end.output.stdout, "done\n");
        assert!(begun.elapsed() < Duration::from_secs(3));
    }

    #[tokio::test]
    async fn a_hundred_megabytes_are_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let end = hook(dir.path(), "head -c 100000000 /dev/zero | tr '\\0' x; echo; echo end", LONG).run().await;
        assert_eq!(end.exit, Exit::Code(0));
        assert!(end.output.tail.ends_with("end\n"));
        assert!(fs::metadata(dir.path().join("hook.log")).unwrap().len() < 1 << 20);
    }

    #[tokio::test]
    async fn a_survivor_is_found_by_its_token_and_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let run = hook(dir.path(), "head -c 1000000 /dev/zero; echo late > late", LONG);
        let (mut process, pipes) = run.start().await.unwrap();
        // A process in the middle of its exec has no environment yet; no agent dies and comes back as fast as that.
        let begun = Instant::now();
        while find_by_environment(HOOK_TOKEN, &run.token.to_string()).is_empty() {
            assert!(begun.elapsed() < LONG, "the hook never began");
            tokio::task::yield_now().await;
        }
        drop(pipes);
        wait_for_survivor(run.token, LONG, &run.log, std::future::pending()).await;
        assert!(dir.path().join("late").exists(), "it was drained, not killed by SIGPIPE");
        process.exited().await;
        process.reap();
    }
}
