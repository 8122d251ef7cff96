//! What a rollout would do: the same planner and the same checks on a copy of the state, with steps that succeed.

use rollcall_ident::{GroupName, Millis, NodeId, NodeName, ReleaseIdent, Revision, RolloutId, WallTime};

use super::next_grant;
use crate::gate::{Candidate, may_be_granted};
use crate::schedule::{Closed, covering, openness};
use crate::state::RolloutKind;
use crate::{Actor, Command, Group, LogEntry, Proposal, Rejection, State, WaitingOn};

/// What a rollout would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preview {
    /// In order; steps of one round may be under way together.
    pub rounds: Vec<PlannedRound>,
    /// Members that run the target already.
    pub unchanged: Vec<NodeName>,
    /// What would hold it up now; the rounds suppose that it is lifted.
    pub blockers: Vec<WaitingOn>,
    /// How long it takes, by what steps of this group took so far; none: nobody knows yet.
    pub takes: Option<Millis>,
    /// The window that it falls into; none: the group has no window.
    pub window: Option<WindowFit>,
}

/// Steps that may be under way together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedRound {
    /// The batch of the policy that it belongs to, from 0 on.
    pub batch: u32,
    /// Whether a person must promote the batch before it.
    pub awaits_promotion: bool,
    /// The steps, in order.
    pub steps: Vec<PlannedStep>,
}

/// One step that would be taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedStep {
    /// Whose.
    pub node: NodeName,
    /// What it runs now.
    pub from: Option<ReleaseIdent>,
    /// Why it stands where it stands.
    pub placed_by: &'static str,
}

/// The window that a rollout would fall into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowFit {
    /// From when on it is open; now, or later.
    pub opens_at: WallTime,
    /// Until when; none: nothing closes it.
    pub closes_at: Option<WallTime>,
    /// Whether the rollout is over by then; none: nobody knows how long it takes.
    pub fits: Option<bool>,
}

/// Plays a rollout of `group` to `target` through on a copy of `state`.
///
/// # Errors
/// What starting it would be refused with.
pub fn preview(state: &State, group: &GroupName, target: &ReleaseIdent) -> Result<Preview, Rejection> {
    let mut state = state.clone();
    let start =
        Command::StartRollout { group: group.clone(), target: target.clone(), digest: None, kind: RolloutKind::Update };
    propose(&mut state, start)?;
    let started = state.active_rollout(group).or_else(|| state.latest_rollout(group)).expect("it was just started");
    let unchanged =
        started.unchanged.keys().filter_map(|id| state.nodes.get(id)).map(|node| node.name.clone()).collect();
    let mut preview = Preview { rounds: Vec::new(), unchanged, blockers: Vec::new(), takes: None, window: None };
    let mut play = Play { id: started.id, state, group: group.clone() };
    play.state.suppose(|suppose| suppose.suppose_fetched(play.id));
    let mut awaits_promotion = false;
    // BOUND: each turn settles at least one step or lifts what blocks, so it ends after three for each member.
    for _ in 0..=3 * play.member_count() {
        let round = play.grant_round(std::mem::take(&mut awaits_promotion));
        if let Some(round) = round {
            play.succeed_in_flight();
            preview.rounds.push(round);
        } else if let Some(blocker) = play.blocker() {
            play.state.suppose(|suppose| suppose.suppose_lifted(play.id, &blocker));
            match blocker {
                // These belong to the rollout's own course.
                WaitingOn::Promotion { .. } => awaits_promotion = true,
                WaitingOn::Delay | WaitingOn::Next | WaitingOn::LeaderMoves { .. } => {}
                blocker if preview.blockers.contains(&blocker) => {}
                blocker => preview.blockers.push(blocker),
            }
        } else {
            break;
        }
    }
    if let Some(found) = play.state.groups.get(group) {
        preview.takes = takes(found, &preview.rounds);
        preview.window = window(&play.state, found, preview.takes);
    }
    Ok(preview)
}

