//! How an event reads: one line for people.

use std::fmt;

use super::Event;
use crate::PeerStanding;

/// How a peer does, for people.
fn in_words(standing: PeerStanding) -> &'static str {
    match standing {
        PeerStanding::Learner => "no voter",
        PeerStanding::CaughtUp => "caught up",
        PeerStanding::Lagging => "far behind",
        PeerStanding::Silent => "silent",
    }
}

/// One line for people.
impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ClusterInitialized { cluster_id } => write!(f, "cluster {cluster_id} initialised"),
            Self::ClusterRecovered { cluster_id, former_cluster_id: Some(former), former_revision, peer } => {
                let kept = format!("all of {former} up to revision {former_revision}");
                write!(f, "cluster {cluster_id} made of {kept}, with peer {peer} alone")
            }
            Self::ClusterRecovered { cluster_id, former_cluster_id: None, peer, .. } => {
                write!(f, "cluster {cluster_id} made of an empty one, with peer {peer} alone")
            }
            Self::PeerAdded { peer, address } => write!(f, "peer {peer} at {address} added"),
            Self::PeerMoved { peer, address } => write!(f, "peer {peer} is at {address} from now on"),
            Self::PeerRemoved { peer } => write!(f, "peer {peer} removed"),
            Self::PeerDescribed { peer, machine_id, version } if machine_id.is_empty() => {
                write!(f, "peer {peer} runs version {version}")
            }
            Self::PeerDescribed { peer, machine_id, version } => {
                write!(f, "peer {peer} runs version {version} on machine {machine_id}")
            }
            Self::PeerStandingChanged { peer, standing } => write!(f, "peer {peer} is {}", in_words(*standing)),
            Self::LeaderChanged { peer } => write!(f, "peer {peer} leads"),
            Self::GroupApplied { group } => write!(f, "{group} declared"),
            Self::GroupDeleted { group } => write!(f, "{group} deleted"),
            Self::ChannelCreated { channel } => write!(f, "channel {channel} created"),
            Self::ChannelDeleted { channel } => write!(f, "channel {channel} deleted"),
            Self::ReleasePromoted { release, channel, .. } => write!(f, "{release} promoted into {channel}"),
            Self::ReleaseDemoted { release, channel } => write!(f, "{release} demoted out of {channel}"),
            Self::RolloutStarted { rollout, group, target, kind } => {
                write!(f, "{rollout} started: {kind} of {group} to {target}")
            }
            Self::RolloutPaused { rollout, cause, .. } => write!(f, "{rollout} paused: {cause}"),
            Self::RolloutResumed { rollout, .. } => write!(f, "{rollout} goes on"),
            Self::RolloutEnded { rollout, status, .. } => write!(f, "{rollout} ended: {status}"),
            Self::RolloutNotStarted { target, detail, .. } => write!(f, "no rollout to {target}: {detail}"),
            Self::RolloutApproved { rollout, .. } => write!(f, "{rollout} approved"),
            Self::RollbackBegun { rollout, why, .. } => write!(f, "{rollout} goes back: {why}"),
            Self::BatchDone { rollout, batch, awaits_promotion: true, .. } => {
                write!(f, "{rollout} batch {batch} done; the next one awaits its promotion")
            }
            Self::BatchDone { rollout, batch, .. } => write!(f, "{rollout} batch {batch} done"),
            Self::BatchPromoted { rollout, batch, .. } => write!(f, "{rollout} batch {batch} promoted"),
            Self::NextAllowed { rollout, .. } => write!(f, "{rollout} may take its next step"),
            Self::MemberWentBad { rollout, name, detail, .. } => {
                write!(f, "{name}, updated in {rollout}, went bad: {detail}")
            }
            Self::GroupOpened { group } => write!(f, "{group} may be updated from now on"),
            Self::GroupClosed { group, why } => write!(f, "{group} may not be updated now: {why}"),
            Self::WindowAdded { group, window } => write!(f, "{group} has window {window}"),
            Self::WindowRemoved { group, window } => write!(f, "{group} has no window {window} any more"),
            Self::FreezeCreated { freeze } => write!(f, "freeze {freeze} created"),
            Self::FreezeLifted { freeze } => write!(f, "freeze {freeze} lifted"),
            Self::ReleaseQuarantined { release, why } => write!(f, "{release} quarantined: {why}"),
            Self::QuarantineLifted { release } => write!(f, "{release} is out of quarantine"),
            Self::StepSkipped { rollout, name, cause, .. } => write!(f, "{name} left out of {rollout}: {cause}"),
            Self::StepForced { name, timeout, .. } => write!(f, "{name} goes on without the hook's word: {timeout}"),
            Self::TokenRevoked { name, fence, .. } => write!(f, "the token of {name} with fence {fence} was revoked"),
            Self::NodeHeld { name, .. } => write!(f, "{name} held"),
            Self::NodeReleased { name, .. } => write!(f, "{name} released"),
            Self::HealthOverridden { name, is_healthy, .. } => match is_healthy {
                Some(true) => write!(f, "{name} counts as healthy by an operator's word"),
                Some(false) => write!(f, "{name} counts as unhealthy by an operator's word"),
                None => write!(f, "the health of {name} is what its checks say"),
            },
            Self::StepQueued { rollout, name, .. } => write!(f, "{name} queued in {rollout}"),
            Self::StepEntered { name, phase, .. } => write!(f, "{name} {phase}"),
            Self::StepTurned { name, turn, .. } => write!(f, "{name} turned: {turn}"),
            Self::StepSoaked { name, .. } => write!(f, "{name} stayed healthy for min_healthy_time"),
            Self::FeatureLevelRaised { level } => write!(f, "the cluster behaves by feature level {level} from now on"),
            #[cfg(feature = "next-level")]
            Self::LevelTried { level } => write!(f, "feature level {level} was tried"),
            Self::StepSoakLost { name, detail, .. } => write!(f, "{name} has to prove its health once more: {detail}"),
            Self::StepFailed { name, phase, reason, detail, .. } => {
                write!(f, "{name} failed while {phase}: {reason}: {detail}")
            }
            Self::StepRebooted { name, reboots, .. } => write!(f, "{name} is back from reboot {reboots} of its step"),
            Self::TokenGranted { rollout, name, fence, .. } => {
                write!(f, "{name} got the token of {rollout} with fence {fence}")
            }
            Self::TokenEnded { name, fence, .. } => write!(f, "{name} gave up the token with fence {fence}"),
            Self::NodeJoined { name, .. } => write!(f, "{name} joined"),
            Self::NodeRemoved { name, .. } => write!(f, "{name} removed"),
            Self::NodeReplaced { name, new, new_name: None, .. } => write!(f, "{name} replaced by node {new}"),
            Self::NodeReplaced { name, new_name: Some(new), .. } => write!(f, "{name} replaced by {new}"),
            Self::SessionOpened { name, host, .. } => write!(f, "{name} connected to peer {host}"),
            Self::SessionClosed { name, .. } => write!(f, "{name} disconnected"),
            Self::NodeDeparted { name, .. } => write!(f, "{name} departed"),
            Self::NodeRebooted { name, .. } => write!(f, "{name} rebooted"),
            Self::MemberJoined { name, group, .. } => write!(f, "{name} is a member of {group}"),
            Self::MemberLeft { name, group, .. } => write!(f, "{name} is no member of {group} any more"),
            Self::HealthChanged { name, from, to, detail, .. } if detail.is_empty() => {
                write!(f, "{name} {from} → {to}")
            }
            Self::HealthChanged { name, from, to, detail, .. } => write!(f, "{name} {from} → {to}: {detail}"),
            Self::RoleChanged { name, primary: true, .. } => write!(f, "{name} became primary"),
            Self::RoleChanged { name, primary: false, .. } => write!(f, "{name} is no primary any more"),
            Self::ReleaseChanged { name, to: Some(to), .. } => write!(f, "{name} runs {to}"),
            Self::ReleaseChanged { name, to: None, .. } => write!(f, "{name} runs no release any more"),
            Self::ReleasePrefetched { name, release, .. } => write!(f, "{name} has {release}"),
            Self::PrefetchFailed { name, release, reason, detail, .. } => {
                write!(f, "{name} can't get {release}: {reason}: {detail}")
            }
        }
    }
}
