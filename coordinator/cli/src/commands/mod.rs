//! The command families, one per file: what each takes, asks and prints.

pub mod audit;
pub mod channel;
pub mod cluster;
pub mod completions;
pub mod doctor;
pub mod events;
pub mod explain;
pub mod freeze;
pub mod group;
pub mod local;
pub mod man;
pub mod node;
pub mod package;
mod pages;
pub mod quarantine;
pub mod rollout;
mod rollout_start;
pub mod rollout_status;
mod rollout_verb;
pub mod snapshot;
pub mod token;
pub mod window;
