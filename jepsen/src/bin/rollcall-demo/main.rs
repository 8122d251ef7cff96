//! The main job, to watch: a Redis Cluster of six is moved to a new release under load, while we kill what we can.
//!
//! Ends with exit code 0 only if every promise held: see [`update`] and [`failing`].

mod args;
mod disturb;
mod failing;
mod idle;
mod judge;
mod progress;
mod scene;
mod update;

use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Parser;
use rollcall_jepsen::check::{Outcome, Verdict, overall};
use rollcall_jepsen::interrupt::interrupted;

use args::Args;
use scene::Scene;

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args).await {
        Ok(Outcome::Held) => ExitCode::SUCCESS,
        Ok(Outcome::Violated) => ExitCode::from(1),
        Ok(Outcome::Unknown) => ExitCode::from(2),
        Err(error) => {
            eprintln!("\nThe demo could not be carried out: {error:#}");
            ExitCode::from(3)
        }
    }
}

/// Everything that was started is ended when the scene is dropped: at the end, after an error, and when interrupted.
async fn run(args: &Args) -> Result<Outcome> {
    let mut scene = Scene::set(args).await?;
    let outcome = tokio::select! {
        verdicts = play(args, &mut scene) => verdicts.map(|verdicts| overall(&verdicts)),
        () = interrupted() => bail!("interrupted"),
    };
    if args.keep || !matches!(outcome, Ok(Outcome::Held)) {
        scene.keep();
    }
    outcome
}

async fn play(args: &Args, scene: &mut Scene) -> Result<Vec<Verdict>> {
    if args.failing_release { failing::play(scene).await } else { update::play(args, scene).await }
}
