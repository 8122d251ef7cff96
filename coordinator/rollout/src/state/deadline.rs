//! What happens by itself when its time has come: deadlines in cluster time, alarms by the wall clock.

use bincode::{Decode, Encode};
use rollcall_ident::{GroupName, NodeId, RolloutId};

/// What is due in cluster time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum DeadlineKey {
    /// The node's health becomes unknown.
    StaleAfter(NodeId),
    /// The node counts as departed.
    LostAfter(NodeId),
    /// The service wasn't ready for too long.
    ReadyTimeout(RolloutId, NodeId),
    /// The drain took too long.
    DrainTimeout(RolloutId, NodeId),
    /// The new process wasn't healthy by then.
    HealthyDeadline(RolloutId, NodeId),
    /// The soak is complete.
    MinHealthyTime(RolloutId, NodeId),
    /// The node was away in its step for too long.
    RebootTimeout(RolloutId, NodeId),
    /// Nothing has moved.
    ProgressDeadline(RolloutId),
    /// The pause between two batches is over.
    Delay(RolloutId),
}

impl DeadlineKey {
    /// The policy's field that sets it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.into()
    }
}

/// What is due by the wall clock: what people have set for a day and an hour.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub enum AlarmKey {
    /// A window or a freeze of the group begins or ends.
    Openness(GroupName),
    /// An operator's pause ends.
    ResumeRollout(RolloutId),
    /// An operator's leave ends.
    PauseRollout(RolloutId),
    /// A hold ends.
    ReleaseNode(NodeId),
}
