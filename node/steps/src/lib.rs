//! The pure step machine of a node, and the recovery of its journal.
//!
//! A step moves one service of one node to one release. What happened is a sequence of [`Event`]s in the service's
//! journal; [`ServiceState::apply`] folds them and refuses a sequence that can't have happened; [`decide()`] says what to
//! do next, from that state, what the orders want, and which boot this is. The agent only executes.
//!
//! # Invariants
//! - An intent is durable before its phase begins, its outcome before it is reported: after any crash the journal alone
//!   says what to do next.
//! - A hook whose outcome is unknown is never simply started again: [`Action::Settle`] sends it through its re-run
//!   policy first.
//! - Nothing after commit point B needs anybody's leave: [`decide()`] goes on without orders once stopping has begun. Only
//!   orders that were heard end it there, at its next boundary, and that end is recorded before it is obeyed.
//!
//! # Deliberately absent
//! Clocks, files, processes, the wire. The crate's `clippy.toml` bans them.

#![forbid(clippy::disallowed_types, clippy::disallowed_methods)]

mod decide;
mod event;
mod milestone;
mod phase;
mod policy;
mod recovery;
mod service;
mod status;
mod step;

pub use decide::{Action, Facts, Wanted, decide, end_to_record};
pub use event::{Baseline, Event, Failure, FailureReason, Instance, Outcome, RunToken, StepOpened, Timings};
pub use milestone::Milestone;
pub use phase::{Ending, Go, Hook, Phase, Reason};
pub use policy::{Rerun, Settled, rerun_policy, settle};
pub use recovery::{Cause, CrashPoint, Recovery, ServicePlan, ordered_recovery_table, recover, recovery_table};
pub use service::{OpenRefusal, ServiceState, check_open};
pub use status::{Impossible, Status, StatusKind, TRANSITIONS};
pub use step::{HookMark, StepState};
