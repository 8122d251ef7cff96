//! Service groups.

use bincode::{Decode, Encode};
use rollcall_ident::{ChannelName, GroupName, NodeId, PackageName, ReleaseIdent, Revision, RolloutId};

use crate::{Map, Policy, PolicyPatch, UpdateCondition};

/// The nodes that run one package under one policy.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Group {
    /// `service.group`
    pub name: GroupName,
    /// What it runs.
    pub package: PackageName,
    /// Where its target comes from by itself.
    pub channel: Option<ChannelName>,
    /// Which head of the channel starts a rollout.
    pub update_condition: UpdateCondition,
    /// How it may be updated.
    pub policy: Policy,
    /// The nodes that declare it.
    pub members: Map<NodeId, ()>,
    /// Members that use the budget by their health: provisioned, and not known to be healthy now.
    pub unhealthy: Map<NodeId, ()>,
    /// Where it is going, or has gone.
    pub target: Option<ReleaseIdent>,
    /// Whether the last rollout reached its target: only then joiners and drifters are caught up.
    pub settled: bool,
    /// The rollout that isn't at its end.
    pub active_rollout: Option<RolloutId>,
    /// When the declaration changed last.
    pub modified_revision: Revision,
}

/// What a group file names; the rest keeps its value or gets its default.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct GroupPatch {
    /// The group.
    pub name: GroupName,
    /// Needed in a new group, fixed afterwards.
    pub package: Option<PackageName>,
    /// `Some(None)`: follow no channel.
    pub channel: Option<Option<ChannelName>>,
    /// Which head of the channel starts a rollout.
    pub update_condition: Option<UpdateCondition>,
    /// The policy's fields.
    pub policy: PolicyPatch,
}
