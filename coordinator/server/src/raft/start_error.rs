//! Why a peer can't start.

use crate::storage::StorageError;

/// Why a peer can't start; its message says what to do.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The data directory can't be used.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The advertised address isn't one.
    #[error("the advertised address {address:?} is not one: {expected}")]
    Address {
        /// What was given.
        address: String,
        /// What would be one.
        expected: String,
    },
    /// The numbers contradict each other.
    #[error("the numbers for elections contradict each other: {what}")]
    Tuning {
        /// Which, and how.
        what: String,
    },
    /// openraft couldn't be started on what is on disk.
    #[error("consensus can't start on what is on disk: {what}")]
    Raft {
        /// What happened.
        what: String,
    },
    /// A task of ours died.
    #[error("opening the data directory failed: {0}")]
    Task(#[from] tokio::task::JoinError),
}
