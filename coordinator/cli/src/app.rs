//! The composition root: from the process's arguments to its exit code.

use std::io::Write as _;
use std::process::ExitCode;

use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches};

use crate::args::{Cli, Command};
use crate::client::Client;
use crate::commands;
use crate::config::Config;
use crate::failure::{Exit, Failure, Outcome};
use crate::logging;
use crate::output::{Output, wrap};

/// What commands work with.
pub struct App {
    pub client: Client,
    pub output: Output,
    pub config: Config,
}

impl App {
    /// The same for other peers than the options name.
    pub fn with_client(&self, client: Client) -> Self {
        Self { client, output: Output::new(&self.config), config: self.config.clone() }
    }
}

/// Runs the command that the process's arguments name.
pub fn run() -> ExitCode {
    let matches = Cli::command().get_matches();
    let cli = match Cli::from_arg_matches(&matches) {
        Ok(cli) => cli,
        Err(error) => error.exit(),
    };
    match start(cli, timeout_is_option(&matches)) {
        Ok(exit) => ExitCode::from(exit.code()),
        Err(failure) => {
            let text = failure.to_string();
            if !text.is_empty() {
                // Nobody is left to be told where stderr is closed.
                drop(writeln!(std::io::stderr(), "{}", for_stderr(&text)));
            }
            ExitCode::from(failure.code())
        }
    }
}

/// A terminal breaks long lines within words, so that commands can't be copied: they are broken between them.
fn for_stderr(text: &str) -> String {
    let Some((_, columns)) = console::Term::stderr().size_checked() else { return text.to_owned() };
    let room = usize::from(columns).saturating_sub(2).max(20);
    let wrapped = text.lines().map(|line| {
        let words = line.trim_start();
        let indent = &line[..line.len() - words.len()];
        format!("{indent}{}", wrap(words, room - indent.len()).join(&format!("\n{indent}  ")))
    });
    wrapped.collect::<Vec<_>>().join("\n")
}

/// Whether `--timeout` stands on the command line, and not only in the environment.
fn timeout_is_option(matches: &ArgMatches) -> bool {
    let leaf = std::iter::successors(Some(matches), |matches| matches.subcommand().map(|(_, inner)| inner)).last();
    leaf.is_some_and(|leaf| leaf.value_source("timeout") == Some(ValueSource::CommandLine))
}

fn start(cli: Cli, timeout_is_option: bool) -> Outcome {
    let config = Config::load(&cli.global, timeout_is_option)?;
    logging::start(config.log_format)?;
    console::set_colors_enabled(config.colour);
    let app = App { client: Client::new(&config), output: Output::new(&config), config };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(Failure::failed)?;
    let outcome = runtime.block_on(dispatch(cli.command, &app));
    // What still runs is a connection or a read of stdin: nothing that is worth waiting for.
    runtime.shutdown_background();
    outcome
}

async fn dispatch(command: Command, app: &App) -> Outcome {
    match command {
        Command::Group(command) => commands::group::run(command, app).await,
        Command::Rollout(command) => commands::rollout::run(command, app).await,
        Command::Node(command) => commands::node::run(command, app).await,
        Command::Token(command) => commands::token::run(command, app).await,
        Command::Channel(command) => commands::channel::run(command, app).await,
        Command::Package(command) => commands::package::run(command, app).await,
        Command::Quarantine(command) => commands::quarantine::run(command, app).await,
        Command::Window(command) => commands::window::run(command, app).await,
        Command::Freeze(command) => commands::freeze::run(command, app).await,
        Command::Explain(args) => commands::explain::run(args, app).await,
        Command::Events(args) => commands::events::run(args, app).await,
        Command::Audit(args) => commands::audit::run(args, app).await,
        Command::Cluster(command) => commands::cluster::run(command, app).await,
        Command::Snapshot(command) => commands::snapshot::run(command, app).await,
        Command::Doctor(args) => commands::doctor::run(args, app).await,
        Command::Dev(args) => crate::dev::run(args, app).await,
        Command::Completions(args) => commands::completions::run(&args).map(|()| Exit::Done),
        Command::Man(args) => commands::man::run(&args).map(|()| Exit::Done),
    }
}
