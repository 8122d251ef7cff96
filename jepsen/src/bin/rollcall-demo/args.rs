//! What can be asked of the demo.

use std::path::PathBuf;

use clap::Parser;

/// Moves a Redis Cluster of six nodes to a new release under load, and kills a peer and a node meanwhile.
#[derive(Debug, Parser)]
#[command(
    name = "rollcall-demo",
    version,
    after_help = "\
Examples:
  rollcall-demo                     the new release is good: every node ends on it
  rollcall-demo --failing-release   the new release is bad: its first node stops the rollout
  rollcall-demo --on-peers          peers run on three of the nodes' machines, and go down with them

Exit codes: 0 every promise held, 1 one was broken, 2 not enough evidence, 3 the demo itself failed."
)]
pub struct Args {
    /// Promote a release that never becomes healthy, see the rollout pause, and go back
    #[arg(long, conflicts_with = "idle")]
    pub failing_release: bool,

    /// Three of the nodes are the peers' own machines: the power of each is cut in its step, with the peer on it
    #[arg(long, conflicts_with_all = ["failing_release", "no_faults"])]
    pub on_peers: bool,

    /// Afterwards watch the idle cluster for a minute: does it write anything, does it use the processor?
    #[arg(long)]
    pub idle: bool,

    /// Kill nothing
    #[arg(long)]
    pub no_faults: bool,

    /// Keep the run's folder with all logs and data
    #[arg(long)]
    pub keep: bool,

    /// The templates of the Redis package
    #[arg(long, env = "ROLLCALL_DEMO_PACKAGES", value_name = "DIR", default_value = "scripts/demo.d")]
    pub packages: PathBuf,
}
