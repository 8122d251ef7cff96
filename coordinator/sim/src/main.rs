//! `rollcall-sim`: runs seeds, and says how to have a failing one again.
//!
//! Exits with 0 if nothing was violated, 1 if something was, 3 if the simulator itself failed.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser;
use rollcall_sim::campaign::{self, Children, list};
use rollcall_sim::run::{Report, run};
use rollcall_sim::setup::Setup;
use rollcall_sim::shrink::shrink;

/// Simulates the whole system from one seed: peers, nodes, network, disks, clocks, operators and what goes wrong with them.
#[derive(Debug, Parser)]
#[command(name = "rollcall-sim", version)]
struct Args {
    /// The seed; with --iterations, the first one.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many seeds, each in a process of its own.
    #[arg(long)]
    iterations: Option<u64>,
    /// A seed to be run again, with its schedule and its trace on the terminal.
    #[arg(long, value_name = "SEED", conflicts_with = "iterations")]
    reproduce: Option<u64>,
    /// Writes the trace into this file.
    #[arg(long, value_name = "FILE", conflicts_with = "iterations")]
    trace: Option<PathBuf>,
    /// Leaves these events of the schedule out.
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', conflicts_with = "iterations")]
    without: Vec<usize>,
    /// How many seeds are run at once.
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// Leaves a failing seed's schedule as it is.
    #[arg(long)]
    no_shrink: bool,
    /// Shows what the system logs, from this level on.
    #[arg(long, value_name = "FILTER")]
    log: Option<String>,
    /// Plants a fault that the simulator must find.
    #[cfg(feature = "planted-faults")]
    #[arg(long, value_name = "FAULT")]
    plant: Option<String>,
}

fn main() -> ExitCode {
    match work(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("rollcall-sim: {error:#}");
            ExitCode::from(3)
        }
    }
}

/// Whether nothing was violated.
fn work(args: &Args) -> anyhow::Result<bool> {
    if let Some(filter) = &args.log {
        let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).without_time();
        subscriber.init();
    }
    #[cfg(feature = "planted-faults")]
    if let Some(fault) = &args.plant {
        rollcall_sim::planted::plant(fault)?;
    }
    match args.iterations {
        Some(count) => many(args, count),
        None => one(args),
    }
}

fn one(args: &Args) -> anyhow::Result<bool> {
    let seed = args.reproduce.unwrap_or(args.seed);
    let without: BTreeSet<usize> = args.without.iter().copied().collect();
    let setup = Setup::draw(seed);
    let mut sinks: Vec<Box<dyn Write + Send>> = Vec::new();
    if args.reproduce.is_some() {
        println!("{}", described(&setup, &without));
        sinks.push(Box::new(std::io::stdout()));
    }
    if let Some(path) = &args.trace {
        let file = File::create(path).with_context(|| format!("can't write {}", path.display()))?;
        sinks.push(Box::new(std::io::BufWriter::new(file)));
    }
    let report = run(setup, &without, sinks)?;
    println!("{}", summed_up(seed, &report));
    Ok(report.violation.is_none())
}

fn described(setup: &Setup, without: &BTreeSet<usize>) -> String {
    let Setup { schedule, .. } = setup;
    let left = schedule.iter().filter(|event| !without.contains(&event.number));
    let events: Vec<_> = left.map(ToString::to_string).collect();
    format!("{:#?}\n{}", Setup { schedule: Vec::new(), ..setup.clone() }, events.join("\n"))
}

fn summed_up(seed: u64, report: &Report) -> String {
    let counts: Vec<_> = report.counts.iter().map(|(what, count)| format!("{what} {count}")).collect();
    let verdict = report
        .violation
        .as_ref()
        .map_or_else(|| "ok".to_owned(), |violation| format!("VIOLATED {}", violation.to_string().replace('\n', " ")));
    let Report { took_ms, lines, digest, .. } = report;
    format!("seed {seed}: {} s, trace {digest} of {lines} lines, {}; {verdict}", took_ms / 1000, counts.join(", "))
}

fn many(args: &Args, count: u64) -> anyhow::Result<bool> {
    let arguments = child_arguments(args);
    let children = Children { program: std::env::current_exe()?, arguments };
    let failed = campaign::run(&children, args.seed, count, args.jobs)?;
    for (seed, said) in &failed {
        let all = Setup::draw(*seed).schedule.len();
        let without = match args.no_shrink {
            true => BTreeSet::new(),
            false => shrink(all, |without| Ok(children.run(*seed, without)?.rule == said.rule))?,
        };
        println!("\n{}", said.line);
        println!("needs {} of {all} events; again, with all that happens:", all - without.len());
        let option = if without.is_empty() { String::new() } else { format!(" --without {}", list(&without)) };
        println!("  rollcall-sim --reproduce {seed}{option}{}", extra(args));
    }
    Ok(failed.is_empty())
}

#[cfg(feature = "planted-faults")]
fn child_arguments(args: &Args) -> Vec<String> {
    args.plant.iter().flat_map(|fault| ["--plant".to_owned(), fault.clone()]).collect()
}

#[cfg(not(feature = "planted-faults"))]
fn child_arguments(_: &Args) -> Vec<String> {
    Vec::new()
}

fn extra(args: &Args) -> String {
    child_arguments(args).iter().map(|argument| format!(" {argument}")).collect()
}
