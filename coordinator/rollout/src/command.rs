//! Commands: the decisions that enter the log.

use bincode::{Decode, Encode};
use rollcall_ident::{
    ChannelName, ClusterId, Digest, FreezeId, GroupName, Millis, NodeId, PeerId, ReleaseIdent, Revision, RolloutId,
    SessionEpoch, WallTime, WindowId,
};

use crate::Window;
use crate::report::{Hello, NodeReport};
use crate::state::{GroupPatch, PeerFacts, PeerStanding, RolloutKind};

/// One decision. `apply` checks all of it, whoever proposed it.
#[allow(clippy::large_enum_variant, reason = "a command is moved once, and a box would stand in every match")]
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Command {
    /// The first entry of a cluster.
    InitCluster {
        /// Its id, made by whoever initialises it.
        cluster_id: ClusterId,
    },
    /// Gives a new peer its id: the revision of this entry (peer 1 is the one that initialised the cluster).
    AddPeer {
        /// `host:port` of its gRPC.
        address: String,
    },
    /// Takes a peer out of the registry; its id is never used again.
    RemovePeer {
        /// Which one.
        peer: PeerId,
    },
    /// Nothing but time has come: deadlines that are due fire with every entry.
    AdvanceClock,

    /// Declares a group or changes what the patch names.
    ApplyGroup {
        /// What was named.
        patch: GroupPatch,
    },
    /// Takes a group out of the registry.
    DeleteGroup {
        /// Which one.
        group: GroupName,
    },

    /// Makes an empty channel.
    CreateChannel {
        /// Its name.
        channel: ChannelName,
    },
    /// Takes a channel away that no group follows.
    DeleteChannel {
        /// Its name.
        channel: ChannelName,
    },
    /// Puts releases into a channel, all or none.
    Promote {
        /// The releases, each with what its digest must be.
        releases: Vec<(ReleaseIdent, Option<Digest>)>,
        /// The channel.
        channel: ChannelName,
    },
    /// Takes releases out of a channel, all or none.
    Demote {
        /// The releases.
        releases: Vec<ReleaseIdent>,
        /// The channel.
        channel: ChannelName,
    },
    /// Keeps a release from being started again.
    AddQuarantine {
        /// The release.
        release: ReleaseIdent,
    },
    /// Lets it be started again.
    RemoveQuarantine {
        /// The release.
        release: ReleaseIdent,
    },
    /// Gives a group one more maintenance window.
    AddWindow {
        /// The group.
        group: GroupName,
        /// The window.
        window: Window,
    },
    /// Takes a maintenance window from a group.
    RemoveWindow {
        /// The group.
        group: GroupName,
        /// Which one.
        window: WindowId,
    },
    /// Forbids changes for a while; its id is the revision of this entry.
    CreateFreeze {
        /// Of which groups; none named: of all.
        groups: Vec<GroupName>,
        /// From when on; none: from now on.
        from: Option<WallTime>,
        /// Until when; none: until it is lifted.
        until: Option<WallTime>,
    },
    /// Ends a freeze, begun or not.
    LiftFreeze {
        /// Which one.
        freeze: FreezeId,
    },

    /// Starts a rollout; its id is the revision of this entry.
    StartRollout {
        /// The group.
        group: GroupName,
        /// Where it goes.
        target: ReleaseIdent,
        /// What the target's digest must be.
        digest: Option<Digest>,
        /// What for.
        kind: RolloutKind,
    },
    /// Starts a rollout to an earlier release of the group.
    UndoRollout {
        /// The group.
        group: GroupName,
        /// To the target of this one; none: to where the group was before.
        to: Option<RolloutId>,
    },
    /// What an operator says to a rollout.
    Steer {
        /// Which one.
        rollout: RolloutId,
        /// What.
        verb: RolloutVerb,
    },
    /// The planner's choice of who goes next; the fence is the revision of this entry.
    GrantToken {
        /// The rollout.
        rollout: RolloutId,
        /// Who.
        node: NodeId,
        /// The revision that the choice was made at.
        based_on: Revision,
    },

    /// A node has connected to a peer.
    OpenSession {
        /// The peer that hosts the session.
        host: PeerId,
        /// What the node said of itself.
        hello: Hello,
    },
    /// A session has ended, or fell silent.
    CloseSession {
        /// Whose.
        node: NodeId,
        /// Which; a later one is left alone.
        epoch: SessionEpoch,
        /// How long the host had not heard from it.
        silent_for: Millis,
    },
    /// The sessions of a peer that died or was restarted.
    OrphanSessions {
        /// The peer.
        host: PeerId,
        /// How long the leader had not heard from it.
        silent_for: Millis,
        /// Only sessions opened up to here: what opened since is alive.
        up_to: SessionEpoch,
    },
    /// What nodes of one peer reported, in the order of their arrival.
    Reports {
        /// The reports. BOUND: the server cuts batches.
        reports: Vec<NodeReport>,
    },
    /// Takes a node out of the registry for good.
    RemoveNode {
        /// Which one.
        node: NodeId,
        /// Even while it holds a token past its commit point.
        force: bool,
    },
    /// Keeps a node from being updated, from its next step on.
    HoldNode {
        /// Which one.
        node: NodeId,
        /// Until when; none: until it is released.
        until: Option<WallTime>,
    },
    /// Lets it be updated again.
    ReleaseNode {
        /// Which one.
        node: NodeId,
    },
    /// An operator's word on the health of a node's services.
    SetHealth {
        /// Which one.
        node: NodeId,
        /// What counts; none: what the checks say.
        is_healthy: Option<bool>,
    },
    /// Takes the token from a node, whatever it is doing.
    RevokeToken {
        /// Which one.
        node: NodeId,
        /// Said with open eyes: where the node is away, nobody knows what it does.
        force: bool,
    },
    /// A new machine takes the place of one that is gone for good.
    ReplaceNode {
        /// The one that is gone.
        old: NodeId,
        /// The identity of the new one, registered already or not.
        new: NodeId,
        /// Even while the old one holds a token past its commit point.
        force: bool,
    },
    /// What a peer says of itself, whenever that has changed.
    DescribePeer {
        /// Which one.
        peer: PeerId,
        /// What it says.
        facts: PeerFacts,
    },
    /// The leader says that it leads, and how the voters do; whenever either has changed.
    NotePeers {
        /// Who leads.
        leader: PeerId,
        /// How each voter does.
        standings: Vec<(PeerId, PeerStanding)>,
    },
    /// A peer is reached elsewhere from now on.
    MovePeer {
        /// Which one.
        peer: PeerId,
        /// `host:port` of its gRPC.
        address: String,
    },
    /// All behave by another feature level from this entry on.
    RaiseFeatureLevel {
        /// The next one.
        level: u32,
    },
    /// Nothing but an event: stands for what a later level may bring.
    #[cfg(feature = "next-level")]
    TryLevel,
}

/// What an operator can say to a rollout.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum RolloutVerb {
    /// The second person's yes.
    Approve,
    /// The second person's no; ends it.
    Deny,
    /// No new step begins; one past its commit point runs to its end.
    Pause {
        /// Goes on by itself then.
        until: Option<WallTime>,
    },
    /// Goes on.
    Resume {
        /// Pauses by itself again then.
        until: Option<WallTime>,
    },
    /// Lets the next batch begin.
    Promote {
        /// And all later ones.
        full: bool,
    },
    /// With `mode = "manual"`: lets one step begin.
    Next,
    /// Ends here; nodes stay as they are.
    Stop,
    /// Returns the updated nodes to where they were, and ends.
    Abort,
    /// A new attempt of failed steps: of one node, or of all.
    Retry {
        /// The node; none: all that failed.
        node: Option<NodeId>,
    },
    /// Leaves a node out.
    Skip {
        /// Which one.
        node: NodeId,
    },
}

impl RolloutVerb {
    /// The verb as people type it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.into()
    }
}
