//! Rollouts: one movement of a group to one target.

use std::collections::BTreeSet;

use bincode::{Decode, Encode};
use rollcall_ident::{ChannelName, Digest, GroupName, NodeId, ReleaseIdent, Revision, RolloutId};

use crate::state::Step;
use crate::{Actor, Map, Stamp, Waiting};

/// One movement of a group to one target release. Target and id never change; ends are final.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Rollout {
    /// The revision that started it.
    pub id: RolloutId,
    /// The group that it moves.
    pub group: GroupName,
    /// Where to.
    pub target: ReleaseIdent,
    /// What the target's digest must be.
    pub digest: Option<Digest>,
    /// What for.
    pub kind: RolloutKind,
    /// What started it.
    pub source: Source,
    /// Who started it.
    pub started_by: Actor,
    /// Why.
    pub reason: Option<String>,
    /// How it stands.
    pub status: RolloutStatus,
    /// What keeps it paused; empty unless it is.
    pub pause_causes: BTreeSet<PauseCause>,
    /// One step for each member that wasn't there yet.
    pub steps: Map<NodeId, Step>,
    /// Members that ran the target when it started.
    pub unchanged: Map<NodeId, ()>,
    /// Whether any step was ever granted.
    pub begun: bool,
    /// When it started.
    pub started_at: Stamp,
    /// When it ended.
    pub ended: Option<EndedBy>,
    /// When it made progress last.
    pub progress_at: Stamp,
    /// Why it doesn't move.
    pub waiting: Option<Waiting>,
    /// The revision that changed it last.
    pub modified_revision: Revision,
}

/// How a rollout came to its end.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct EndedBy {
    /// When.
    pub at: Stamp,
    /// In words.
    pub why: String,
}

impl Rollout {
    /// Whether it isn't at its end.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.status.is_active()
    }

    /// The steps whose nodes hold a token.
    pub fn steps_in_flight(&self) -> impl Iterator<Item = &Step> {
        self.steps.values().filter(|step| step.phase.holds_token())
    }
}

/// What a rollout is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, strum::Display)]
#[strum(serialize_all = "snake_case")]
pub enum RolloutKind {
    /// To a new release.
    Update,
    /// To an earlier one.
    Rollback,
    /// Joiners and drifters to the group's release.
    CatchUp,
}

/// What started a rollout.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Source {
    /// A person or a program.
    Operator,
    /// A channel that the group follows.
    Channel(ChannelName),
    /// The coordinator: members that aren't where the group is.
    CatchUp,
}

/// How a rollout stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, strum::Display)]
#[strum(serialize_all = "snake_case")]
pub enum RolloutStatus {
    /// It goes on.
    Running,
    /// It stands still until its causes are gone.
    Paused,
    /// Every member runs the target.
    Succeeded,
    /// Ended by an operator or a demotion; nodes stay as they are.
    Stopped,
    /// A rollout to another target took its place.
    Superseded,
}

impl RolloutStatus {
    /// Whether it isn't an end.
    #[must_use]
    pub fn is_active(self) -> bool {
        match self {
            Self::Running | Self::Paused => true,
            Self::Succeeded | Self::Stopped | Self::Superseded => false,
        }
    }
}

/// What keeps a rollout paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode, strum::Display)]
#[strum(serialize_all = "snake_case")]
pub enum PauseCause {
    /// An operator said so.
    Operator,
    /// A step has failed.
    StepFailed,
    /// A node is away for too long.
    NodeAway,
    /// Nothing has moved for `progress_deadline`.
    ProgressDeadline,
}
