//! What clients do during a run, one workload per file, and what is to be judged of it.

pub mod register;
pub mod rollout;
pub mod watch;

use serde::{Deserialize, Serialize};

/// A workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Workload {
    /// Conditional writes, retries, reads with and without the leader
    Register,
}

impl Workload {
    /// All of them.
    pub const ALL: [Self; 1] = [Self::Register];

    /// As it is asked for.
    pub fn name(self) -> &'static str {
        match self {
            Self::Register => "register",
        }
    }

    /// What its clients do; a run has at least one of each that came out well.
    pub fn deeds(self) -> &'static [&'static str] {
        match self {
            Self::Register => &register::DEEDS,
        }
    }

    /// Whether it needs nodes with agents.
    pub fn needs_nodes(self) -> bool {
        match self {
            Self::Register => false,
        }
    }
}
