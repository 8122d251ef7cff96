//! The two answers of `apply`: what was done, or why nothing was.

use bincode::{Decode, Encode};
use rollcall_ident::{
    ChannelName, ClusterId, ConfigId, Fence, FreezeId, GroupName, NodeId, NodeName, PackageName, PeerId, ReleaseIdent,
    Revision, RolloutId, SessionEpoch, WindowId,
};

use crate::state::{PauseCause, Phase, RolloutStatus};
use crate::{NameList, WaitingOn};

/// What an entry brought about.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Reply {
    /// Done; there is nothing more to say.
    Done,
    /// A peer has its id.
    PeerAdded(PeerId),
    /// A rollout has begun.
    RolloutStarted(RolloutId),
    /// A promotion started these.
    Promoted(Vec<RolloutId>),
    /// A demotion stopped these.
    Demoted(Vec<RolloutId>),
    /// A group has one more window.
    WindowAdded(WindowId),
    /// A freeze was made.
    FreezeCreated(FreezeId),
    /// A token was granted.
    Granted(Fence),
    /// A session is open.
    SessionOpened(SessionEpoch),
    /// The answer to each report of a batch.
    Reported(Vec<Result<(), Rejection>>),
}

/// A valid command that had no effect, and why: a replicated answer, the same on every peer.
///
/// The text says what to do next. The name (snake_case) is a contract: `google.rpc.ErrorInfo` carries it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, strum::IntoStaticStr, thiserror::Error)]
#[strum(serialize_all = "snake_case")]
pub enum Rejection {
    /// The cluster has an id already.
    #[error("this cluster is initialised already; its id is {0}")]
    AlreadyInitialized(ClusterId),
    /// No such peer.
    #[error("there is no peer {0}; `rollcall cluster status` lists them")]
    UnknownPeer(PeerId),
    /// A peer with this address is there.
    #[error(
        "{address} is peer {peer} already; remove that one first where its disk is lost: `rollcall cluster remove-peer {peer}`"
    )]
    PeerAddressTaken {
        /// The address.
        address: String,
        /// Whose it is.
        peer: PeerId,
    },
    /// No such group.
    #[error("there is no group {0}; `rollcall group list` lists them, `rollcall group apply -f FILE` declares one")]
    UnknownGroup(GroupName),
    /// The group file is wrong.
    #[error("group {group}: {field}: {problem}")]
    InvalidGroup {
        /// The group.
        group: GroupName,
        /// The key in the group file.
        field: String,
        /// What is wrong with it and what would be right.
        problem: String,
    },
    /// The group's rollout isn't at its end.
    #[error("group {group} is in rollout {rollout}; stop it first: `rollcall rollout stop {rollout}`")]
    GroupBusy {
        /// The group.
        group: GroupName,
        /// The rollout.
        rollout: RolloutId,
    },
    /// Nodes still declare the group.
    #[error("group {group} still has {count} members; take it out of their agents' configuration, or remove the nodes")]
    GroupHasMembers {
        /// The group.
        group: GroupName,
        /// How many.
        count: u64,
    },
    /// No such channel.
    #[error("there is no channel {0}; `rollcall channel create {0}` makes it")]
    UnknownChannel(ChannelName),
    /// A group follows the channel.
    #[error("group {group} follows channel {channel}; point it elsewhere first")]
    ChannelInUse {
        /// The channel.
        channel: ChannelName,
        /// Who follows it.
        group: GroupName,
    },
    /// The release isn't in the channel.
    #[error("{release} isn't in channel {channel}; `rollcall channel list` shows what is")]
    NotInChannel {
        /// The release.
        release: ReleaseIdent,
        /// The channel.
        channel: ChannelName,
    },
    /// The release was promoted with another digest.
    #[error("{release} was promoted with digest {known}, not {given}; a changed release needs an ident of its own")]
    DigestDiffers {
        /// The release.
        release: ReleaseIdent,
        /// What is on record.
        known: String,
        /// What was given now.
        given: String,
    },
    /// The target is a release of another package.
    #[error("group {group} runs {package}; {target} is a release of another package")]
    OtherPackage {
        /// The group.
        group: GroupName,
        /// Its package.
        package: PackageName,
        /// What was asked for.
        target: ReleaseIdent,
    },
    /// The release has failed, or somebody put it aside.
    #[error("{release} is in quarantine: {reason}; `rollcall quarantine remove {release}` lets it be started again")]
    Quarantined {
        /// The release.
        release: ReleaseIdent,
        /// Why.
        reason: String,
    },
    /// The release isn't in quarantine.
    #[error("{0} isn't in quarantine; `rollcall quarantine list` shows what is")]
    NotInQuarantine(ReleaseIdent),
    /// The inventory and the members differ.
    #[error("group {group}: the inventory doesn't fit its members: {problem}; change `inventory` in the group file")]
    InventoryMismatch {
        /// The group.
        group: GroupName,
        /// Who is unknown, who is missing.
        problem: String,
    },
    /// Members lack the label that the order goes by.
    #[error(
        "group {group}: order \"label:{key}\", and {nodes} have no such label; add it to their agents' configuration"
    )]
    LabelMissing {
        /// The group.
        group: GroupName,
        /// The label.
        key: String,
        /// Who lacks it.
        nodes: NameList,
    },
    /// There is nothing to go back to.
    #[error(
        "group {group} has no earlier release on record: {problem}; `rollcall rollout history {group}` shows what there is"
    )]
    NothingToUndo {
        /// The group.
        group: GroupName,
        /// What is missing.
        problem: String,
    },
    /// The updated nodes can't go back.
    #[error(
        "nodes that run {release} can't go back (`rollback = false` in its rollcall.toml); `rollcall rollout stop {rollout}`, or go on to a good release"
    )]
    RollbackForbidden {
        /// The release.
        release: ReleaseIdent,
        /// The rollout.
        rollout: RolloutId,
    },
    /// Who has started it can't approve it.
    #[error(
        "{rollout} was started by {actor}, so somebody else must approve it; who you are says `--actor`, or your certificate"
    )]
    ApprovalBySamePerson {
        /// The rollout.
        rollout: RolloutId,
        /// Who.
        actor: String,
    },
    /// The group isn't updated step by step by hand.
    #[error("group {group} has mode = \"auto\": its steps begin by themselves")]
    NotManual {
        /// The group.
        group: GroupName,
    },
    /// The group has no such window.
    #[error("group {group} has no window {window}; `rollcall window list {group}` shows them")]
    UnknownWindow {
        /// The group.
        group: GroupName,
        /// The window.
        window: WindowId,
    },
    /// No such freeze.
    #[error("there is no freeze {0}; `rollcall freeze list` shows them")]
    UnknownFreeze(FreezeId),
    /// A moment that can't be meant.
    #[error("{field}: {problem}")]
    InvalidTime {
        /// Which one.
        field: String,
        /// What is wrong with it.
        problem: String,
    },
    /// It already is as it was asked to be.
    #[error("already so: {0}")]
    AlreadySo(String),
    /// A rollout goes there already.
    #[error(
        "{group} is already going to {target} in {rollout} ({status}); see `rollcall rollout status {rollout}`, and `resume` or `retry` where it is paused"
    )]
    AlreadyGoingThere {
        /// The group.
        group: GroupName,
        /// Where to.
        target: ReleaseIdent,
        /// Which rollout.
        rollout: RolloutId,
        /// How it stands.
        status: RolloutStatus,
    },
    /// No such rollout.
    #[error("there is no rollout {0}; `rollcall rollout list` lists them")]
    UnknownRollout(RolloutId),
    /// The rollout is at its end.
    #[error("rollout {rollout} has ended: {status}; start a new one with `rollcall rollout start`")]
    RolloutEnded {
        /// Which one.
        rollout: RolloutId,
        /// How it ended.
        status: RolloutStatus,
    },
    /// The verb makes no sense in this state.
    #[error("rollout {rollout} is {status}: {verb} makes no sense there; {instead}")]
    NotInThisState {
        /// Which one.
        rollout: RolloutId,
        /// How it stands.
        status: RolloutStatus,
        /// What was asked.
        verb: String,
        /// What would make sense.
        instead: String,
    },
    /// What paused the rollout is still so.
    #[error("rollout {rollout} stays paused: {cause} still holds; {instead}")]
    CauseHolds {
        /// Which one.
        rollout: RolloutId,
        /// What holds.
        cause: PauseCause,
        /// What would help.
        instead: String,
    },
    /// No such node.
    #[error("there is no node {0}; `rollcall node list` lists them")]
    UnknownNode(String),
    /// The node isn't part of the rollout.
    #[error("node {node} has no step in rollout {rollout}")]
    NoSuchStep {
        /// The node.
        node: NodeId,
        /// The rollout.
        rollout: RolloutId,
    },
    /// The node is connected.
    #[error("node {0} is connected; stop its agent first")]
    NodePresent(NodeName),
    /// The node may be down in the middle of its step.
    #[error(
        "node {node} holds the token with fence {fence} past its commit point; it may come back and go on. `--force` if it never will"
    )]
    TokenPastCommitPoint {
        /// The node.
        node: NodeName,
        /// The fence.
        fence: Fence,
    },
    /// The node holds no token.
    #[error("node {0} holds no token; `rollcall token list` shows who does")]
    NoToken(NodeName),
    /// A token is taken away only with open eyes.
    #[error(
        "node {node} is {phase} under fence {fence}: once its token is revoked, another node may go down while nobody knows how this one is. `--force` if you do"
    )]
    RevokeNeedsForce {
        /// The node.
        node: NodeName,
        /// Where its step stands.
        phase: Phase,
        /// Its fence.
        fence: Fence,
    },
    /// The step can't be left out now.
    #[error(
        "the step of node {node} is {phase}: it can be left out before it begins, once it has failed, or when its node is away"
    )]
    StepNotSkippable {
        /// The node.
        node: NodeName,
        /// Where its step stands.
        phase: Phase,
    },
    /// A check forbids the grant.
    #[error("not granted: {0}")]
    NotGrantable(WaitingOn),
    /// The same identity is in use elsewhere.
    #[error(
        "identity {node} is in use: {name} at {address} has it, and {other_name} at {other_address} came with a copy of it. Empty the copy's data folder so that it becomes a node of its own"
    )]
    IdentityInUse {
        /// The identity.
        node: NodeId,
        /// Who has it.
        name: NodeName,
        /// Where that one connected from.
        address: String,
        /// Who came with it.
        other_name: NodeName,
        /// Where that one connected from.
        other_address: String,
    },
    /// Another node has the name.
    #[error(
        "the name {name} belongs to node {node}, and this is node {claimant}; choose another name, or `rollcall node replace {name} {claimant}` where this machine takes the place of one that is gone for good"
    )]
    NameTaken {
        /// The name.
        name: NodeName,
        /// Whose it is.
        node: NodeId,
        /// Who asked for it.
        claimant: NodeId,
    },
    /// The group has no such configuration, or doesn't keep it any more.
    #[error(
        "{group} has no configuration {config}, or doesn't keep it any more; name the release without it for the present one, or declare it again: `rollcall group apply`"
    )]
    UnknownConfig {
        /// The group.
        group: GroupName,
        /// Which one.
        config: ConfigId,
    },
    /// Its last rollout was ended half-way: a change of its configuration moves nobody.
    #[error(
        "{0} isn't where its last rollout went; the next one brings the new configuration: `rollcall rollout start {0}`"
    )]
    NotSettled(GroupName),
    /// A node can't take its own place.
    #[error("node {0} can't take its own place; say the new machine's id, which its agent logs when it is refused")]
    ReplacedByItself(NodeId),
    /// The node was removed.
    #[error("node {0} was removed from the registry; empty its data folder to let it join as a new node")]
    NodeRemoved(NodeId),
    /// The report came by a session that has been replaced.
    #[error("session {given} of node {node} is over; the current one is {current}")]
    StaleSession {
        /// The node.
        node: NodeId,
        /// The session it came by.
        given: SessionEpoch,
        /// The current one; 0: none.
        current: SessionEpoch,
    },
    /// The report carries a fence that isn't the step's.
    #[error("fence {given} isn't the one of the step: the log says {current}")]
    StaleFence {
        /// What was reported.
        given: Fence,
        /// What the log says; 0: no token.
        current: Fence,
    },
    /// The report doesn't fit the phase that the log has.
    #[error("{event} doesn't follow from phase {phase}, which the log has for the step")]
    NotInThisPhase {
        /// What was reported.
        event: String,
        /// What the log says.
        phase: Phase,
    },
    /// The new process doesn't run the release that was ordered.
    #[error("the new process runs {given}, not {target}")]
    NotTheTarget {
        /// What it runs.
        given: ReleaseIdent,
        /// What was ordered.
        target: ReleaseIdent,
    },
    /// The node isn't a member of the group.
    #[error("node {node} isn't a member of group {group}")]
    NotAMember {
        /// The node.
        node: NodeId,
        /// The group.
        group: GroupName,
    },
    /// The object has changed since.
    #[error("it was changed at revision {actual}, after {expected}; look at it again")]
    RevisionMoved {
        /// What the caller expected.
        expected: Revision,
        /// When it was changed.
        actual: Revision,
    },
    /// A retry with the same id, but of something else.
    #[error("request id {0} was used for another request")]
    RequestIdReused(String),
    /// A feature level can't be raised before all peers know it.
    #[error("peer {peer} knows feature levels up to {known}; upgrade it before the cluster goes to level {level}")]
    PeerLacksLevel {
        /// Who.
        peer: PeerId,
        /// The highest level that it knows; 0: it hasn't said.
        known: u32,
        /// The level that was asked for.
        level: u32,
    },
}

impl Rejection {
    /// The name of the reason, in snake_case: the contract of the API.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::NotGrantable(waiting_on) => waiting_on.name(),
            other => other.into(),
        }
    }
}
