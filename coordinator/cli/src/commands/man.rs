//! `rollcall man`: manual pages.

use std::io::Write as _;
use std::path::PathBuf;

use clap::{Args, CommandFactory};
use clap_mangen::Man;

use crate::args::Cli;
use crate::failure::Failure;

/// Print the manual page, or write those of all commands
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rollcall man | man -l -
  rollcall man --dir /usr/local/share/man/man1")]
pub struct ManArgs {
    /// Write the pages of all commands into this folder
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// Runs the command.
pub fn run(args: &ManArgs) -> Result<(), Failure> {
    match &args.dir {
        Some(dir) => {
            let context = |error| Failure::Failed(format!("the manual pages in {}: {error}", dir.display()));
            std::fs::create_dir_all(dir).map_err(context)?;
            clap_mangen::generate_to(Cli::command(), dir).map_err(context)
        }
        None => {
            let mut text = Vec::new();
            Man::new(Cli::command()).render(&mut text)?;
            std::io::stdout().lock().write_all(&text)?;
            Ok(())
        }
    }
}
