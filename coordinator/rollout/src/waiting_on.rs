//! Why a rollout or a node doesn't move: an enum, never free text alone.

use std::fmt;

use bincode::{Decode, Encode};
use rollcall_ident::{GroupName, NodeName, RolloutId};

use crate::Stamp;
use crate::state::{PauseCause, Phase};

/// The reason why something doesn't move now.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum WaitingOn {
    /// The rollout is paused.
    Paused {
        /// All that keep it so.
        causes: Vec<PauseCause>,
    },
    /// The rollout is at its end.
    Ended,
    /// Nodes are fetching the target.
    Prefetching {
        /// Which ones.
        nodes: Vec<NodeName>,
    },
    /// Nodes can't get the target.
    PrefetchFailed {
        /// Which ones, each with what it reports.
        nodes: Vec<(NodeName, String)>,
    },
    /// As many members as allowed aren't known to be healthy.
    BudgetExhausted {
        /// Those that use the budget.
        nodes: Vec<NodeName>,
        /// The budget.
        max_unavailable: u32,
    },
    /// As many steps as allowed are under way.
    StepsInFlight {
        /// Whose.
        nodes: Vec<NodeName>,
        /// How many may be.
        max_parallel: u32,
    },
    /// Another node is before it in the order.
    OrderTurn {
        /// Who is.
        before: NodeName,
    },
    /// It is the primary, and replicas are still to come.
    PrimaryLast {
        /// Who comes first.
        before: Vec<NodeName>,
    },
    /// The node isn't connected.
    NodeAway {
        /// Which one.
        node: NodeName,
        /// Whether it has been away for so long that it counts as departed.
        departed: bool,
    },
    /// The node holds the token of another group or rollout.
    TokenElsewhere {
        /// Which node.
        node: NodeName,
        /// Of which group.
        group: GroupName,
        /// Of which rollout.
        rollout: RolloutId,
    },
    /// The step runs.
    StepRuns {
        /// Which node's.
        node: NodeName,
        /// Where it stands.
        phase: Phase,
    },
    /// The step is being turned back.
    TurningBack {
        /// Which node's.
        node: NodeName,
    },
    /// The new process isn't healthy yet.
    HealthNotGood {
        /// Which node's.
        node: NodeName,
        /// What the health check says.
        detail: String,
    },
    /// Healthy, but not for long enough.
    Soak {
        /// Which node's.
        node: NodeName,
    },
    /// The step has failed.
    StepFailed {
        /// Which node's.
        node: NodeName,
        /// Why.
        reason: String,
    },
    /// The planner's next look: nothing forbids it.
    Nothing,
}

impl WaitingOn {
    /// The name of the reason, in snake_case.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.into()
    }

    /// The nodes it is about.
    #[must_use]
    pub fn nodes(&self) -> Vec<NodeName> {
        match self {
            Self::Prefetching { nodes } | Self::BudgetExhausted { nodes, .. } | Self::StepsInFlight { nodes, .. } => {
                nodes.clone()
            }
            Self::PrimaryLast { before } => before.clone(),
            Self::PrefetchFailed { nodes } => nodes.iter().map(|(node, _)| node.clone()).collect(),
            Self::OrderTurn { before: node }
            | Self::NodeAway { node, .. }
            | Self::TokenElsewhere { node, .. }
            | Self::StepRuns { node, .. }
            | Self::TurningBack { node }
            | Self::HealthNotGood { node, .. }
            | Self::Soak { node }
            | Self::StepFailed { node, .. } => vec![node.clone()],
            Self::Paused { .. } | Self::Ended | Self::Nothing => Vec::new(),
        }
    }
}

impl fmt::Display for WaitingOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Paused { causes } => write!(f, "paused: {}", join(causes)),
            Self::Ended => f.write_str("nothing: it has ended"),
            Self::Prefetching { nodes } => write!(f, "{} fetching the release", join(nodes)),
            Self::PrefetchFailed { nodes } => {
                let each: Vec<String> = nodes.iter().map(|(node, why)| format!("{node} ({why})")).collect();
                write!(f, "the release can't be had by {}", each.join(", "))
            }
            Self::BudgetExhausted { nodes, max_unavailable } => {
                write!(f, "{} not known healthy; max_unavailable is {max_unavailable}", join(nodes))
            }
            Self::StepsInFlight { nodes, max_parallel } => {
                write!(f, "the step of {}; max_parallel is {max_parallel}", join(nodes))
            }
            Self::OrderTurn { before } => write!(f, "{before}, which is before it in the order"),
            Self::PrimaryLast { before } => write!(f, "{}: the primary goes last", join(before)),
            Self::NodeAway { node, departed: false } => write!(f, "{node}, which is not connected"),
            Self::NodeAway { node, departed: true } => write!(f, "{node}, which has departed"),
            Self::TokenElsewhere { node, group, rollout } => {
                write!(f, "{node}, which holds a token of {group} in {rollout}")
            }
            Self::StepRuns { node, phase } => write!(f, "{node} {phase}"),
            Self::TurningBack { node } => write!(f, "{node} turning back"),
            Self::HealthNotGood { node, detail } if detail.is_empty() => write!(f, "{node} to become healthy"),
            Self::HealthNotGood { node, detail } => write!(f, "{node} to become healthy: {detail}"),
            Self::Soak { node } => write!(f, "{node} to stay healthy for min_healthy_time"),
            Self::StepFailed { node, reason } => write!(f, "{node} failed: {reason}"),
            Self::Nothing => f.write_str("nothing"),
        }
    }
}

fn join<T: fmt::Display>(items: &[T]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// A reason, and since when it is the reason.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Waiting {
    /// The reason.
    pub on: WaitingOn,
    /// Since when.
    pub since: Stamp,
}
