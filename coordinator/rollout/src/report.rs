//! What nodes say: who they are, how their services stand, what happened to their step.

use std::collections::BTreeMap;

use bincode::{Decode, Encode};
use rollcall_ident::{BootId, Digest, Fence, GroupName, NodeId, NodeName, ReleaseIdent, RolloutId, SessionEpoch};

use crate::state::{Health, Instance, Phase, StepTimings};

/// Who a node is and how things stand on it, at the start of a session.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Hello {
    /// The identity on its disk.
    pub node: NodeId,
    /// Its name, for people.
    pub name: NodeName,
    /// Where the identity lies: a copy of it has another locus.
    pub identity_locus: String,
    /// The machine.
    pub machine_id: String,
    /// The peer on this machine, by id or address, where its config names one.
    pub hosts_peer: Option<String>,
    /// Its current boot.
    pub boot_id: BootId,
    /// Version of the agent.
    pub agent_version: String,
    /// Where it connected from.
    pub address: String,
    /// Free labels.
    pub labels: BTreeMap<String, String>,
    /// Its services; the groups it is a member of.
    pub services: Vec<ServiceStatus>,
    /// The highest fence on its disk.
    pub highest_fence: Fence,
}

/// How one service of a node stands.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct ServiceStatus {
    /// The group it belongs to.
    pub group: GroupName,
    /// What runs or would be started; none: never provisioned.
    pub release: Option<ReleaseIdent>,
    /// The process that runs.
    pub instance: Option<Instance>,
    /// Its health, thresholds applied.
    pub health: Health,
    /// The health check's words.
    pub health_detail: String,
    /// Whether the service calls itself primary.
    pub primary: bool,
    /// What the suitability hook says.
    pub priority: Option<u64>,
}

/// One report of one node, with the session it came by.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct NodeReport {
    /// Whose session it came by.
    pub node: NodeId,
    /// Which session.
    pub epoch: SessionEpoch,
    /// What it says.
    pub report: Report,
}

/// What a node reports.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Report {
    /// A service changed.
    Status(ServiceStatus),
    /// Something happened to a step.
    Step(StepReport),
    /// A release was fetched and verified, or couldn't be.
    Prefetch(PrefetchReport),
}

/// The outcome of fetching a release.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct PrefetchReport {
    /// For this group.
    pub group: GroupName,
    /// What was to be fetched.
    pub release: ReleaseIdent,
    /// Its digest, or what was wrong and the detail.
    pub outcome: Result<Digest, (String, String)>,
    /// Whether nodes that run it may go back to an earlier release.
    pub rollback: bool,
}

/// What happened to the step that a node holds the token for.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct StepReport {
    /// The group.
    pub group: GroupName,
    /// The rollout.
    pub rollout: RolloutId,
    /// The fence that it acts under.
    pub fence: Fence,
    /// The attempt.
    pub attempt: u32,
    /// What happened.
    pub event: StepEvent,
}

/// What can happen to a step, on the node.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum StepEvent {
    /// The fence is stored, the journal is open.
    Accepted,
    /// The service is ready; asks for commit point A.
    Prepared,
    /// Drained; asks for commit point B.
    Drained,
    /// The old instance is gone.
    Stopped {
        /// It outlived its time-out and was killed.
        killed: bool,
    },
    /// The target is installed.
    Installed {
        /// Whether the hook ran for it now.
        hook_ran: bool,
    },
    /// The machine goes down.
    RebootBegun {
        /// The boot that ends.
        boot_id: BootId,
    },
    /// The new process runs.
    Started {
        /// Which one.
        instance: Instance,
    },
    /// The soak was complete and `undrain` has run.
    Finished {
        /// What the node measured.
        timings: StepTimings,
    },
    /// What was ordered back is undone.
    TurnedBack,
    /// A phase failed.
    Failed {
        /// Which one.
        phase: Phase,
        /// The reason's name.
        reason: String,
        /// For people.
        detail: String,
        /// The last of what the hook printed.
        output: String,
    },
}
