//! The phases of a step and which may follow which.
//!
//! ```text
//! queued ─grant→ granted → preparing ─A→ draining ─B→ stopping → installing ⇄ rebooting → starting → verifying → succeeded
//!                   └──────────┴── given back ──┘         └──────────────── failed ─────────────┘
//! ```

use bincode::{Decode, Encode};

/// Where a step stands.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Encode,
    Decode,
    strum::Display,
    strum::EnumCount,
    strum::EnumIter,
    strum::EnumString,
)]
#[strum(serialize_all = "snake_case")]
pub enum Phase {
    /// Its turn hasn't come.
    Queued,
    /// It has the token; the agent hasn't answered yet.
    Granted,
    /// The service is asked whether it is ready. Ends at commit point A.
    Preparing,
    /// The service drains. Ends at commit point B.
    Draining,
    /// The old instance is being stopped.
    Stopping,
    /// The target is being installed.
    Installing,
    /// The machine is away.
    Rebooting,
    /// The new instance is being started.
    Starting,
    /// The new instance must become and stay healthy.
    Verifying,
    /// It runs the target and has proved to be healthy.
    Succeeded,
    /// It has failed; a person or a new target must come.
    Failed,
    /// It was left out, on record.
    Skipped,
}

impl Phase {
    /// Whether the node holds the token in this phase.
    #[must_use]
    pub fn holds_token(self) -> bool {
        match self {
            Self::Granted
            | Self::Preparing
            | Self::Draining
            | Self::Stopping
            | Self::Installing
            | Self::Rebooting
            | Self::Starting
            | Self::Verifying => true,
            Self::Queued | Self::Succeeded | Self::Failed | Self::Skipped => false,
        }
    }

    /// Whether commit point A is still ahead: nothing has been disturbed.
    #[must_use]
    pub fn is_before_a(self) -> bool {
        matches!(self, Self::Granted | Self::Preparing)
    }

    /// Whether commit point B is passed: the service may be down, and is brought back without anybody's leave.
    #[must_use]
    pub fn is_past_b(self) -> bool {
        matches!(self, Self::Stopping | Self::Installing | Self::Rebooting | Self::Starting | Self::Verifying)
    }

    /// Whether nothing more comes of it in this rollout by itself.
    #[must_use]
    pub fn is_settled(self) -> bool {
        matches!(self, Self::Succeeded | Self::Skipped)
    }

    /// Whether `next` may follow: the table at the head of this file.
    #[must_use]
    pub fn may_become(self, next: Self) -> bool {
        match self {
            Self::Queued => matches!(next, Self::Granted | Self::Skipped),
            Self::Granted => matches!(next, Self::Preparing | Self::Queued | Self::Failed | Self::Skipped),
            Self::Preparing => matches!(next, Self::Draining | Self::Queued | Self::Failed | Self::Skipped),
            Self::Draining => matches!(next, Self::Stopping | Self::Queued | Self::Failed | Self::Skipped),
            Self::Stopping => matches!(next, Self::Installing | Self::Rebooting | Self::Failed | Self::Skipped),
            Self::Installing => matches!(next, Self::Rebooting | Self::Starting | Self::Failed | Self::Skipped),
            Self::Rebooting => matches!(next, Self::Installing | Self::Failed | Self::Skipped),
            Self::Starting => matches!(next, Self::Verifying | Self::Rebooting | Self::Failed | Self::Skipped),
            Self::Verifying => matches!(next, Self::Succeeded | Self::Failed | Self::Skipped),
            Self::Failed => matches!(next, Self::Queued | Self::Skipped),
            Self::Succeeded | Self::Skipped => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use strum::IntoEnumIterator as _;

    use super::*;

    #[test]
    fn the_picture_at_the_head_is_the_table() {
        let chain = [
            Phase::Queued,
            Phase::Granted,
            Phase::Preparing,
            Phase::Draining,
            Phase::Stopping,
            Phase::Installing,
            Phase::Starting,
            Phase::Verifying,
            Phase::Succeeded,
        ];
        assert!(chain.windows(2).all(|pair| pair[0].may_become(pair[1])));
        for phase in Phase::iter() {
            assert_eq!(phase.may_become(Phase::Failed), phase.holds_token(), "{phase} → failed");
            let is_given_back = phase.is_before_a() || phase == Phase::Draining;
            assert_eq!(phase.may_become(Phase::Queued), is_given_back || phase == Phase::Failed, "{phase} → queued");
            assert!(!phase.may_become(phase), "{phase} → itself");
        }
    }
}
