//! Measures what is promised in numbers, on real processes, beside etcd in the same run, and holds it against its goal.
//!
//! A number says nothing without the machine and what else it was doing: both are printed with it, and what is compared
//! was measured in turn on the same disk in the same run. Exit codes: 0 every goal was met, 1 one was missed, 3 something
//! couldn't be measured.
//!
//! Deliberately absent: any trust in an acknowledgement. Every write that was acknowledged is read back.

mod args;
mod chart;
mod client;
mod drive;
mod etcd;
mod failover;
mod fleet;
mod floor;
mod handover;
mod idle;
mod machine;
mod reads;
mod report;
mod reports;
mod rollcall;
mod rollout;
mod row;
mod sessions;
mod snapshot;
mod start;
mod system;
mod times;
mod writes;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, ValueEnum};
use rollcall_jepsen::interrupt::interrupted;

use args::{Args, Part};
use machine::Machine;
use report::Findings;

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    let mut machine = Machine::look();
    println!("{}", machine.line());
    let (mut found, mut failed) = (Findings::default(), Vec::new());
    for part in args.chosen() {
        let name = part.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
        eprintln!("{name}");
        let measured = tokio::select! {
            measured = measure(part, args.quick) => measured,
            // Dropping what is under way ends its processes.
            () = interrupted() => return ExitCode::from(3),
        };
        match measured {
            Ok(more) => found.add(more),
            Err(error) => {
                eprintln!("{name} couldn't be measured: {error:#}");
                failed.push(format!("{name}: {error:#}"));
            }
        }
    }
    machine.look_again();
    println!("{}\n\n{}", report::table(&found.rows), machine.line());
    if let Err(error) = report::write(&args.out, &machine, args.quick, &found, &failed) {
        eprintln!("the report can't be written: {error:#}");
        return ExitCode::from(3);
    }
    println!("{}", args.out.join("report.json").display());
    for failure in &failed {
        println!("not measured: {failure}");
    }
    match (failed.is_empty(), found.are_kept()) {
        (false, _) => ExitCode::from(3),
        (true, false) => ExitCode::from(1),
        (true, true) => ExitCode::SUCCESS,
    }
}

async fn measure(part: Part, quick: bool) -> Result<Findings> {
    match part {
        Part::Writes => {
            let mut found = writes::measure(quick).await?;
            found.add(reports::measure(quick, &found.rows).await?);
            Ok(found)
        }
        Part::Reads => reads::measure(quick).await,
        Part::HandOver => handover::measure(quick).await,
        Part::Failover => failover::measure(quick).await,
        Part::Sessions => sessions::measure(quick).await,
        Part::Rollout => rollout::measure(quick).await,
        Part::Start => {
            let mut found = start::measure(quick).await?;
            found.add(snapshot::measure(quick).await?);
            Ok(found)
        }
        Part::Idle => idle::measure(quick).await,
    }
}
