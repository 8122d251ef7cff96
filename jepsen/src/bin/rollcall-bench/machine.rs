//! On what machine, and what else it is doing.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde::Serialize;

/// What the figures were measured on: without it they say nothing.
#[derive(Debug, Clone, Serialize)]
pub struct Machine {
    pub cpu_model: String,
    pub cores: usize,
    pub memory_bytes: u64,
    pub kernel: String,
    /// Of the folder that all data lies in.
    pub file_system: String,
    /// Over 1, 5 and 15 minutes, before and after.
    pub load_before: String,
    pub load_after: String,
    pub etcd: String,
}

impl Machine {
    /// This one, before anything is measured.
    pub fn look() -> Self {
        let memory_kib = field("/proc/meminfo", "MemTotal").and_then(|text| text.split(' ').next()?.parse().ok());
        Self {
            cpu_model: field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown processor".to_owned()),
            cores: std::thread::available_parallelism().map_or(0, std::num::NonZeroUsize::get),
            memory_bytes: memory_kib.unwrap_or(0_u64) * 1_024,
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
            file_system: file_system(&std::env::temp_dir()).unwrap_or_else(|| "unknown file system".to_owned()),
            load_before: load(),
            load_after: String::new(),
            etcd: etcd_version().unwrap_or_else(|| "none".to_owned()),
        }
    }

    /// After everything was measured.
    pub fn look_again(&mut self) {
        self.load_after = load();
    }

    /// In one line.
    pub fn line(&self) -> String {
        let Self { cpu_model, cores, memory_bytes, kernel, file_system, load_before, load_after, etcd } = self;
        let memory = memory_bytes >> 30;
        let after = if load_after.is_empty() { String::new() } else { format!(", after {load_after}") };
        format!(
            "{cores} × {cpu_model}, {memory} GiB, Linux {kernel}, {file_system}, etcd {etcd}; load {load_before}{after}"
        )
    }
}

fn load() -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

fn field(file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// Of the longest mount point that the folder lies below.
fn file_system(folder: &Path) -> Option<String> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let mounted = |line: &str| {
        let mut words = line.split(' ').skip(1);
        let (point, kind) = (words.next()?.to_owned(), words.next()?.to_owned());
        folder.starts_with(&point).then_some((point.len(), kind))
    };
    // Of two at the same place the later one is seen.
    mounts.lines().filter_map(mounted).max_by_key(|(length, _)| *length).map(|(_, kind)| kind)
}

fn etcd_version() -> Option<String> {
    let output = Command::new("etcd").arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().find_map(|line| line.strip_prefix("etcd Version: ")).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_described() {
        let machine = Machine::look();
        assert!(machine.cores > 0 && machine.memory_bytes > 1 << 20, "{machine:?}");
        assert!(!machine.kernel.is_empty() && !machine.file_system.starts_with("unknown"), "{machine:?}");
    }
}
