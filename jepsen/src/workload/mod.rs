//! What clients do during a run, one workload per file, and what is to be judged of it.

pub mod crew;
pub mod register;
pub mod rollout;
pub mod watch;

use serde::{Deserialize, Serialize};

/// A workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Workload {
    /// Conditional writes, retries, reads with and without the leader; part of every run
    Register,
    /// Followers of the events, who go on at another peer from where they were
    Watch,
    /// Rollouts over nodes with agents, and an operator who pauses, stops, aborts and retries
    Rollout,
}

impl Workload {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Register, Self::Watch, Self::Rollout];

    /// As it is asked for.
    pub fn name(self) -> &'static str {
        match self {
            Self::Register => "register",
            Self::Watch => "watch",
            Self::Rollout => "rollout",
        }
    }

    /// What its clients do; a run has at least one of each that came out well.
    pub fn deeds(self) -> &'static [&'static str] {
        match self {
            Self::Register => &register::DEEDS,
            Self::Watch => &watch::DEEDS,
            Self::Rollout => &rollout::DEEDS,
        }
    }

    /// Whether it needs nodes with agents.
    pub fn needs_nodes(self) -> bool {
        match self {
            Self::Register | Self::Watch => false,
            Self::Rollout => true,
        }
    }
}

/// A fault that is planted in the clients, as if the peers had it: whoever judges the run has to find it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Plant {
    /// Reads that claim to be linearizable are answered by whichever peer is asked
    StaleReads,
    /// A request that is sent again takes effect again
    NoRequestIds,
    /// Some writes are acknowledged and never sent
    LostWrites,
}
