//! The real `rollcall` binary against a fake cluster: what it prints, what it sends, how it ends.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod answers;
mod auditing;
mod dev;
mod fake;
mod group_files;
mod retries;
mod samples;
mod saving;
mod usage;
mod watching;
mod writes;

use std::process::Output;

use assert_cmd::Command;
use assert_cmd::cargo::cargo_bin;

/// The binary, with nothing of this process's environment that it would listen to.
fn rollcall() -> Command {
    let mut command = Command::new(cargo_bin!("rollcall"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("ROLLCALL_")) {
        command.env_remove(name);
    }
    command.env("NO_COLOR", "1");
    command
}

/// Runs it with arguments that are split at spaces.
fn run(endpoints: &str, line: &str) -> Output {
    rollcall().args(["--endpoints", endpoints]).args(line.split(' ')).output().expect("the binary runs")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("stdout is UTF-8")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("stderr is UTF-8")
}

fn code(output: &Output) -> i32 {
    output.status.code().expect("it ended by itself")
}
