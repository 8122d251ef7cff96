//! What an event is about.

use rollcall_ident::{GroupName, NodeId, NodeName, RolloutId};

use super::Event;

impl Event {
    /// The group it is about.
    #[must_use]
    pub fn group(&self) -> Option<&GroupName> {
        match self {
            Self::GroupApplied { group }
            | Self::GroupDeleted { group }
            | Self::RolloutStarted { group, .. }
            | Self::RolloutPaused { group, .. }
            | Self::RolloutResumed { group, .. }
            | Self::RolloutEnded { group, .. }
            | Self::RolloutNotStarted { group, .. }
            | Self::RolloutApproved { group, .. }
            | Self::RollbackBegun { group, .. }
            | Self::BatchDone { group, .. }
            | Self::BatchPromoted { group, .. }
            | Self::NextAllowed { group, .. }
            | Self::MemberWentBad { group, .. }
            | Self::GroupOpened { group }
            | Self::GroupClosed { group, .. }
            | Self::WindowAdded { group, .. }
            | Self::WindowRemoved { group, .. }
            | Self::StepSkipped { group, .. }
            | Self::StepForced { group, .. }
            | Self::TokenRevoked { group, .. }
            | Self::StepQueued { group, .. }
            | Self::StepEntered { group, .. }
            | Self::StepTurned { group, .. }
            | Self::StepSoaked { group, .. }
            | Self::StepSoakLost { group, .. }
            | Self::StepFailed { group, .. }
            | Self::StepRebooted { group, .. }
            | Self::TokenGranted { group, .. }
            | Self::TokenEnded { group, .. }
            | Self::MemberJoined { group, .. }
            | Self::MemberLeft { group, .. }
            | Self::HealthChanged { group, .. }
            | Self::RoleChanged { group, .. }
            | Self::ReleaseChanged { group, .. }
            | Self::ReleasePrefetched { group, .. }
            | Self::PrefetchFailed { group, .. } => Some(group),
            Self::ClusterInitialized { .. }
            | Self::ClusterRecovered { .. }
            | Self::PeerAdded { .. }
            | Self::PeerRemoved { .. }
            | Self::PeerDescribed { .. }
            | Self::PeerStandingChanged { .. }
            | Self::LeaderChanged { .. }
            | Self::PeerMoved { .. }
            | Self::FeatureLevelRaised { .. }
            | Self::ChannelCreated { .. }
            | Self::ChannelDeleted { .. }
            | Self::ReleasePromoted { .. }
            | Self::ReleaseDemoted { .. }
            | Self::FreezeCreated { .. }
            | Self::FreezeLifted { .. }
            | Self::ReleaseQuarantined { .. }
            | Self::QuarantineLifted { .. }
            | Self::NodeHeld { .. }
            | Self::NodeReleased { .. }
            | Self::HealthOverridden { .. }
            | Self::NodeJoined { .. }
            | Self::NodeReplaced { .. }
            | Self::NodeRemoved { .. }
            | Self::SessionOpened { .. }
            | Self::SessionClosed { .. }
            | Self::NodeDeparted { .. }
            | Self::NodeRebooted { .. } => None,
            #[cfg(feature = "next-level")]
            Self::LevelTried { .. } => None,
        }
    }

    /// The rollout it is about.
    #[must_use]
    pub fn rollout(&self) -> Option<RolloutId> {
        match self {
            Self::RolloutStarted { rollout, .. }
            | Self::RolloutPaused { rollout, .. }
            | Self::RolloutResumed { rollout, .. }
            | Self::RolloutEnded { rollout, .. }
            | Self::RolloutApproved { rollout, .. }
            | Self::RollbackBegun { rollout, .. }
            | Self::BatchDone { rollout, .. }
            | Self::BatchPromoted { rollout, .. }
            | Self::NextAllowed { rollout, .. }
            | Self::MemberWentBad { rollout, .. }
            | Self::StepSkipped { rollout, .. }
            | Self::StepForced { rollout, .. }
            | Self::TokenRevoked { rollout, .. }
            | Self::StepQueued { rollout, .. }
            | Self::StepEntered { rollout, .. }
            | Self::StepTurned { rollout, .. }
            | Self::StepSoaked { rollout, .. }
            | Self::StepSoakLost { rollout, .. }
            | Self::StepFailed { rollout, .. }
            | Self::StepRebooted { rollout, .. }
            | Self::TokenGranted { rollout, .. }
            | Self::TokenEnded { rollout, .. } => Some(*rollout),
            _ => None,
        }
    }

    /// The node it is about.
    #[must_use]
    pub fn node(&self) -> Option<(NodeId, &NodeName)> {
        match self {
            Self::MemberWentBad { node, name, .. }
            | Self::StepSkipped { node, name, .. }
            | Self::StepForced { node, name, .. }
            | Self::TokenRevoked { node, name, .. }
            | Self::NodeHeld { node, name }
            | Self::NodeReleased { node, name }
            | Self::HealthOverridden { node, name, .. }
            | Self::StepQueued { node, name, .. }
            | Self::StepEntered { node, name, .. }
            | Self::StepTurned { node, name, .. }
            | Self::StepSoaked { node, name, .. }
            | Self::StepSoakLost { node, name, .. }
            | Self::StepFailed { node, name, .. }
            | Self::StepRebooted { node, name, .. }
            | Self::TokenGranted { node, name, .. }
            | Self::TokenEnded { node, name, .. }
            | Self::NodeJoined { node, name }
            | Self::NodeRemoved { node, name }
            | Self::NodeReplaced { node, name, .. }
            | Self::SessionOpened { node, name, .. }
            | Self::SessionClosed { node, name, .. }
            | Self::NodeDeparted { node, name }
            | Self::NodeRebooted { node, name }
            | Self::MemberJoined { node, name, .. }
            | Self::MemberLeft { node, name, .. }
            | Self::HealthChanged { node, name, .. }
            | Self::RoleChanged { node, name, .. }
            | Self::ReleaseChanged { node, name, .. }
            | Self::ReleasePrefetched { node, name, .. }
            | Self::PrefetchFailed { node, name, .. } => Some((*node, name)),
            _ => None,
        }
    }
}
