//! Service groups.

use std::sync::Arc;

use bincode::{Decode, Encode};
use rollcall_ident::{
    ChannelName, ConfigId, GroupName, Millis, NodeId, PackageName, ReleaseIdent, Revision, RolloutId, WindowId,
};

use crate::{Closed, Map, Policy, PolicyPatch, UpdateCondition, Window};

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
    /// How it may be updated. Shared, so that a change of the group doesn't copy it.
    pub policy: Arc<Policy>,
    /// The policy's inventory: each name's place.
    pub(crate) places: Map<String, u64>,
    /// When it may be updated; none: always.
    pub windows: Map<WindowId, Window>,
    /// How many windows it ever had: the next one's number.
    pub(crate) windows_made: u64,
    /// Why it may not be updated now. Kept while a rollout is active.
    pub closed: Option<Closed>,
    /// The configuration that its releases get from now on.
    pub config: Option<ConfigId>,
    /// The configurations that it has had, as TOML. BOUND: the newest ones are kept.
    pub configs: Map<ConfigId, String>,
    /// The nodes that declare it.
    pub members: Map<NodeId, ()>,
    /// Members that use the budget by themselves: provisioned, and not known to be healthy now, or held.
    pub unavailable: Map<NodeId, ()>,
    /// Members that hold a token of this group.
    pub updaters: Map<NodeId, ()>,
    /// Members that use the budget for whatever cause: unavailable, or provisioned and about to be down.
    pub disrupted: Map<NodeId, ()>,
    /// Connected members that don't run the target, and weren't left out of it.
    pub astray: Map<NodeId, ()>,
    /// Members that an operator left out of the way to the present target.
    pub left_out: Map<NodeId, ()>,
    /// Where it is going, or has gone.
    pub target: Option<ReleaseIdent>,
    /// What people said no to: it was denied, or its rollout went back. It isn't started again by itself.
    pub declined: Option<ReleaseIdent>,
    /// Whether the last rollout reached its target: only then joiners and drifters are caught up.
    pub settled: bool,
    /// The rollout that isn't at its end.
    pub active_rollout: Option<RolloutId>,
    /// The active rollout, or else the one that ended last.
    pub latest_rollout: Option<RolloutId>,
    /// How long a step takes here, from its grant to its success, as the last ones did.
    pub typical_step: Option<Millis>,
    /// When the declaration changed last.
    pub modified_revision: Revision,
}

impl Group {
    /// Its present configuration, as TOML.
    #[must_use]
    pub fn config_text(&self) -> Option<&String> {
        self.configs.get(&self.config?)
    }
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
    /// What its hooks are given, as TOML; `Some(None)`: nothing any more.
    pub config: Option<Option<String>>,
    /// All its windows, where the file names any.
    pub windows: Option<Vec<Window>>,
}
