//! Keeps a machine's program running, as an init system does: what ends is started again after a moment, and each end is
//! written down. While a file named `hold` lies in its folder nothing is started.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;

/// How long it waits before it starts the program again; also how soon it sees that it may.
const RESTARTS_AFTER: Duration = Duration::from_millis(100);

/// While it lies in the keeper's folder, nothing is started.
pub const HOLD: &str = "hold";

/// One line for each end of the program.
pub const ENDS: &str = "ends";

/// What the keeper has to know.
#[derive(Debug, Args)]
pub struct Keeper {
    /// Where `hold` and `ends` lie
    #[arg(long)]
    folder: PathBuf,
    /// The program and its arguments
    #[arg(required = true, last = true)]
    command: Vec<String>,
}

/// Runs the program again and again; only the machine's end ends it.
pub fn keep(keeper: &Keeper) -> Result<()> {
    let (program, arguments) = keeper.command.split_first().context("no program")?;
    loop {
        while keeper.folder.join(HOLD).exists() {
            std::thread::sleep(RESTARTS_AFTER);
        }
        let mut child = Command::new(program)
            .args(arguments)
            .process_group(0)
            .spawn()
            .with_context(|| format!("can't start {program}"))?;
        let status = child.wait()?;
        write_end(&keeper.folder, &status.to_string())?;
        std::thread::sleep(RESTARTS_AFTER);
    }
}

fn write_end(folder: &Path, how: &str) -> Result<()> {
    let mut ends = OpenOptions::new().create(true).append(true).open(folder.join(ENDS))?;
    Ok(writeln!(ends, "{how}")?)
}
