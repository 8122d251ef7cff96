//! What a rollout would do.

use rollcall_ident::{GroupName, ReleaseIdent, Revision};
use rollcall_proto::v1;
use rollcall_rollout::{PlannedRound, PlannedStep, Preview, WindowFit};

use super::rollout::reason;
use super::timestamp;

/// What a rollout of `group` to `target` would do, by the state at `revision`.
pub fn preview(
    revision: Revision,
    group: &GroupName,
    target: &ReleaseIdent,
    preview: Preview,
) -> v1::PlanRolloutResponse {
    let Preview { rounds, unchanged, blockers, takes, window } = preview;
    v1::PlanRolloutResponse {
        revision: revision.0,
        group: group.to_string(),
        target: target.to_string(),
        rounds: rounds.into_iter().map(|each| round(each, target)).collect(),
        unchanged_nodes: unchanged.iter().map(ToString::to_string).collect(),
        blockers: blockers.iter().map(|on| reason(on, None)).collect(),
        takes_ms: takes.map(|takes| takes.0),
        window: window.map(window_fit),
    }
}

fn round(round: PlannedRound, target: &ReleaseIdent) -> v1::PlannedRound {
    let PlannedRound { batch, awaits_promotion, steps } = round;
    let planned = |step: PlannedStep| v1::PlannedStep {
        node_name: step.node.to_string(),
        from: step.from.map(|from| from.to_string()).unwrap_or_default(),
        to: target.to_string(),
        placed_by: step.placed_by.to_owned(),
    };
    v1::PlannedRound { steps: steps.into_iter().map(planned).collect(), batch, awaits_promotion }
}

fn window_fit(fit: WindowFit) -> v1::WindowFit {
    let WindowFit { opens_at, closes_at, fits } = fit;
    v1::WindowFit { opens_at: Some(timestamp(opens_at)), closes_at: closes_at.map(timestamp), fits }
}
