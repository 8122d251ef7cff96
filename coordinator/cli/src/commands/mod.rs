//! The command families, one per file: what each takes, asks and prints.

pub mod audit;
pub mod channel;
pub mod cluster;
pub mod completions;
pub mod events;
pub mod explain;
pub mod group;
pub mod man;
pub mod node;
pub mod package;
mod pages;
pub mod rollout;
pub mod rollout_status;
pub mod snapshot;
pub mod token;
