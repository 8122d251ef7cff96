//! Cuts the power of each node and of each peer in the middle of a rollout, and judges what is left.
//!
//! Real programs on nine machines of namespaces, each with a boot id and a disk of its own that forgets what was not
//! synced. A Redis Cluster is moved to a new release under load; at phase boundaries that a seed has drawn the power of
//! the node whose turn it is goes, and three nodes reboot themselves in their install hook. Ends with exit code 0 only if
//! every promise held.

mod args;
mod cutter;
mod judge;
mod plan;
mod site;

use std::process::ExitCode;

use anyhow::{Result, anyhow};
use clap::Parser;
use rollcall_jepsen::check::{Outcome, Verdict, overall};
use rollcall_jepsen::interrupt::interrupted;
use rollcall_jepsen::power::{apart, first, network};
use rollcall_jepsen::redis::form;
use rollcall_jepsen::redis::read_back::read_back;
use rollcall_jepsen::report;
use rollcall_jepsen::screen::Tone;

use args::{Args, Part};
use cutter::Cutter;
use judge::Evidence;
use plan::Plan;
use site::{GROUP, NODE_COUNT, PEER_COUNT, Site};

fn main() -> ExitCode {
    let args = Args::parse();
    let outcome = match &args.part {
        Some(Part::FirstProcess(machine)) => first::first_process(machine).map(|()| Outcome::Held),
        Some(Part::Reboot) => first::reboot().map(|()| Outcome::Held),
        None => run_apart(&args),
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

fn run_apart(args: &Args) -> Result<Outcome> {
    apart::live_apart()?;
    network::set_up()?;
    tokio::runtime::Runtime::new()?.block_on(run(args))
}

/// Everything that was started is ended when the site is dropped: at the end, after an error, and when interrupted.
async fn run(args: &Args) -> Result<Outcome> {
    let seed = args.seed.unwrap_or_else(|| u64::from(rand::random::<u16>()));
    let names: Vec<String> = (1..=NODE_COUNT).map(|number| format!("redis-{number}")).collect();
    let plan = Plan::draw(seed, &names, PEER_COUNT, (!args.full).then_some(args.sample));
    let mut site = Site::lay_out(args, &plan.rebooting).await?;
    site.screen.say(&format!("seed {seed}: {} cuts of nodes, {} of peers", plan.nodes.len(), plan.peers.len()));
    let outcome = tokio::select! {
        verdicts = play(&mut site, &plan) => verdicts.map(|verdicts| conclude(&site, &verdicts, seed)),
        () = interrupted() => Err(anyhow!("interrupted")),
    };
    if args.keep || !matches!(outcome, Ok(Outcome::Held)) {
        site.keep();
    }
    outcome
}

async fn play(site: &mut Site, plan: &Plan) -> Result<Vec<Verdict>> {
    site.start().await?;
    let first = site.releases.first.clone();
    let nothing = Plan { nodes: Default::default(), peers: Default::default(), rebooting: Default::default() };
    let rollout_id = site.api.start_rollout(GROUP, &first, "powercut-first").await?.rollout_id;
    let installed = Cutter::new(&nothing, &rollout_id).follow(site).await?;
    cutter::ensure_succeeded(&installed)?;
    site.form_redis_cluster().await?;

    site.screen.heading("Release 2, under load");
    let load = site.start_load().await?;
    let begun_at = site.clock.now();
    let second = site.releases.second.clone();
    let rollout_id = site.api.start_rollout(GROUP, &second, "powercut-second").await?.rollout_id;
    let mut cutter = Cutter::new(plan, &rollout_id);
    let rollout = cutter.follow(site).await?;
    cutter::ensure_succeeded(&rollout)?;
    form::wait_until_healthy(&site.seen, NODE_COUNT).await?;
    load.stop().await;

    let writes = site.ledger.writes();
    let read_back = read_back(&site.topology, &writes).await?;
    let evidence = Evidence { begun_at, rollout, writes, read_back, plan, done: cutter.done };
    judge::judge(site, &evidence)
}

fn conclude(site: &Site, verdicts: &[Verdict], seed: u64) -> Outcome {
    site.screen.heading("Promises");
    site.screen.raw(&report::verdicts_table(verdicts, site.screen.is_terminal()));
    let outcome = overall(verdicts);
    let last = match outcome {
        Outcome::Held => site.screen.tint(Tone::Green, "Every promise held."),
        Outcome::Unknown => site.screen.tint(Tone::Yellow, &format!("There is not enough evidence (seed {seed}).")),
        Outcome::Violated => site.screen.tint(Tone::Red, &format!("A promise was broken (seed {seed}).")),
    };
    site.screen.raw(&format!("\n{last}"));
    outcome
}
