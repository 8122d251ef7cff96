//! What can be measured.

use clap::{Args as ClapArgs, Parser, Subcommand};

/// Measures what is promised in numbers, on real processes, and holds it against its goal.
#[derive(Debug, Parser)]
#[command(
    name = "rollcall-bench",
    version,
    after_help = "\
Examples:
  rollcall-bench failover --quick
  rollcall-bench start

Exit codes: 0 every goal was met, 1 one was missed, 3 nothing could be measured."
)]
pub struct Args {
    /// What.
    #[command(subcommand)]
    pub command: Command,
}

/// What can be measured.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Kill the leader again and again: how long until a write through another peer is acknowledged?
    Failover(FailoverOptions),
    /// A peer with many applied entries behind it: how long until it has its state, and how much disk does it use?
    Start(StartOptions),
}

/// How often.
#[derive(Debug, ClapArgs)]
pub struct FailoverOptions {
    /// So many kills
    #[arg(long, default_value_t = 100)]
    pub kills: usize,
    /// Ten
    #[arg(long)]
    pub quick: bool,
}

impl FailoverOptions {
    /// How many.
    pub fn count(&self) -> usize {
        if self.quick { 10 } else { self.kills }
    }
}

/// How much.
#[derive(Debug, ClapArgs)]
pub struct StartOptions {
    /// So many entries
    #[arg(long, default_value_t = 1_000_000)]
    pub entries: u64,
    /// A hundred thousand
    #[arg(long)]
    pub quick: bool,
    /// So many starts
    #[arg(long, default_value_t = 10)]
    pub starts: usize,
}

impl StartOptions {
    /// How many entries.
    pub fn count(&self) -> u64 {
        if self.quick { 100_000 } else { self.entries }
    }
}
