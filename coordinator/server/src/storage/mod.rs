//! The durable layer of a peer: nothing outside it knows `raft-log` or sled.
//!
//! | what | where | if it is lost or damaged |
//! | --- | --- | --- |
//! | entries, vote, committed index | `log/`, [`LogStore`] | the peer stops; it is rebuilt from the others |
//! | state up to a log id | `snapshots/`, [`SnapshotStore`] | the one before it and the log; else as above |
//! | events by revision | `history/`, [`History`] | put aside, filled again from snapshot and log |
//! | which peer this is | `identity`, [`DataDir`] | the peer stops |
//!
//! [`refound_peer`] and [`refound_snapshot`] make a new cluster of what is left of another one.
//! [`Storage::open`] brings them together. `docs/adr/0001-raft-log-not-sled.md` says why these engines.
//!
//! # Invariants
//! - What was acknowledged to openraft is on disk, and comes back after any crash.
//! - Damage is detected and never served.
//!
//! # Deliberately absent
//! Decisions: what a command means is in `rollcall-rollout`, who leads is openraft's.

mod chain;
mod disk;
mod error;
mod files;
mod history;
mod history_book;
mod history_gaps;
mod history_thread;
mod identity;
mod log_open;
mod log_store;
mod log_sync;
mod log_torn;
mod recover;
mod refound;
mod replace;
mod runtime;
mod snapshot_build;
mod snapshot_file;
mod snapshot_inspect;
mod snapshot_store;
mod state_machine;
pub mod types;
mod wal;

pub use disk::{EntryV1, LogIdV1, MembershipV1, PayloadV1, StoredMembershipV1, VoteV1};
pub use error::StorageError;
pub use history::{History, HistoryBounds, HistoryError, HistoryPage, RETAINED_REVISIONS};
pub use identity::{DataDir, DiskSpace, Identity};
pub use log_store::{LogMetrics, LogStore, watch_purged_reads};
pub use recover::{Sizes, Storage};
pub use refound::{RefoundError, Refounded, Refounding, Remains, look_at_peer, refound_peer, refound_snapshot};
pub use snapshot_build::SnapshotBuilder;
pub use snapshot_file::SnapshotFile;
pub use snapshot_inspect::{HistoryContents, SnapshotContents, StateCounts, inspect_snapshot};
pub use snapshot_store::{SnapshotReceiver, SnapshotStore};
pub use state_machine::{AppliedState, ApplyObserver, StateMachine};
