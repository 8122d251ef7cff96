//! Rollouts: one movement of a group to one target.

use std::collections::BTreeSet;

use bincode::{Decode, Encode};
use rollcall_ident::{ChannelName, Digest, Fence, GroupName, NodeId, ReleaseIdent, Revision, RolloutId};

use crate::queue::Rank;
use crate::state::{Phase, Step, Tally, Way};
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
    /// Where the group was, or was going, before: where it is again once this one has gone back.
    pub previous: Option<ReleaseIdent>,
    /// Whether it had got there.
    pub was_settled: bool,
    /// The second person.
    pub approved_by: Option<Actor>,
    /// How it stands.
    pub status: RolloutStatus,
    /// Set where it goes back.
    pub going_back: Option<GoingBack>,
    /// What keeps it paused; empty unless it is.
    pub pause_causes: BTreeSet<PauseCause>,
    /// Who paused it, where a person did.
    pub paused_by: Option<PausedBy>,
    /// One step for each member that wasn't there yet.
    pub steps: Map<NodeId, Step>,
    /// The queued steps in the order of their turns.
    pub queue: Map<Rank, NodeId>,
    /// The steps whose nodes hold a token, by their grant.
    pub in_flight: Map<Fence, NodeId>,
    /// The steps that have failed.
    pub failed: Map<NodeId, ()>,
    /// How many steps stand in each phase.
    pub tally: Tally,
    /// Nodes of queued steps that haven't said that they have their release.
    pub unfetched: Map<NodeId, ()>,
    /// Where it stands in its batches.
    pub batch: Batch,
    /// With `mode = "manual"`: how many steps a person has allowed to begin.
    pub permits: u32,
    /// Nodes that run the target can't go back: its release says so.
    pub is_one_way: bool,
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

    /// The steps whose nodes hold a token, by their grant.
    pub fn steps_in_flight(&self) -> impl Iterator<Item = &Step> {
        self.in_flight.values().filter_map(|node| self.steps.get(node))
    }

    /// Where a step of it leads.
    #[must_use]
    pub fn target_of<'a>(&'a self, step: &'a Step) -> &'a ReleaseIdent {
        match (step.way, &step.origin) {
            (Way::Back, Some(origin)) => origin,
            _ => &self.target,
        }
    }

    /// What it is when nothing pauses it.
    #[must_use]
    pub fn unpaused(&self) -> RolloutStatus {
        if self.going_back.is_some() {
            RolloutStatus::RollingBack
        } else if self.batch.awaits_promotion {
            RolloutStatus::AwaitingPromotion
        } else {
            RolloutStatus::Running
        }
    }

    /// Puts a step in its place, with all that is kept of the steps as a whole.
    pub(crate) fn put_step(&mut self, step: Step) {
        let node = step.node;
        let before = self.steps.get(&node).map(Kept::of);
        self.keep(node, before, Some(Kept::of(&step)));
        self.steps.insert(node, step);
    }

    /// Takes a step out, with all that is kept of it.
    pub(crate) fn take_step(&mut self, node: NodeId) -> Option<Step> {
        let step = self.steps.remove(&node)?;
        self.keep(node, Some(Kept::of(&step)), None);
        Some(step)
    }

    /// Changes a step in its place, with all that is kept of it. Phase, fence and rank are changed by this alone.
    ///
    /// # Panics
    /// If there is no such step: callers looked it up.
    pub(crate) fn change_step<T>(&mut self, node: NodeId, change: impl FnOnce(&mut Step) -> T) -> T {
        let step = self.steps.get_mut(&node).expect("the caller looked the step up");
        let before = Kept::of(step);
        let out = change(step);
        let after = Kept::of(step);
        if before != after {
            self.keep(node, Some(before), Some(after));
        }
        out
    }

    fn keep(&mut self, node: NodeId, before: Option<Kept>, after: Option<Kept>) {
        if let Some(Kept { phase, rank, fence }) = before {
            self.tally.remove(phase);
            if let Some(rank) = rank {
                self.queue.remove(&rank);
            }
            if let Some(fence) = fence {
                self.in_flight.remove(&fence);
            }
            if phase == Phase::Failed {
                self.failed.remove(&node);
            }
        }
        if let Some(Kept { phase, rank, fence }) = after {
            self.tally.add(phase);
            rank.into_iter().for_each(|rank| self.queue.insert(rank, node));
            fence.into_iter().for_each(|fence| self.in_flight.insert(fence, node));
            if phase == Phase::Failed {
                self.failed.insert(node, ());
            }
        }
    }

    /// Whether nothing is left to be done, or to be tried again.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.tally.of(Phase::Succeeded) + self.tally.of(Phase::Skipped) == self.steps.len()
    }
}

/// Who paused a rollout.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct PausedBy {
    /// Who.
    pub by: Actor,
    /// When.
    pub at: Stamp,
    /// Why.
    pub reason: Option<String>,
}

/// What the rollout as a whole keeps of one step.
#[derive(PartialEq)]
struct Kept {
    phase: Phase,
    rank: Option<Rank>,
    /// While it holds a token.
    fence: Option<Fence>,
}

impl Kept {
    fn of(step: &Step) -> Self {
        Self { phase: step.phase, rank: step.rank.clone(), fence: step.fence.filter(|_| step.phase.holds_token()) }
    }
}

/// Why a rollout goes back.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct GoingBack {
    /// Since when.
    pub at: Stamp,
    /// In words.
    pub why: String,
}

/// Where a rollout stands in its batches: the canary first, then those of the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Batch {
    /// Which one, from 0 on; the canary is 0 where there is one.
    pub number: u32,
    /// How many more of its steps may begin.
    pub room: u32,
    /// Whether a person must say that it may begin.
    pub awaits_promotion: bool,
    /// Whether no later batch needs that.
    pub is_promoted_in_full: bool,
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, strum::Display, strum::EnumIter)]
#[strum(serialize_all = "snake_case")]
pub enum RolloutStatus {
    /// A second person must say that it may begin.
    AwaitingApproval,
    /// It goes on.
    Running,
    /// A batch is done; a person must say that the next one may begin.
    AwaitingPromotion,
    /// It stands still until its causes are gone.
    Paused,
    /// The updated members go back to where they were.
    RollingBack,
    /// Every member runs the target, or was left out on record.
    Succeeded,
    /// Ended by an operator or a demotion; nodes stay as they are.
    Stopped,
    /// The updated members are back where they were.
    RolledBack,
    /// A rollout to another target took its place.
    Superseded,
    /// The second person said no.
    Denied,
}

impl RolloutStatus {
    /// Whether it isn't an end.
    #[must_use]
    pub fn is_active(self) -> bool {
        match self {
            Self::AwaitingApproval | Self::Running | Self::AwaitingPromotion | Self::Paused | Self::RollingBack => true,
            Self::Succeeded | Self::Stopped | Self::RolledBack | Self::Superseded | Self::Denied => false,
        }
    }

    /// Whether steps may begin.
    #[must_use]
    pub fn is_moving(self) -> bool {
        matches!(self, Self::Running | Self::RollingBack)
    }
}

/// What keeps a rollout paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode, strum::Display, strum::VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum PauseCause {
    /// An operator said so.
    Operator,
    /// A step has failed.
    StepFailed,
    /// A member that was updated isn't healthy any more.
    MemberUnhealthy,
    /// A node is away for too long.
    NodeAway,
    /// Nothing has moved for `progress_deadline`.
    ProgressDeadline,
    /// More steps have failed than `max_failure_ratio` allows.
    FailureRatio,
    /// A step of the way back has failed.
    RollbackFailed,
}
