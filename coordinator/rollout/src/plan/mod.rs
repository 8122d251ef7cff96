//! The planner: what the leader should propose now. It runs on the leader only, looks at the state only, and chooses;
//! `apply` checks what it chose. Planning again once its proposals are applied changes nothing.

mod preview;

pub use preview::{PlannedStep, Preview, preview};

use crate::gate::{may_be_granted, queue};
use crate::state::{Group, RolloutKind, RolloutStatus};
use crate::{Command, State};

/// What to propose now, at most one thing for each group: the next one is planned on what came of it.
#[must_use]
pub fn plan(state: &State) -> Vec<Command> {
    state.groups.values().filter_map(|group| next_grant(state, group).or_else(|| catch_up(state, group))).collect()
}

/// The token for the first in the order, if every gate is open.
fn next_grant(state: &State, group: &Group) -> Option<Command> {
    let rollout = state.active_rollout(&group.name).filter(|rollout| rollout.status == RolloutStatus::Running)?;
    let queue = queue(state, rollout);
    let first = queue.first()?;
    may_be_granted(first, &queue).ok()?;
    Some(Command::GrantToken { rollout: rollout.id, node: first.node.id, based_on: state.revision })
}

/// A rollout of its own kind for joiners and drifters of a group that is at rest.
fn catch_up(state: &State, group: &Group) -> Option<Command> {
    if group.active_rollout.is_some() || !group.settled || !group.policy.catch_up {
        return None;
    }
    let target = group.target.as_ref()?;
    state
        .members(group)
        .find(|(node, service)| node.session().is_some() && service.release.as_ref() != Some(target))?;
    Some(Command::StartRollout {
        group: group.name.clone(),
        target: target.clone(),
        digest: None,
        kind: RolloutKind::CatchUp,
    })
}
