//! `rollcall completions`: what a shell needs to complete this command's words.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::args::Cli;
use crate::failure::Failure;

/// Print completions for a shell
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  rollcall completions bash > /etc/bash_completion.d/rollcall")]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
}

/// Runs the command.
pub fn run(args: &CompletionsArgs) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "rollcall", &mut text);
    std::io::Write::write_all(&mut std::io::stdout().lock(), &text)?;
    Ok(())
}
