//! Processes: started in a group of their own, known by pid and start time, watched through a pidfd.
//!
//! # Invariants
//! - No signal goes to a process whose identity wasn't just checked, nor to pid 0, 1 or our own group.
//! - Nothing polls: an exit is an event on the pidfd, for our children and for processes that were re-adopted.

mod handle;
mod procfs;
mod signal;

pub use handle::{Process, SpawnError};
pub use procfs::{ProcessStat, environment_value, find_by_environment, members_of_group, read_stat};
pub use signal::{ProcessKey, kill_by_environment};

use procfs::has_in_environment;
