//! What can be measured.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

/// Measures what is promised in numbers, on real processes, beside etcd in the same run, and holds it against its goal.
#[derive(Debug, Parser)]
#[command(
    name = "rollcall-bench",
    version,
    after_help = "\
Examples:
  rollcall-bench --quick
  rollcall-bench P1 P4

Exit codes: 0 every goal was met, 1 one was missed, 3 something couldn't be measured."
)]
pub struct Args {
    /// What; nothing named: all.
    #[arg(value_enum, value_name = "PART", ignore_case = true)]
    pub parts: Vec<Part>,
    /// Less of each, in about 3 minutes altogether.
    #[arg(long)]
    pub quick: bool,
    /// Where the report and the plots go.
    #[arg(long, value_name = "DIR", default_value = "target/bench")]
    pub out: PathBuf,
}

/// What can be measured alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Part {
    /// Acknowledged writes, one by one and as reports of sessions, beside etcd's puts.
    #[value(name = "P1", alias = "writes")]
    Writes,
    /// Linearizable reads, beside etcd's.
    #[value(name = "P2", alias = "reads")]
    Reads,
    /// From the sample that proves one node to the first hook of the next.
    #[value(name = "P3", alias = "handover")]
    HandOver,
    /// The leader is killed again and again, beside etcd's.
    #[value(name = "P4", alias = "failover")]
    Failover,
    /// Thousands of sessions.
    #[value(name = "P5", alias = "sessions")]
    Sessions,
    /// Rollouts over few and many nodes.
    #[value(name = "P6", alias = "rollout")]
    Rollout,
    /// A peer with many entries behind it; a snapshot of many nodes.
    #[value(name = "P7", alias = "start")]
    Start,
    /// Nothing happens.
    #[value(name = "P8", alias = "idle")]
    Idle,
}

impl Args {
    /// Each part once, in order.
    pub fn chosen(&self) -> Vec<Part> {
        let mut parts = if self.parts.is_empty() { Part::value_variants().to_vec() } else { self.parts.clone() };
        parts.sort_unstable();
        parts.dedup();
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(arguments: &[&str]) -> Vec<Part> {
        Args::parse_from(["bench"].iter().chain(arguments)).chosen()
    }

    #[test]
    fn nothing_named_is_all_and_names_of_old_still_work() {
        assert_eq!(chosen(&[]).len(), 8);
        assert_eq!(chosen(&["p4", "P1", "failover"]), [Part::Writes, Part::Failover]);
        assert_eq!(chosen(&["start", "--quick"]), [Part::Start]);
    }
}
