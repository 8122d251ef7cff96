//! Black-box tests in Jepsen's manner: real programs on hosts of namespaces, clients whose operations are written down,
//! faults that come and go by a seeded schedule, and checkers that know nothing of the inside.

mod args;
mod minimise;
mod run;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, ValueEnum};
use rollcall_jepsen::check::Outcome;
use rollcall_jepsen::clock::Clock;
use rollcall_jepsen::nemesis::{Fault, late};
use rollcall_jepsen::power::{first, keeper};
use rollcall_jepsen::screen::Screen;
use rollcall_jepsen::stored::Stored;
use rollcall_jepsen::workload::Workload;

use args::{Args, Command};

fn main() -> ExitCode {
    let outcome = match Args::parse().command {
        Command::FirstProcess(machine) => first::first_process(&machine).map(|()| Outcome::Held),
        Command::Delay(delayer) => late::delay(&delayer).map(|()| Outcome::Held),
        Command::Keep(program) => keeper::keep(&program).map(|()| Outcome::Held),
        Command::Reboot => first::reboot().map(|()| Outcome::Held),
        Command::Run(run) => run::run_apart(&run.spelled_out()),
        Command::List => list(),
        Command::Check { folder } => check(&folder),
        Command::Minimise { folder, runs } => minimise::minimise(&folder, runs),
    };
    match outcome {
        Ok(Outcome::Held) => ExitCode::SUCCESS,
        Ok(Outcome::Violated) => ExitCode::from(1),
        Ok(Outcome::Unknown) => ExitCode::from(2),
        Err(error) => {
            eprintln!("\nThe run could not be carried out: {error:#}");
            ExitCode::from(3)
        }
    }
}

fn check(folder: &std::path::Path) -> Result<Outcome> {
    let screen = Screen::new(Clock::start());
    run::conclude(&Stored::load(folder)?, &screen)
}

fn list() -> Result<Outcome> {
    let about = |value: Option<clap::builder::PossibleValue>| {
        let help = value.and_then(|value| value.get_help().map(ToString::to_string));
        help.unwrap_or_default()
    };
    println!("Workloads (--workload):");
    for workload in Workload::ALL {
        println!("  {:<10} {}", workload.name(), about(workload.to_possible_value()));
    }
    println!("\nNemeses (--nemesis, several at once, or all):");
    for fault in Fault::ALL {
        println!("  {:<10} {}", fault.name(), about(fault.to_possible_value()));
    }
    Ok(Outcome::Held)
}
