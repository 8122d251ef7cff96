//! The planner: what the leader should propose now. It runs on the leader only, looks at the state only, and chooses;
//! `apply` checks what it chose. Planning again once its proposals are applied changes nothing.

mod ahead;
mod preview;

use std::collections::BTreeSet;

use rollcall_ident::PeerId;

pub use ahead::plan_ahead;
pub use preview::{PlannedRound, PlannedStep, Preview, WindowFit, preview};

use crate::gate::{Candidate, may_be_granted};
use crate::state::{Group, RolloutKind};
use crate::{Command, State, WaitingOn, quorum};

/// What to propose now, at most one thing for each group and one token for each node: the next one is planned on what
/// came of it.
#[must_use]
pub fn plan(state: &State) -> Vec<Command> {
    let mut chosen = BTreeSet::new();
    let mut is_free = |command: &Command| match command {
        Command::GrantToken { node, .. } => chosen.insert(*node),
        _ => true,
    };
    let wanted = state.groups.values().filter_map(|group| next_grant(state, group).or_else(|| catch_up(state, group)));
    wanted.filter(|command| is_free(command)).collect()
}

/// Whom the leader should hand its leadership to, the best first: the next step is on its own machine, and nothing else
/// holds it. None: it may stay.
#[must_use]
pub fn next_leaders(state: &State) -> Vec<PeerId> {
    let moving = state.groups.keys().filter_map(|name| state.active_rollout(name)).filter(|it| it.status.is_moving());
    let mut firsts = moving.filter_map(|rollout| Candidate::first(state, rollout));
    let held = firsts.find(|first| matches!(may_be_granted(first), Err(WaitingOn::LeaderMoves { .. })));
    held.map(|first| quorum::successors(state, first.node.id)).unwrap_or_default()
}

/// The token for the first in the order, if every gate is open.
fn next_grant(state: &State, group: &Group) -> Option<Command> {
    let rollout = state.active_rollout(&group.name).filter(|rollout| rollout.status.is_moving())?;
    let first = Candidate::first(state, rollout)?;
    may_be_granted(&first).ok()?;
    Some(Command::GrantToken { rollout: rollout.id, node: first.node.id, based_on: state.revision })
}

/// A rollout of its own kind for joiners and drifters of a group that is at rest.
fn catch_up(state: &State, group: &Group) -> Option<Command> {
    let is_at_rest = group.active_rollout.is_none() && group.settled && group.policy.catch_up;
    let target = group.target.as_ref().filter(|_| is_at_rest && !group.astray.is_empty())?;
    let can_start = state.quarantined(target).is_none();
    can_start.then(|| Command::StartRollout {
        group: group.name.clone(),
        target: target.clone(),
        digest: None,
        kind: RolloutKind::CatchUp,
    })
}
