//! A peer as a process.
#![allow(clippy::unwrap_used, reason = "test code")]

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

pub fn binary(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rollcall-coordinator"));
    command.args(["--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--log-format", "json", "--data-dir"]).arg(dir);
    command.env_clear();
    command
}

/// A peer that listens, and where.
pub fn started(command: &mut Command) -> (Child, String) {
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let line = lines.find_map(|line| Some(line.unwrap()).filter(|line| line.contains("\"listening\""))).unwrap();
    // Somebody must read on, or the peer blocks on its logs.
    std::thread::spawn(move || lines.for_each(drop));
    let line: serde_json::Value = serde_json::from_str(&line).unwrap();
    (child, line["grpc"].as_str().unwrap().to_owned())
}

pub fn terminate(mut child: Child) {
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
