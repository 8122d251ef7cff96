//! The one place where signals are sent.
//!
//! A pid is used again, so it says nothing alone: who is to be signalled is known by pid and start time, and looked at once
//! more right before. `clippy.toml` bans the calls elsewhere in this crate.
//!
//! # Invariants
//! - Nothing goes to pid 0 (whoever calls), 1 (the machine), this process or its group, whatever a record says.
//! - Nothing goes to a process whose start time isn't the one that was recorded: it only has the pid.

#![allow(clippy::disallowed_methods)]

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::process::{Pid, PidfdFlags, Signal, getpgrp, kill_process_group, pidfd_open, pidfd_send_signal};

use super::{ProcessStat, find_by_environment, has_in_environment, read_stat};

/// BOUND: a process that goes on forking while it is killed is found again; one that outruns so many looks is left.
const ROUNDS: usize = 16;

/// A killed process is gone at once, unless the kernel holds it.
const END_LIMIT: Duration = Duration::from_secs(5);

/// Which process: a pid alone is used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessKey {
    /// Its process id.
    pub pid: u32,
    /// Clock ticks after boot.
    pub start_time: u64,
}

/// This process, which is never signalled.
#[derive(Debug, Clone, Copy)]
struct Own {
    pid: u32,
    group: u32,
}

impl Own {
    fn get() -> Self {
        Self { pid: std::process::id(), group: getpgrp().as_raw_nonzero().get().cast_unsigned() }
    }
}

/// A pid that is nobody's, everybody's, the machine's or ours.
fn is_off_limits(pid: u32, own: Own) -> bool {
    pid <= 1 || i32::try_from(pid).is_err() || pid == own.pid || pid == own.group
}

/// Whether this pid may be anything that an agent has started.
pub(super) fn may_be_ours(pid: u32) -> bool {
    !is_off_limits(pid, Own::get())
}

/// Whether the group that `key` leads may be signalled, where `seen` is what has its pid now.
fn may_signal_group(key: ProcessKey, seen: Option<ProcessStat>, own: Own) -> bool {
    let is_same = seen.is_some_and(|stat| stat.start_time == key.start_time && stat.group == key.pid);
    is_same && !is_off_limits(key.pid, own)
}

/// Whether `key` alone may be signalled, where `seen` is what has its pid now.
fn may_signal_process(key: ProcessKey, seen: Option<ProcessStat>, own: Own) -> bool {
    let is_same = seen
        .is_some_and(|stat| stat.start_time == key.start_time && !stat.is_zombie && !is_off_limits(stat.group, own));
    is_same && !is_off_limits(key.pid, own)
}

/// Signals the whole group that a process leads. Refused (false) unless the leader, alive or not yet reaped, is that very
/// process.
pub(super) fn signal_group(key: ProcessKey, signal: Signal) -> bool {
    let own = Own::get();
    if !may_signal_group(key, read_stat(key.pid), own) {
        return false;
    }
    let Some(group) = i32::try_from(key.pid).ok().and_then(Pid::from_raw) else { return false };
    assert!(!is_off_limits(key.pid, own), "a signal to group {group:?} would be one to ourselves or to everybody");
    kill_process_group(group, signal).is_ok()
}

/// Kills one process and waits for its end. It is looked at behind its pidfd, so that a pid that is used again meanwhile is
/// never hit. Blocks, for [`END_LIMIT`] at most; false: it wasn't killed, or isn't gone.
fn kill_and_wait(key: ProcessKey, is_still_ours: impl FnOnce() -> bool) -> bool {
    let own = Own::get();
    let Some(pid) = i32::try_from(key.pid).ok().and_then(Pid::from_raw) else { return false };
    let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty()) else { return false };
    if !may_signal_process(key, read_stat(key.pid), own) || !is_still_ours() {
        return false;
    }
    assert!(!is_off_limits(key.pid, own), "a signal to {pid:?} would be one to ourselves or to everybody");
    if pidfd_send_signal(&pidfd, Signal::KILL).is_err() {
        return false;
    }
    let limit = PollTimeout::try_from(END_LIMIT).unwrap_or(PollTimeout::MAX);
    poll(&mut [PollFd::new(pidfd.as_fd(), PollFlags::POLLIN)], limit).is_ok_and(|ready| ready > 0)
}

