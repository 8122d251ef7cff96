//! What stands in the log: a decision, who made it, and when.

use bincode::{Decode, Encode};
use rollcall_ident::{ClusterTime, RequestId, Revision, WallTime};

use crate::Command;

/// The two times of an entry, given by the leader that proposed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Encode, Decode)]
pub struct Stamp {
    /// What deadlines are measured in. Stands still while there is no leader.
    pub cluster_time: ClusterTime,
    /// The leader's wall clock, for people.
    pub wall_time: WallTime,
}

/// Who asked for something: a person's or program's name, or `rollcall` for the coordinator itself.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub struct Actor(pub String);

impl Actor {
    /// The coordinator itself: planner, clock, sessions.
    #[must_use]
    pub fn coordinator() -> Self {
        Self("rollcall".to_owned())
    }
}

/// What a client, a session or the planner wants in the log.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Proposal {
    /// Who asks.
    pub actor: Actor,
    /// Why, for the audit trail.
    pub reason: Option<String>,
    /// A retry with the same id is answered with the first outcome.
    pub request_id: Option<RequestId>,
    /// Refused where what it changes was changed after this revision.
    pub expected_revision: Option<Revision>,
    /// The decision.
    pub command: Command,
}

impl Proposal {
    /// A proposal of the coordinator itself.
    #[must_use]
    pub fn internal(command: Command) -> Self {
        Self { actor: Actor::coordinator(), reason: None, request_id: None, expected_revision: None, command }
    }
}

/// One entry of the log, as it is persisted and replicated.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct LogEntry {
    /// When it was proposed.
    pub stamp: Stamp,
    /// What was proposed.
    pub proposal: Proposal,
}
