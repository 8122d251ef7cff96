//! What `/proc` tells about processes: who belongs to a run, how much memory and CPU they use.

use std::fs;
use std::path::Path;
use std::time::Duration;

use nix::unistd::{Pid, SysconfVar, sysconf};

/// The id of this boot of the machine.
pub fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// Whether the process exists and isn't a zombie.
pub fn is_alive(pid: u32) -> bool {
    stat_fields(pid).is_some_and(|fields| fields.first().is_some_and(|state| state != "Z" && state != "X"))
}

/// When the process started, in clock ticks since boot: with its id, that names it for ever.
pub fn start_time(pid: u32) -> Option<u64> {
    stat_fields(pid)?.get(19)?.parse().ok()
}

/// CPU time the process itself has used; children that it waited for are not in it.
pub fn cpu_time(pid: u32) -> Option<Duration> {
    let fields = stat_fields(pid)?;
    let ticks: u64 = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    let per_second = sysconf(SysconfVar::CLK_TCK).ok()??;
    Some(Duration::from_millis(ticks * 1_000 / u64::try_from(per_second).ok()?))
}

/// The highest resident size that the process ever had, in bytes.
pub fn peak_memory(pid: u32) -> Option<u64> {
    status_bytes(pid, "VmHWM:")
}

/// The resident size that the process has now, in bytes.
pub fn resident_memory(pid: u32) -> Option<u64> {
    status_bytes(pid, "VmRSS:")
}

fn status_bytes(pid: u32, field: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with(field))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib * 1_024)
}

/// All processes that can be seen.
pub fn all_processes() -> Vec<Pid> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).map(Pid::from_raw).collect()
}

/// The processes that this one started, and that were not waited for.
pub fn children_of(pid: u32) -> Vec<Pid> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace().filter_map(|word| word.parse().ok()).map(Pid::from_raw).collect()
}

/// In which of the kernel's functions the process waits; empty or `0` while it runs.
pub fn waits_in(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/wchan")).unwrap_or_default()
}

/// Whether it has ended, or a SIGKILL waits for it: it runs no further line of its own.
pub fn is_dying(pid: Pid) -> bool {
    let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else { return true };
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim).unwrap_or_default();
    let killed = |name: &str| u64::from_str_radix(field(name), 16).is_ok_and(|mask| mask & (1 << 8) != 0);
    field("State:").starts_with(['Z', 'X']) || killed("SigPnd:") || killed("ShdPnd:")
}

/// All processes but this one whose command line, environment or working folder names `path` or something below it.
///
/// The working folder is what is left of a server that writes its title over both of the others, as Redis does.
pub fn processes_of(path: &Path) -> Vec<Pid> {
    let Some(needle) = path.to_str().map(str::as_bytes).filter(|needle| !needle.is_empty()) else { return Vec::new() };
    let own = i32::try_from(std::process::id()).unwrap_or_default();
    all_processes()
        .into_iter()
        .map(Pid::as_raw)
        .filter(|pid| *pid != own)
        .filter(|pid| {
            let cwd = fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(path));
            cwd || names_path(*pid, "cmdline", needle) || names_path(*pid, "environ", needle)
        })
        .map(Pid::from_raw)
        .collect()
}

fn names_path(pid: i32, file: &str, needle: &[u8]) -> bool {
    let Ok(bytes) = fs::read(format!("/proc/{pid}/{file}")) else { return false };
    let mut from = 0;
    while let Some(at) = bytes[from..].windows(needle.len()).position(|window| window == needle) {
        let after = bytes.get(from + at + needle.len()).copied();
        // `…/redis-1` must not match `…/redis-10`.
        if !after.is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_') {
            return true;
        }
        from += at + 1;
    }
    false
}

/// The fields of `/proc/PID/stat` after the command's name, which may itself hold spaces: field 3 is at 0.
fn stat_fields(pid: u32) -> Option<Vec<String>> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, after_name) = stat.rsplit_once(')')?;
    Some(after_name.split_whitespace().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_alive_and_uses_memory() {
        let own = std::process::id();
        assert!(is_alive(own));
        assert!(start_time(own).unwrap() > 0);
        assert!(peak_memory(own).unwrap() > 100_000);
        assert!(resident_memory(own).unwrap() > 100_000);
        assert!(cpu_time(own).is_some());
    }

    #[test]
    fn a_process_is_found_by_the_folder_in_its_environment() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("node-1");
        let mut child = std::process::Command::new("sleep").arg("30").env("DATA", &inside).spawn().unwrap();
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
        // Its environment can be read only after its exec, which may be under way.
        while processes_of(&inside).is_empty() {}
        assert_eq!(processes_of(&inside), [pid]);
        assert_eq!(processes_of(folder.path()), [pid]);
        assert_eq!(processes_of(&folder.path().join("node")), []);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!is_alive(child.id()));
    }

    #[test]
    fn a_process_is_found_by_its_working_folder() {
        let folder = tempfile::tempdir().unwrap();
        let mut child = std::process::Command::new("sleep").arg("30").current_dir(folder.path()).spawn().unwrap();
        assert_eq!(processes_of(folder.path()), [Pid::from_raw(i32::try_from(child.id()).unwrap())]);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
