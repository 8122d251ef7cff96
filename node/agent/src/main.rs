//! `rollcall-node`: parses its options and runs the agent.

use std::io::IsTerminal;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use rollcall_node::app;
use rollcall_node::cli::{Args, LogFormat};
use rollcall_node::config::Config;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rollcall-node: {}", explain(&error));
            ExitCode::FAILURE
        }
    }
}

/// The error and its causes, each said once: many name their cause themselves.
fn explain(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |text, cause| match text.as_str() {
        "" => cause,
        said if said.contains(&cause) => text,
        said => format!("{said}: {cause}"),
    })
}

fn run(args: &Args) -> Result<()> {
    start_logging(args)?;
    let config = Config::load(&args.config, args.overrides())?;
    // One thread is plenty for an agent and keeps it small; files are copied on the blocking pool.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(4).build()?;
    let outcome = runtime.block_on(async {
        let shutdown = CancellationToken::new();
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let stop = shutdown.clone();
        tokio::spawn(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            stop.cancel();
        });
        app::run(config, shutdown).await.map_err(anyhow::Error::from)
    });
    runtime.shutdown_background();
    outcome
}

fn start_logging(args: &Args) -> Result<()> {
    let filter = EnvFilter::try_new(&args.log).with_context(|| {
        format!("--log (ROLLCALL_LOG) {:?}: a level, or a filter like info,rollcall_node=debug", args.log)
    })?;
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    match args.log_format {
        LogFormat::Text => subscriber.init(),
        LogFormat::Json => subscriber.json().init(),
    }
    Ok(())
}
