//! `rollcall snapshot`: what a peer's snapshots hold. The files are the coordinator's, so its binary reads them; it is
//! found beside this command, or in the PATH.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use tokio::process::Command;

use crate::app::App;
use crate::dev::find_program;
use crate::failure::{Exit, Failure, Outcome};
use crate::view::SnapshotView;

/// The program that knows the format.
const READER: &str = "rollcall-coordinator";

/// What can be done with snapshots.
#[derive(Debug, Subcommand)]
pub enum SnapshotCommand {
    /// Check a snapshot's file on this machine and show what is in it; exit code 1 where its audit chain is broken
    #[command(after_help = "\
Example:
  rollcall snapshot inspect /var/lib/rollcall/snapshots/00000000000000005000-00000000000000000002.snap")]
    Inspect {
        /// The file
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

/// Runs a command of this family.
pub async fn run(command: SnapshotCommand, app: &App) -> Outcome {
    let SnapshotCommand::Inspect { file } = command;
    let view = inspect(&file).await?;
    app.output.show(&view)?;
    Ok(if view.audit.verified { Exit::Done } else { Exit::NotWell })
}

async fn inspect(file: &Path) -> Result<SnapshotView, Failure> {
    let program = find_program(READER)?;
    // Nothing of this command's environment is meant for the peer's.
    let output = Command::new(&program).env_clear().args(["snapshot", "inspect"]).arg(file).output().await;
    let output = output.map_err(|error| Failure::Failed(format!("{}: {error}", program.display())))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        let text = text.trim();
        return Err(Failure::Failed(text.strip_prefix("rollcall-coordinator: ").unwrap_or(text).to_owned()));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| {
        Failure::Failed(format!("{} speaks another version than this command: {error}", program.display()))
    })
}
