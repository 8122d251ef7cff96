//! Commands: the decisions that enter the log.

use bincode::{Decode, Encode};
use rollcall_ident::{
    ChannelName, ClusterId, Digest, GroupName, Millis, NodeId, PeerId, ReleaseIdent, Revision, RolloutId, SessionEpoch,
};

use crate::report::{Hello, NodeReport};
use crate::state::{GroupPatch, RolloutKind};

/// One decision. `apply` checks all of it, whoever proposed it.
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
    /// Puts a release into a channel.
    Promote {
        /// The release.
        release: ReleaseIdent,
        /// The channel.
        channel: ChannelName,
        /// What the release's digest must be.
        digest: Option<Digest>,
    },
    /// Takes a release out of a channel.
    Demote {
        /// The release.
        release: ReleaseIdent,
        /// The channel.
        channel: ChannelName,
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
}

/// What an operator can say to a rollout.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum RolloutVerb {
    /// No new step begins; one past its commit point runs to its end.
    Pause,
    /// Goes on.
    Resume,
    /// Ends here; nodes stay as they are.
    Stop,
    /// A new attempt of failed steps: of one node, or of all.
    Retry {
        /// The node; none: all that failed.
        node: Option<NodeId>,
    },
}
