//! Why a rollout or a node doesn't move: an enum, never free text alone.

use std::fmt;

use bincode::{Decode, Encode};
use rollcall_ident::{FreezeId, GroupName, NodeName, PeerId, ReleaseIdent, RolloutId, WallTime};

use crate::Stamp;
use crate::schedule::in_words;
use crate::state::{PauseCause, Phase};

/// The reason why something doesn't move now.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum WaitingOn {
    /// The rollout is paused.
    Paused {
        /// All that keep it so.
        causes: Vec<PauseCause>,
    },
    /// The rollout is at its end.
    Ended,
    /// A second person's word.
    Approval,
    /// A person's word that the next batch may begin.
    Promotion {
        /// Which batch.
        batch: u32,
    },
    /// A person's `next`: the group's steps are taken by hand.
    Next,
    /// The pause between batches.
    Delay,
    /// The batch under way.
    BatchRuns {
        /// Which one.
        batch: u32,
    },
    /// None of the group's windows is open.
    OutsideWindow {
        /// When the next one opens.
        opens_at: Option<WallTime>,
    },
    /// A change freeze holds.
    Frozen {
        /// Which one.
        freeze: FreezeId,
        /// Until when.
        until: Option<WallTime>,
        /// Why.
        reason: Option<String>,
    },
    /// The target was put into quarantine.
    Quarantined {
        /// The target.
        release: ReleaseIdent,
    },
    /// An operator holds the node.
    NodeHeld {
        /// Which one.
        node: NodeName,
        /// Who holds it.
        by: String,
        /// Why.
        reason: Option<String>,
    },
    /// Nodes are fetching the target.
    Prefetching {
        /// Which ones.
        nodes: NameList,
    },
    /// Nodes can't get the target.
    PrefetchFailed {
        /// Which ones.
        nodes: NameList,
        /// What the first of them reports.
        why: String,
    },
    /// As many members as allowed aren't known to be healthy.
    BudgetExhausted {
        /// Those that use the budget.
        nodes: NameList,
        /// The budget.
        max_unavailable: u32,
    },
    /// As many steps as allowed are under way.
    StepsInFlight {
        /// Whose.
        nodes: NameList,
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
        before: NameList,
    },
    /// A peer runs on its machine, and those that would be left are no majority.
    QuorumGuard {
        /// Which node.
        node: NodeName,
        /// The peers on its machine.
        hosted: Vec<PeerId>,
        /// Voters elsewhere that can't be counted on: silent, far behind, or on a machine that is being updated.
        missing: Vec<PeerId>,
        /// Voters elsewhere that can.
        remaining: u32,
        /// All voters.
        voters: u32,
        /// A majority of them.
        needed: u32,
    },
    /// The peer that leads runs on its machine, and hands its leadership over first.
    LeaderMoves {
        /// Which node.
        node: NodeName,
        /// The peer.
        leader: PeerId,
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

    /// The nodes it is about, as far as they are named.
    #[must_use]
    pub fn nodes(&self) -> Vec<NodeName> {
        match self {
            Self::Prefetching { nodes }
            | Self::PrefetchFailed { nodes, .. }
            | Self::BudgetExhausted { nodes, .. }
            | Self::StepsInFlight { nodes, .. }
            | Self::PrimaryLast { before: nodes } => nodes.named().to_vec(),
            Self::OrderTurn { before: node }
            | Self::NodeAway { node, .. }
            | Self::NodeHeld { node, .. }
            | Self::QuorumGuard { node, .. }
            | Self::LeaderMoves { node, .. }
            | Self::TokenElsewhere { node, .. }
            | Self::StepRuns { node, .. }
            | Self::TurningBack { node }
            | Self::HealthNotGood { node, .. }
            | Self::Soak { node }
            | Self::StepFailed { node, .. } => vec![node.clone()],
            Self::Paused { .. }
            | Self::Ended
            | Self::Approval
            | Self::Promotion { .. }
            | Self::Next
            | Self::Delay
            | Self::BatchRuns { .. }
            | Self::OutsideWindow { .. }
            | Self::Frozen { .. }
            | Self::Quarantined { .. }
            | Self::Nothing => Vec::new(),
        }
    }
}

