//! Measures what is promised in numbers, on real processes, and holds it against its goal.
//!
//! A number says nothing without the machine and what else it was doing: both are printed with it. Exit codes: 0 every
//! goal was met, 1 one was missed, 3 nothing could be measured.

mod args;
mod failover;
mod load;
mod measure;
mod start;

use std::process::ExitCode;

use clap::Parser;

use args::{Args, Command};
use measure::Measure;

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    println!("{}", load::machine());
    let measured = match args.command {
        Command::Failover(options) => failover::measure(&options).await,
        Command::Start(options) => start::measure(&options).await,
    };
    match measured {
        Ok(measures) => {
            println!("{}\n\n{}", measure::table(&measures), load::machine());
            ExitCode::from(u8::from(!measures.iter().all(Measure::is_met)))
        }
        Err(error) => {
            eprintln!("nothing could be measured: {error:#}");
            ExitCode::from(3)
        }
    }
}
