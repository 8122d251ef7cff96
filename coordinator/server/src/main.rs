//! `rollcall-coordinator`: parses what it is given, and runs the peer until it is told to stop.

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser as _;
use rollcall_coordinator::config::{Args, ClusterCommand, Command, Config, Origin, RefoundArgs, SnapshotCommand};
use rollcall_coordinator::{app, inspect, logging, refound};
use tokio::signal::unix::{SignalKind, signal};

/// The state is persistent maps: millions of small nodes that are made and dropped. glibc's allocator searches and merges
/// its free lists for a third of each step at 100,000 nodes; this one costs the same at any size.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The allocator spreads small pieces over the address space that it reserves, and asks for huge pages there: each piece
/// made 2 MiB resident, and more than half of an idle peer's memory was zeros.
fn keep_to_small_pages() {
    // A kernel without huge pages knows no such setting, and needs none.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}

/// A peer needs little: two threads serve agents by the thousand, and disks have threads of their own.
const WORKER_THREADS: usize = 2;

/// BOUND: for work that blocks: reading the log at the start, snapshots, plans.
const BLOCKING_THREADS: usize = 8;

fn main() -> ExitCode {
    keep_to_small_pages();
    let args = Args::parse();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rollcall-coordinator: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// What is done to files while no peer runs on them; what came of it, as JSON.
fn offline(args: &Args, command: &Command) -> anyhow::Result<serde_json::Value> {
    let refounding = |origin: &Origin| {
        let Config { data_dir, advertise, .. } = Config::load(args)?;
        anyhow::Ok((data_dir, RefoundArgs { advertise, origin: origin.clone() }))
    };
    Ok(match command {
        Command::Snapshot(SnapshotCommand::Inspect { file }) => inspect::snapshot(file)?,
        Command::Snapshot(SnapshotCommand::Restore { file, origin }) => {
            let (data_dir, refounding) = refounding(origin)?;
            refound::snapshot(file, &data_dir, refounding)?
        }
        Command::Cluster(ClusterCommand::Recover { force, origin }) => {
            let (data_dir, refounding) = refounding(origin)?;
            refound::peer(&data_dir, refounding, *force)?
        }
    })
}

/// For those who see whether their checks find it.
#[cfg(feature = "planted-faults")]
fn plant() -> anyhow::Result<()> {
    let Ok(name) = std::env::var("ROLLCALL_PLANT") else { return Ok(()) };
    let fault: rollcall_rollout::Planted =
        name.parse().with_context(|| format!("ROLLCALL_PLANT={name}: there is no such fault"))?;
    rollcall_rollout::plant(Some(fault));
    tracing::warn!(%fault, "planted");
    Ok(())
}

fn run(args: &Args) -> anyhow::Result<()> {
    if let Some(command) = &args.command {
        return Ok(writeln!(std::io::stdout(), "{}", offline(args, command)?)?);
    }
    logging::init(&args.log, args.log_format)?;
    #[cfg(feature = "planted-faults")]
    plant()?;
    let config = Config::load(args)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKER_THREADS)
        .max_blocking_threads(BLOCKING_THREADS)
        .enable_all()
        .build()
        .context("the runtime can't start")?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate()).context("can't listen for SIGTERM")?;
        let mut interrupt = signal(SignalKind::interrupt()).context("can't listen for SIGINT")?;
        let told_to_stop = async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        };
        Ok(app::run(config, told_to_stop).await?)
    })
}
