//! What a rollout would do.

use rollcall_proto::v1;
use serde::Serialize;

use super::common::{WaitingOnView, empty_as_none};

/// Order, batches, and what would hold it up.
#[derive(Debug, Serialize)]
pub struct PlanView {
    pub group: String,
    pub target: String,
    /// Whether anything would change.
    pub changes: bool,
    /// In order; members of one batch may be down together.
    pub batches: Vec<PlannedBatchView>,
    /// Members that run the target already.
    pub unchanged_nodes: Vec<String>,
    pub blockers: Vec<WaitingOnView>,
}

/// Members that may be down together.
#[derive(Debug, Serialize)]
pub struct PlannedBatchView {
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

impl From<v1::PlanRolloutResponse> for PlanView {
    fn from(plan: v1::PlanRolloutResponse) -> Self {
        let mut unchanged_nodes = plan.unchanged_nodes;
        unchanged_nodes.sort();
        let batches: Vec<_> = plan.batches.into_iter().map(PlannedBatchView::from).collect();
        Self {
            group: plan.group,
            target: plan.target,
            changes: batches.iter().any(|batch| !batch.steps.is_empty()),
            batches,
            unchanged_nodes,
            blockers: plan.blockers.into_iter().filter_map(|blocker| WaitingOnView::from_wire(Some(blocker))).collect(),
        }
    }
}

impl From<v1::PlannedBatch> for PlannedBatchView {
    fn from(batch: v1::PlannedBatch) -> Self {
        let steps = batch.steps.into_iter().map(|step| PlannedStepView {
            node_name: step.node_name,
            from: empty_as_none(step.from),
            to: step.to,
            placed_by: step.placed_by,
        });
        Self { steps: steps.collect() }
    }
}