pub(super) fn propose(state: &mut State, command: Command) -> Result<(), Rejection> {
    let proposal =
        Proposal { actor: Actor::coordinator(), reason: None, request_id: None, expected_revision: None, command };
    let revision = Revision(state.revision.0 + 1);
    state.apply(revision, &LogEntry { stamp: state.now, proposal }).outcome.map(|_| ())
}

/// How long the rounds take one after the other, by what a step of the group took so far.
fn takes(group: &Group, rounds: &[PlannedRound]) -> Option<Millis> {
    let step = group.typical_step?;
    let policy = &group.policy;
    let has_batches = policy.canary > 0 || !policy.batches.is_empty();
    let pauses = rounds.windows(2).filter(|pair| !has_batches || pair[0].batch != pair[1].batch).count();
    Some(Millis(step.0 * rounds.len() as u64 + policy.delay.0 * pauses as u64))
}

fn window(state: &State, group: &Group, takes: Option<Millis>) -> Option<WindowFit> {
    if group.windows.is_empty() && state.freezes.is_empty() {
        return None;
    }
    let at = |now| openness(group.windows.values(), covering(&state.freezes, &group.name), now);
    let now = state.now.wall_time;
    let opens_at = match at(now).closed {
        None => now,
        Some(Closed::OutsideWindow { opens_at }) => opens_at?,
        Some(Closed::Frozen { until, .. }) => until?,
    };
    let closes_at = at(opens_at).closes_at;
    let fits = takes.map(|takes| closes_at.is_none_or(|closes_at| opens_at.0 + takes.0 <= closes_at.0));
    Some(WindowFit { opens_at, closes_at, fits })
}

/// A copy of the state in which everything goes well.
struct Play {
    state: State,
    group: GroupName,
    id: RolloutId,
}

impl Play {
    /// Grants as the planner would until it has nothing more to grant.
    fn grant_round(&mut self, awaits_promotion: bool) -> Option<PlannedRound> {
        let mut steps = Vec::new();
        let mut batch = 0;
        while let Some(Command::GrantToken { rollout, node, based_on }) =
            self.state.groups.get(&self.group).and_then(|group| next_grant(&self.state, group))
        {
            steps.extend(self.planned(node));
            batch = self.state.rollouts.get(&rollout).map_or(0, |rollout| rollout.batch.number);
            if propose(&mut self.state, Command::GrantToken { rollout, node, based_on }).is_err() {
                break;
            }
        }
        (!steps.is_empty()).then_some(PlannedRound { batch, awaits_promotion, steps })
    }

    fn planned(&self, node: NodeId) -> Option<PlannedStep> {
        let candidate = Candidate::new(&self.state, self.state.rollouts.get(&self.id)?, node)?;
        let placed_by = if candidate.is_repair() {
            "repairs_unhealthy_first"
        } else if candidate.is_held_back_as_primary() {
            "primary_last"
        } else {
            "by_order"
        };
        Some(PlannedStep { node: candidate.node.name.clone(), from: candidate.service.release.clone(), placed_by })
    }

    fn member_count(&self) -> usize {
        // Some more, for what holds the rollout as a whole.
        self.state.groups.get(&self.group).map_or(0, |group| group.members.len()) + 8
    }

    /// What the first in the order waits on.
    fn blocker(&self) -> Option<WaitingOn> {
        let rollout = self.state.active_rollout(&self.group)?;
        may_be_granted(&Candidate::first(&self.state, rollout)?).err()
    }

    /// The steps under way are done: their nodes run the target and are healthy.
    fn succeed_in_flight(&mut self) {
        let nodes: Vec<NodeId> = self
            .state
            .rollouts
            .get(&self.id)
            .map(|rollout| rollout.in_flight.values().copied().collect())
            .unwrap_or_default();
        let id = self.id;
        self.state.suppose(|suppose| nodes.into_iter().for_each(|node| suppose.suppose_succeeded(id, node)));
    }
}
