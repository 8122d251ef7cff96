//! Steps and tokens.

use bincode::{Decode, Encode};
use rollcall_ident::{Fence, GroupName, NodeId, ReleaseIdent, RolloutId};

use crate::Stamp;
use crate::queue::Rank;
use crate::state::{Instance, Phase};

/// One node's part of a rollout.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Step {
    /// Whose.
    pub node: NodeId,
    /// Where it stands.
    pub phase: Phase,
    /// Since when.
    pub phase_since: Stamp,
    /// How often it was granted.
    pub attempt: u32,
    /// How many attempts have failed.
    pub failures: u32,
    /// The fence of its latest grant.
    pub fence: Option<Fence>,
    /// What the node ran at its latest grant, or runs while it is queued.
    pub from: Option<ReleaseIdent>,
    /// Which way it leads.
    pub way: Way,
    /// Where the way back leads: what the node ran when this rollout came to it first.
    pub origin: Option<ReleaseIdent>,
    /// Whether an attempt has passed commit point B, so that the node isn't as it was.
    pub is_disturbed: bool,
    /// The batch that it was granted in.
    pub batch: Option<u32>,
    /// Why it was left out.
    pub skipped: Option<SkipCause>,
    /// Set where a begun step is turned back; its agent undoes what it did and says so.
    pub turn: Option<Turn>,
    /// The new process.
    pub instance: Option<Instance>,
    /// Since when the new process has been healthy without one bad sample.
    pub healthy_since: Option<Stamp>,
    /// The new process has been healthy for long enough, and still is.
    pub is_soaked: bool,
    /// Its soak was complete once in this attempt: the agent was told to finish. What it starts from then on, after a crash
    /// in its last hook, is known by its status alone.
    pub is_finishing: bool,
    /// How often the machine came back with another boot id in this attempt.
    pub reboots: u32,
    /// Why it failed last.
    pub failure: Option<StepFailure>,
    /// Each phase with its attempt and the moment of its beginning. BOUND: cut from the front at 64 records.
    pub history: Vec<(Phase, u32, Stamp)>,
    /// What the node measured, from the end of its last hook on.
    pub timings: Option<StepTimings>,
    /// Its place in the queue, as [`crate::Rollout::queue`] has it.
    pub(crate) rank: Option<Rank>,
}

impl Step {
    /// A step whose turn hasn't come.
    pub(crate) fn queued(node: NodeId, from: Option<ReleaseIdent>, at: Stamp) -> Self {
        Self {
            node,
            phase: Phase::Queued,
            phase_since: at,
            attempt: 0,
            failures: 0,
            fence: None,
            origin: from.clone(),
            from,
            way: Way::Forward,
            is_disturbed: false,
            batch: None,
            skipped: None,
            turn: None,
            instance: None,
            healthy_since: None,
            is_soaked: false,
            is_finishing: false,
            reboots: 0,
            failure: None,
            history: vec![(Phase::Queued, 0, at)],
            timings: None,
            rank: None,
        }
    }
}

/// Which way a step leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode, strum::Display)]
#[strum(serialize_all = "snake_case")]
pub enum Way {
    /// To the rollout's target.
    Forward,
    /// To what the node ran before.
    Back,
}

/// Why a step was left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, strum::Display)]
#[strum(serialize_all = "snake_case")]
pub enum SkipCause {
    /// An operator said so; the node isn't caught up until the group has another target.
    Operator,
    /// The node had departed, and `offline_policy` says so.
    Offline,
    /// The node is no member any more.
    Left,
    /// The rollout goes back, and this node had not begun.
    NotBegun,
    /// The rollout goes back, and the node ran nothing before.
    NothingBefore,
}

/// Where a begun step goes instead.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, strum::Display)]
#[strum(serialize_all = "snake_case")]
pub enum Turn {
    /// Back to queued.
    GiveBack,
    /// To skipped.
    Skip,
    /// To failed.
    Fail {
        /// The reason's name.
        reason: String,
        /// For people.
        detail: String,
    },
}

/// Why a step failed.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct StepFailure {
    /// In which phase.
    pub phase: Phase,
    /// The reason's name.
    pub reason: String,
    /// For people.
    pub detail: String,
    /// The last of what the hook printed.
    pub output: String,
}

/// What the node measured of an attempt, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode)]
pub struct StepTimings {
    /// From the order to the end.
    pub total_us: u64,
    /// In hooks.
    pub hooks_us: u64,
    /// Waiting for the service.
    pub service_us: u64,
    /// The soak.
    pub soak_us: u64,
}

/// The right to be down. A node holds at most one over all its groups.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Token {
    /// The group.
    pub group: GroupName,
    /// The rollout.
    pub rollout: RolloutId,
    /// The grant.
    pub fence: Fence,
    /// When.
    pub granted_at: Stamp,
}
