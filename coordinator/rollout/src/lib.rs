//! The pure heart of Rollcall: the replicated state machine, the planner, and what both agree on.
//!
//! - [`State::apply`] takes one log entry at a time and checks every safety rule; it refuses with a [`Rejection`].
//! - [`plan()`] chooses what the leader proposes next. It can be slow or wrong, never unsafe.
//! - [`orders_for`] says what a node should be doing now. Nothing is fired; orders are derived.
//! - [`ChainHead`] is where the hash chain over all that happened stands.
//! - [`explain()`] says why something doesn't move, with the checks that `apply` itself uses.
//! - [`diagnose()`] goes over everything and names what somebody should look at, and what to do.
//! - [`check()`] is the linter of the state: it names whatever breaks an invariant of `docs/invariants.md`.
//!
//! # Invariants
//! DETERMINISM: the same log gives the same bytes on every peer. No clock, no randomness, no IO, no hash order: this
//! crate can't even name them (`clippy.toml`). Time comes with the entry ([`Stamp`]).
//!
//! # Deliberately absent
//! Consensus, storage, sessions' heartbeats, the wire: the server has those. `apply` never calls `plan`.

#![forbid(clippy::disallowed_types, clippy::disallowed_methods)]

mod apply;
mod audit;
mod check;
mod command;
mod doctor;
mod event;
mod explain;
mod gate;
mod level;
mod log_entry;
mod map;
mod orders;
mod plan;
mod planted;
mod policy;
mod queue;
mod quorum;
mod rejection;
mod report;
mod schedule;
mod state;
mod waiting_on;

pub use apply::{Applied, Recovered, Recovery, recovered_revision};
pub use audit::{ChainHead, ChainedRecord, canonical_bytes};
pub use check::{Violation, check};
pub use command::{Command, RolloutVerb};
pub use doctor::{Finding, STATE_CHECKS, Severity, diagnose};
pub use event::{Event, HistoryRecord};
pub use explain::{Explanation, Subject, explain, turns};
pub use level::{LEVEL, TooOld, check_level, first_of_level, next_level};
pub use log_entry::{Actor, LogEntry, Proposal, Stamp};
pub use map::Map;
pub use orders::{Go, GroupOrders, Orders, PrefetchOrder, StepOrder, orders_changed, orders_for, sessions_opened};
pub use plan::{PlannedRound, PlannedStep, Preview, WindowFit, next_leaders, plan, plan_ahead, preview};
#[cfg(feature = "planted-faults")]
pub use planted::plant;
pub use planted::{Planted, is_planted};
pub use policy::{
    Amount, FailureAction, Mode, OfflinePolicy, OnDemote, Order, Policy, PolicyPatch, Ratio, TimeoutAction,
    UpdateCondition, WarningPolicy,
};
pub use queue::Rank;
pub use rejection::{Rejection, Reply};
pub use report::{Hello, NodeReport, PrefetchReport, Report, ServiceStatus, StepEvent, StepReport};
pub use schedule::{Closed, Day, Freeze, Openness, Window, openness};
pub use state::{
    AlarmKey, Batch, Channel, ChannelRelease, DeadlineKey, EndedBy, GoingBack, Group, GroupPatch, Health,
    HealthOverride, Hold, Instance, Node, PauseCause, PausedBy, Peer, PeerFacts, PeerStanding, Phase, Prefetch,
    Presence, Quarantine, Rollout, RolloutKind, RolloutStatus, Service, Session, SkipCause, Source, State, Step,
    StepFailure, StepTimings, Tally, Token, Turn, Way,
};
pub use waiting_on::{NameList, Waiting, WaitingOn};
