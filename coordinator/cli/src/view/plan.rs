//! What a rollout would do.

use rollcall_proto::v1;
use serde::Serialize;

use super::common::{WaitingOnView, empty_as_none, time};

/// Order, batches, how long it takes, and what would hold it up.
#[derive(Debug, Serialize)]
pub struct PlanView {
    pub group: String,
    pub target: String,
    /// Whether anything would change.
    pub changes: bool,
    /// In order; the steps of one round may be under way together.
    pub rounds: Vec<PlannedRoundView>,
    /// Members that run the target already.
    pub unchanged_nodes: Vec<String>,
    pub blockers: Vec<WaitingOnView>,
    /// By what steps of this group took so far; `None`: nobody knows yet.
    pub takes_ms: Option<u64>,
    /// `None`: the group has neither windows nor freezes.
    pub window: Option<WindowFitView>,
}

/// Steps that may be under way together.
#[derive(Debug, Serialize)]
pub struct PlannedRoundView {
    /// Of the policy, from 0 on; the canary is 0 where there is one.
    pub batch: u32,
    /// A person must promote the batch before it begins.
    pub awaits_promotion: bool,
    pub steps: Vec<PlannedStepView>,
}

/// One node's turn.
#[derive(Debug, Serialize)]
pub struct PlannedStepView {
    pub node_name: String,
    pub from: Option<String>,
    pub to: String,
    /// Why it stands where it stands.
    pub placed_by: String,
}

/// The window that a rollout would fall into.
#[derive(Debug, Serialize)]
pub struct WindowFitView {
    /// From when on it is open: now, or later.
    pub opens_at: Option<String>,
    /// `None`: nothing closes it.
    pub closes_at: Option<String>,
    /// Whether the rollout is over by then; `None`: nobody knows.
    pub fits: Option<bool>,
}

impl From<v1::PlanRolloutResponse> for PlanView {
    fn from(plan: v1::PlanRolloutResponse) -> Self {
        let mut unchanged_nodes = plan.unchanged_nodes;
        unchanged_nodes.sort();
        let rounds: Vec<_> = plan.rounds.into_iter().map(PlannedRoundView::from).collect();
        Self {
            group: plan.group,
            target: plan.target,
            changes: rounds.iter().any(|round| !round.steps.is_empty()),
            rounds,
            unchanged_nodes,
            blockers: plan.blockers.into_iter().filter_map(|blocker| WaitingOnView::from_wire(Some(blocker))).collect(),
            takes_ms: plan.takes_ms,
            window: plan.window.as_ref().map(WindowFitView::from),
        }
    }
}

impl From<v1::PlannedRound> for PlannedRoundView {
    fn from(round: v1::PlannedRound) -> Self {
        let steps = round.steps.into_iter().map(|step| PlannedStepView {
            node_name: step.node_name,
            from: empty_as_none(step.from),
            to: step.to,
            placed_by: step.placed_by,
        });
        Self { batch: round.batch, awaits_promotion: round.awaits_promotion, steps: steps.collect() }
    }
}

impl From<&v1::WindowFit> for WindowFitView {
    fn from(window: &v1::WindowFit) -> Self {
        Self { opens_at: time(window.opens_at.as_ref()), closes_at: time(window.closes_at.as_ref()), fits: window.fits }
    }
}
