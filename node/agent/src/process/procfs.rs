//! What `/proc` tells about processes.

use std::fs;

/// From `/proc/PID/stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessStat {
    /// Its process group.
    pub group: u32,
    /// Its session: its own pid where it leads one, as a daemon does.
    pub session: u32,
    /// Clock ticks after boot.
    pub start_time: u64,
    /// It has exited and waits to be reaped.
    pub is_zombie: bool,
}

/// The stat of a process; none: there is no such process.
#[must_use]
pub fn read_stat(pid: u32) -> Option<ProcessStat> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The command's name stands in parentheses and may hold anything, parentheses too: fields count from the last one.
fn parse_stat(text: &str) -> Option<ProcessStat> {
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    // proc(5): state is field 3, pgrp 5, session 6, starttime 22.
    let field = |number: usize| fields.get(number - 3).copied();
    Some(ProcessStat {
        group: field(5)?.parse().ok()?,
        session: field(6)?.parse().ok()?,
        start_time: field(22)?.parse().ok()?,
        is_zombie: matches!(field(3)?, "Z" | "X" | "x"),
    })
}

/// Pids of live processes in a process group.
#[must_use]
pub fn members_of_group(group: u32) -> Vec<u32> {
    let is_member = |pid: &u32| read_stat(*pid).is_some_and(|stat| stat.group == group && !stat.is_zombie);
    all_pids().filter(is_member).collect()
}

fn all_pids() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
}

/// Pids of live processes that were started with this variable in their environment, and its value from `prefix` on.
/// A process may overwrite its environment, so finding none proves nothing; finding one proves that it is ours.
#[must_use]
pub fn find_by_environment(variable: &str, prefix: &str) -> Vec<(u32, String)> {
    let wanted = format!("{variable}={prefix}");
    all_pids()
        .filter(|pid| *pid > 1 && *pid != std::process::id())
        .filter_map(|pid| {
            let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
            let found = environment.split(|byte| *byte == 0).find(|entry| entry.starts_with(wanted.as_bytes()))?;
            Some((pid, String::from_utf8_lossy(&found[wanted.len()..]).into_owned()))
        })
        .collect()
}

/// The value that a process was started with; none: it has none, or can't be looked at.
#[must_use]
pub fn environment_value(pid: u32, variable: &str) -> Option<String> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let prefix = format!("{variable}=");
    let entry = environment.split(|byte| *byte == 0).find_map(|entry| entry.strip_prefix(prefix.as_bytes()))?;
    Some(String::from_utf8_lossy(entry).into_owned())
}

/// Whether this process was started with exactly this variable.
pub(super) fn has_in_environment(pid: u32, variable: &str, value: &str) -> bool {
    environment_value(pid, variable).is_some_and(|found| found == value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_line_is_read_from_behind_the_name() {
        let line = "42 (a) b (c)) S 1 40 39 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 98765 1000 10";
        let stat = parse_stat(line).unwrap();
        assert_eq!(stat, ProcessStat { group: 40, session: 39, start_time: 98765, is_zombie: false });
        assert!(parse_stat("42 (x").is_none());
    }

    #[test]
    fn our_own_process_has_a_stat() {
        assert!(!read_stat(std::process::id()).unwrap().is_zombie);
    }
}
