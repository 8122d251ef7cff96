//! `rollcall dev`: everything on this machine in one process tree.

use std::path::PathBuf;

use clap::Args;

use crate::app::App;
use crate::failure::{Failure, Outcome};

/// Run peers, agents and a sample service on this machine, to try everything out
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  rollcall dev --peers 3 --nodes 5")]
pub struct DevArgs {
    /// How many peers
    #[arg(long, value_name = "N")]
    pub peers: Option<usize>,
    /// How many nodes
    #[arg(long, value_name = "N")]
    pub nodes: Option<usize>,
    /// Keep everything here
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
}

/// Runs the command.
pub async fn run(_args: DevArgs, _app: &App) -> Outcome {
    Err(Failure::Failed("soon".into()))
}