/// Kills every process whose environment has `variable` with a value that `is_ours` accepts, and waits for their ends.
/// Looks again until none is left. Blocks; gives how many there were.
pub fn kill_by_environment(variable: &str, is_ours: impl Fn(&str) -> bool) -> usize {
    let begun = Instant::now();
    let mut killed = 0;
    for _ in 0..ROUNDS {
        let found = find_by_environment(variable, "");
        let before = killed;
        for (pid, value) in found.into_iter().filter(|(_, value)| is_ours(value)) {
            let Some(stat) = read_stat(pid) else { continue };
            let key = ProcessKey { pid, start_time: stat.start_time };
            if kill_and_wait(key, || has_in_environment(pid, variable, &value)) {
                tracing::warn!(pid, "killed a process that was left behind");
                killed += 1;
            }
        }
        if killed == before || begun.elapsed() > END_LIMIT {
            break;
        }
    }
    killed
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;

    const OWN: Own = Own { pid: 500, group: 400 };

    fn stat() -> impl Strategy<Value = Option<ProcessStat>> {
        let near = prop_oneof![Just(0u32), Just(1), Just(400), Just(500), Just(600), any::<u32>()];
        let stat = (near, 0u64..3, any::<bool>()).prop_map(|(group, start_time, is_zombie)| ProcessStat {
            group,
            session: 1,
            start_time,
            is_zombie,
        });
        prop::option::of(stat)
    }

    fn key() -> impl Strategy<Value = ProcessKey> {
        let pid = prop_oneof![Just(0u32), Just(1), Just(400), Just(500), Just(600), Just(u32::MAX), any::<u32>()];
        (pid, 0u64..3).prop_map(|(pid, start_time)| ProcessKey { pid, start_time })
    }

    proptest! {
        /// Whatever a record says and whatever has the pid by now.
        #[test]
        fn nobody_else_is_ever_signalled(key in key(), seen in stat()) {
            let is_never_ours = [0, 1, OWN.pid, OWN.group].contains(&key.pid) || i32::try_from(key.pid).is_err();
            for may in [may_signal_group(key, seen, OWN), may_signal_process(key, seen, OWN)] {
                prop_assert!(!may || !is_never_ours);
                prop_assert!(!may || seen.is_some_and(|stat| stat.start_time == key.start_time));
            }
            // A group is signalled through its leader alone; a process alone, not where it is in our group.
            prop_assert!(!may_signal_group(key, seen, OWN) || seen.is_some_and(|stat| stat.group == key.pid));
            let in_our_group = seen.is_some_and(|stat| stat.group == OWN.group);
            prop_assert!(!may_signal_process(key, seen, OWN) || !in_our_group);
            // And the very process is, or nothing would ever end.
            let is_it = seen == Some(ProcessStat { group: key.pid, session: 1, start_time: key.start_time, is_zombie: false });
            prop_assert!(!is_it || is_never_ours || may_signal_group(key, seen, OWN));
        }
    }

    #[test]
    fn real_processes_that_are_never_ours_are_refused() {
        let own = Own::get();
        for pid in [0, 1, own.pid, own.group] {
            let start_time = read_stat(pid).map_or(0, |stat| stat.start_time);
            assert!(!signal_group(ProcessKey { pid, start_time }, Signal::CONT), "{pid}");
            assert!(!kill_and_wait(ProcessKey { pid, start_time }, || true), "{pid}");
        }
        // One of our own group, too, and one that has the pid by now.
        let mut child = Command::new("/bin/sleep").arg("60").spawn().unwrap();
        let start_time = read_stat(child.id()).unwrap().start_time;
        assert!(!kill_and_wait(ProcessKey { pid: child.id(), start_time }, || true));
        child.kill().unwrap();
        child.wait().unwrap();
        let mut child = Command::new("/bin/sleep").arg("60").process_group(0).spawn().unwrap();
        let start_time = read_stat(child.id()).unwrap().start_time;
        let another = ProcessKey { pid: child.id(), start_time: start_time + 1 };
        assert!(!signal_group(another, Signal::KILL) && !kill_and_wait(another, || true));
        assert!(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn what_carries_the_mark_is_gone_when_it_was_killed() {
        let mark = format!("{}", uuid::Uuid::new_v4());
        let script = "setsid sleep 60 & setsid sleep 60 & sleep 60";
        let mut leader =
            Command::new("/bin/sh").args(["-c", script]).env("RC_MARK", &mark).process_group(0).spawn().unwrap();
        let begun = Instant::now();
        while find_by_environment("RC_MARK", &mark).len() < 4 {
            assert!(begun.elapsed() < Duration::from_secs(20), "they never began");
        }
        let killed = kill_by_environment("RC_MARK", |value| value == mark);
        assert!(killed >= 4, "{killed}");
        assert!(find_by_environment("RC_MARK", &mark).is_empty());
        leader.wait().unwrap();
    }
}
