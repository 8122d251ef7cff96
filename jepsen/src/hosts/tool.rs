//! Programs of the system that faults are made with.

use std::process::Command;

use anyhow::{Context, Result, bail};

/// Runs one; what it printed. An error that says which package brings it, where it isn't there.
pub fn run(command: &[&str]) -> Result<String> {
    let (program, arguments) = command.split_first().context("no program")?;
    let output = Command::new(program)
        .args(arguments)
        .output()
        .with_context(|| format!("can't start {program}: {} (scripts/jepsen does it)", advice(program)))?;
    if !output.status.success() {
        bail!("{}: {}", command.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn advice(program: &str) -> &'static str {
    match program {
        "iptables" => "apt-get install iptables",
        "tc" | "ip" => "apt-get install iproute2",
        _ => "apt-get install util-linux",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_the_command_and_what_it_said() {
        let error = run(&["nsenter", "--no-such-option"]).unwrap_err().to_string();
        assert!(error.starts_with("nsenter --no-such-option: "), "{error}");
        assert!(run(&["no-such-program"]).unwrap_err().to_string().contains("apt-get install"));
    }
}