impl fmt::Display for WaitingOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Paused { causes } => {
                let causes: Vec<String> = causes.iter().map(ToString::to_string).collect();
                write!(f, "paused: {}", causes.join(", "))
            }
            Self::Ended => f.write_str("nothing: it has ended"),
            Self::Approval => f.write_str("the approval of a second person"),
            Self::Promotion { batch } => write!(f, "the promotion of batch {batch}"),
            Self::Next => f.write_str("a person's `next`: mode is manual"),
            Self::Delay => f.write_str("the delay after a batch"),
            Self::BatchRuns { batch } => write!(f, "the end of batch {batch}"),
            Self::OutsideWindow { opens_at: Some(at) } => {
                write!(f, "a maintenance window; the next one opens at {}", in_words(*at))
            }
            Self::OutsideWindow { opens_at: None } => f.write_str("a maintenance window"),
            Self::Frozen { freeze, until, reason } => {
                write!(f, "freeze {freeze}")?;
                match until {
                    Some(until) => write!(f, " until {}", in_words(*until))?,
                    None => f.write_str(" until it is lifted")?,
                }
                reason.iter().try_for_each(|reason| write!(f, ": {reason}"))
            }
            Self::Quarantined { release } => write!(f, "the quarantine of {release}"),
            Self::NodeHeld { node, by, reason } => {
                write!(f, "{node}, which {by} holds")?;
                reason.iter().try_for_each(|reason| write!(f, ": {reason}"))
            }
            Self::Prefetching { nodes } => write!(f, "{nodes} fetching the release"),
            Self::PrefetchFailed { nodes, why } => write!(f, "the release can't be had by {nodes} ({why})"),
            Self::BudgetExhausted { nodes, max_unavailable } => {
                write!(f, "{nodes} not known healthy; max_unavailable is {max_unavailable}")
            }
            Self::StepsInFlight { nodes, max_parallel } => {
                write!(f, "the step of {nodes}; max_parallel is {max_parallel}")
            }
            Self::OrderTurn { before } => write!(f, "{before}, which is before it in the order"),
            Self::PrimaryLast { before } => write!(f, "{before}: the primary goes last"),
            Self::QuorumGuard { node, hosted, voters: 0, .. } => {
                write!(f, "the leader's word on how the peers do: {} on the machine of {node}", peers(hosted))
            }
            Self::QuorumGuard { node, hosted, missing, remaining, voters, needed } => {
                let (hosted, missing) = (peers(hosted), peers(missing));
                write!(f, "{hosted} on the machine of {node}: without it {remaining} of {voters} peers would be left")?;
                write!(f, ", and {needed} are needed")?;
                if missing.is_empty() { Ok(()) } else { write!(f, " ({missing} can't be counted on now)") }
            }
            Self::LeaderMoves { node, leader } => {
                write!(f, "peer {leader} on the machine of {node} to hand its leadership over")
            }
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

/// `peers 1, 2`; empty for none.
fn peers(ids: &[PeerId]) -> String {
    let names: Vec<String> = ids.iter().map(ToString::to_string).collect();
    match names.len() {
        0 => String::new(),
        1 => format!("peer {}", names.join("")),
        _ => format!("peers {}", names.join(", ")),
    }
}

/// Names of nodes: all of a few, the first of many.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub struct NameList {
    named: Vec<NodeName>,
    more: u32,
}

impl NameList {
    /// BOUND: nobody reads more, and a reason is written with every change of it.
    pub(crate) const MAX_NAMED: usize = 8;

    /// The first of `names`, which has `total` of them.
    pub(crate) fn of<'a>(names: impl IntoIterator<Item = &'a NodeName>, total: usize) -> Self {
        let named: Vec<NodeName> = names.into_iter().take(Self::MAX_NAMED).cloned().collect();
        let more = u32::try_from(total.saturating_sub(named.len())).unwrap_or(u32::MAX);
        Self { named, more }
    }

    /// Those that are named.
    #[must_use]
    pub fn named(&self) -> &[NodeName] {
        &self.named
    }

    /// How many there are besides.
    #[must_use]
    pub fn more(&self) -> u32 {
        self.more
    }
}

impl fmt::Display for NameList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.named.iter().map(NodeName::as_str).collect();
        f.write_str(&names.join(", "))?;
        if self.more > 0 {
            write!(f, " and {} more", self.more)?;
        }
        Ok(())
    }
}

/// A reason, and since when it is the reason.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Waiting {
    /// The reason.
    pub on: WaitingOn,
    /// Since when.
    pub since: Stamp,
}
