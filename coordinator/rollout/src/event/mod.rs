//! Events: what has happened, in the past tense. The log is the audit trail; this is how it reads.

mod about;
mod words;

use bincode::{Decode, Encode};
use rollcall_ident::{
    ChannelName, ClusterId, Digest, Fence, FreezeId, GroupName, NodeId, NodeName, PeerId, ReleaseIdent, Revision,
    RolloutId, SessionEpoch, WindowId,
};

use crate::state::{Health, PauseCause, PeerStanding, Phase, RolloutKind, RolloutStatus, SkipCause, Turn};
use crate::{Actor, Stamp};

/// All events of one revision, with what is the same for each: when, who, why.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct HistoryRecord {
    /// The index of the entry.
    pub revision: Revision,
    /// When: the entry's stamp, clamped so that cluster time never goes back.
    pub stamp: Stamp,
    /// Who.
    pub actor: Actor,
    /// Why.
    pub reason: Option<String>,
    /// What, in the order in which it happened.
    pub events: Vec<Event>,
}

/// One thing that has happened.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
#[allow(missing_docs, reason = "the fields are what their types say; the variants read as sentences")]
pub enum Event {
    ClusterInitialized {
        cluster_id: ClusterId,
    },
    PeerAdded {
        peer: PeerId,
        address: String,
    },
    PeerRemoved {
        peer: PeerId,
    },
    GroupApplied {
        group: GroupName,
    },
    GroupDeleted {
        group: GroupName,
    },
    ChannelCreated {
        channel: ChannelName,
    },
    ChannelDeleted {
        channel: ChannelName,
    },
    ReleasePromoted {
        release: ReleaseIdent,
        channel: ChannelName,
        digest: Option<Digest>,
    },
    ReleaseDemoted {
        release: ReleaseIdent,
        channel: ChannelName,
    },
    RolloutStarted {
        rollout: RolloutId,
        group: GroupName,
        target: ReleaseIdent,
        kind: RolloutKind,
    },
    RolloutPaused {
        rollout: RolloutId,
        group: GroupName,
        cause: PauseCause,
    },
    RolloutResumed {
        rollout: RolloutId,
        group: GroupName,
    },
    RolloutEnded {
        rollout: RolloutId,
        group: GroupName,
        status: RolloutStatus,
    },
    RolloutNotStarted {
        group: GroupName,
        target: ReleaseIdent,
        reason: String,
        detail: String,
    },
    RolloutApproved {
        rollout: RolloutId,
        group: GroupName,
    },
    RollbackBegun {
        rollout: RolloutId,
        group: GroupName,
        why: String,
    },
    BatchDone {
        rollout: RolloutId,
        group: GroupName,
        batch: u32,
        awaits_promotion: bool,
    },
    BatchPromoted {
        rollout: RolloutId,
        group: GroupName,
        batch: u32,
    },
    NextAllowed {
        rollout: RolloutId,
        group: GroupName,
    },
    MemberWentBad {
        rollout: RolloutId,
        group: GroupName,
        node: NodeId,
        name: NodeName,
        detail: String,
    },
    GroupOpened {
        group: GroupName,
    },
    GroupClosed {
        group: GroupName,
        why: String,
    },
    WindowAdded {
        group: GroupName,
        window: WindowId,
    },
    WindowRemoved {
        group: GroupName,
        window: WindowId,
    },
    FreezeCreated {
        freeze: FreezeId,
    },
    FreezeLifted {
        freeze: FreezeId,
    },
    ReleaseQuarantined {
        release: ReleaseIdent,
        why: String,
    },
    QuarantineLifted {
        release: ReleaseIdent,
    },
    StepQueued {
        rollout: RolloutId,
        group: GroupName,
        node: NodeId,
        name: NodeName,
    },
    StepEntered {
        rollout: RolloutId,
        group: GroupName,
        node: NodeId,
        name: NodeName,
        phase: Phase,
    },
    StepTurned {
        rollout: RolloutId,
        group: GroupName,
        node: NodeId,
        name: NodeName,
        turn: Turn,
    },
    StepSoaked {
        rollout: RolloutId,
        group: GroupName,
        node: NodeId,
        name: NodeName,
    },
    StepSkipped {
        rollout: RolloutId,
        group: GroupName,
        node: NodeId,
        name: NodeName,
        cause: SkipCause,
    },
    StepForced {
        rollout: RolloutId,
        group: GroupName,
        node: NodeId,
        name: NodeName,
        timeout: String,
    },
    StepFailed {
        rollout: RolloutId,
        group: GroupName,
        node: NodeId,
        name: NodeName,
        phase: Phase,
        reason: String,
        detail: String,
        output: String,
    },
    StepRebooted {
        rollout: RolloutId,
        group: GroupName,
        node: NodeId,
        name: NodeName,
        reboots: u32,
    },
    TokenGranted {
        rollout: RolloutId,
        group: GroupName,
        node: NodeId,
        name: NodeName,
        fence: Fence,
    },
    TokenEnded {
        rollout: RolloutId,
        group: GroupName,
        node: NodeId,
        name: NodeName,
        fence: Fence,
    },
    TokenRevoked {
        rollout: RolloutId,
        group: GroupName,
        node: NodeId,
        name: NodeName,
        fence: Fence,
    },
    NodeHeld {
        node: NodeId,
        name: NodeName,
    },
    NodeReleased {
        node: NodeId,
        name: NodeName,
    },
    HealthOverridden {
        node: NodeId,
        name: NodeName,
        is_healthy: Option<bool>,
    },
    NodeJoined {
        node: NodeId,
        name: NodeName,
    },
    NodeRemoved {
        node: NodeId,
        name: NodeName,
    },
    SessionOpened {
        node: NodeId,
        name: NodeName,
        epoch: SessionEpoch,
        host: PeerId,
    },
    SessionClosed {
        node: NodeId,
        name: NodeName,
        epoch: SessionEpoch,
    },
    NodeDeparted {
        node: NodeId,
        name: NodeName,
    },
    NodeRebooted {
        node: NodeId,
        name: NodeName,
    },
    MemberJoined {
        node: NodeId,
        name: NodeName,
        group: GroupName,
    },
    MemberLeft {
        node: NodeId,
        name: NodeName,
        group: GroupName,
    },
    HealthChanged {
        node: NodeId,
        name: NodeName,
        group: GroupName,
        from: Health,
        to: Health,
        detail: String,
    },
    RoleChanged {
        node: NodeId,
        name: NodeName,
        group: GroupName,
        primary: bool,
    },
    ReleaseChanged {
        node: NodeId,
        name: NodeName,
        group: GroupName,
        from: Option<ReleaseIdent>,
        to: Option<ReleaseIdent>,
    },
    ReleasePrefetched {
        node: NodeId,
        name: NodeName,
        group: GroupName,
        release: ReleaseIdent,
    },
    PrefetchFailed {
        node: NodeId,
        name: NodeName,
        group: GroupName,
        release: ReleaseIdent,
        reason: String,
        detail: String,
    },
    PeerDescribed {
        peer: PeerId,
        machine_id: String,
        version: String,
    },
    PeerStandingChanged {
        peer: PeerId,
        standing: PeerStanding,
    },
    LeaderChanged {
        peer: PeerId,
    },
    NodeReplaced {
        node: NodeId,
        name: NodeName,
        new: NodeId,
        /// None: it hasn't joined yet.
        new_name: Option<NodeName>,
    },
    ClusterRecovered {
        cluster_id: ClusterId,
        former_cluster_id: Option<ClusterId>,
        /// The last entry of the former cluster that is in this one.
        former_revision: Revision,
        peer: PeerId,
    },
    PeerMoved {
        peer: PeerId,
        address: String,
    },
    StepSoakLost {
        rollout: RolloutId,
        group: GroupName,
        node: NodeId,
        name: NodeName,
        detail: String,
    },
    FeatureLevelRaised {
        level: u32,
    },
    #[cfg(feature = "next-level")]
    LevelTried {
        level: u32,
    },
}

impl HistoryRecord {
    /// The last revision before this one that there was, where a recovery left out the numbers between the two.
    #[must_use]
    pub fn recovered_from(&self) -> Option<Revision> {
        self.events.iter().find_map(|event| match event {
            Event::ClusterRecovered { former_revision, .. } => Some(*former_revision),
            _ => None,
        })
    }
}

impl Event {
    /// The event's name, in snake_case.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.into()
    }
}
