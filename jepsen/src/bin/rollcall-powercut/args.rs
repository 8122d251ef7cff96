//! What can be asked of the run.

use clap::{Parser, Subcommand};
use rollcall_jepsen::power::first::FirstProcess;

/// Cuts the power of each node at each phase boundary of a rollout, and of each peer in turn, and judges what is left.
#[derive(Debug, Parser)]
#[command(
    name = "rollcall-powercut",
    version,
    after_help = "\
Examples:
  rollcall-powercut                     a few cuts, drawn by a new seed
  rollcall-powercut --full              every node at every boundary
  rollcall-powercut --seed 7 --keep     the cuts of that seed, and its folder to look at afterwards

Needs root, /dev/fuse, iproute2 and redis-server; everything happens in namespaces of its own.
Exit codes: 0 every promise held, 1 one was broken, 2 not enough evidence, 3 the run itself failed."
)]
pub struct Args {
    /// Cut every node at every boundary
    #[arg(long)]
    pub full: bool,

    /// So many cuts of nodes
    #[arg(long, value_name = "N", default_value_t = 6, conflicts_with = "full")]
    pub sample: usize,

    /// What is drawn by chance is drawn from it
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,

    /// A disk that keeps a name only when its folder is synced, as POSIX has it
    #[arg(long)]
    pub strict: bool,

    /// Keep the run's folder with all logs
    #[arg(long)]
    pub keep: bool,

    /// What this program does inside of a machine
    #[command(subcommand)]
    pub part: Option<Part>,
}

/// A part that is played inside of a machine.
#[derive(Debug, Subcommand)]
#[command(disable_help_subcommand = true)]
pub enum Part {
    /// Be a machine's first process
    #[command(hide = true)]
    FirstProcess(FirstProcess),
    /// Reboot the machine at once
    #[command(hide = true)]
    Reboot,
}
