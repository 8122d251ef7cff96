//! The gates: small named checks that stand between a node and its being down.
//!
//! `apply` refuses by them, `plan` chooses by them, `explain` gives their reasons. They are the same code, so what is
//! explained is what is done. None of them looks at all members: what they ask for is kept in the group and the rollout.

use rollcall_ident::{NodeId, NodeName};

use crate::planted::{Planted, is_planted};
use crate::queue::Rank;
use crate::quorum;
use crate::state::{Group, Node, Rollout, RolloutStatus, Service, Step, Way};
use crate::{Closed, DeadlineKey, Mode, NameList, State, WaitingOn};

/// One member's step with all that the gates look at.
#[derive(Clone, Copy)]
pub(crate) struct Candidate<'a> {
    pub state: &'a State,
    pub group: &'a Group,
    pub rollout: &'a Rollout,
    pub step: &'a Step,
    pub node: &'a Node,
    pub service: &'a Service,
}

impl<'a> Candidate<'a> {
    /// The step of `node` in `rollout`, if the node is still a member.
    pub fn new(state: &'a State, rollout: &'a Rollout, node: NodeId) -> Option<Self> {
        Self::with_step(state, rollout, rollout.steps.get(&node)?)
    }

    /// The same for a step that isn't in its place yet.
    pub fn with_step(state: &'a State, rollout: &'a Rollout, step: &'a Step) -> Option<Self> {
        let group = state.groups.get(&rollout.group)?;
        let node = state.nodes.get(&step.node)?;
        let service = node.services.get(&rollout.group)?;
        Some(Self { state, group, rollout, step, node, service })
    }

    /// The first in the queue.
    pub fn first(state: &'a State, rollout: &'a Rollout) -> Option<Self> {
        rollout.queue.first().and_then(|(_, node)| Self::new(state, rollout, *node))
    }

    /// Whether it is there and broken: a good release may always overtake a broken one, and a retry mends what failed.
    pub fn is_repair(&self) -> bool {
        self.node.is_broken(&self.group.name, self.group.policy.on_warning)
    }

    /// The way back is the reverse order, whatever the roles are by then.
    pub fn is_held_back_as_primary(&self) -> bool {
        self.group.policy.primary_last && self.service.primary && self.step.way == Way::Forward && !self.is_repair()
    }

    /// Whether the node has said that it has the release its step leads to.
    pub fn is_fetched(&self) -> bool {
        let target = self.rollout.target_of(self.step);
        self.service.prefetch.as_ref().is_some_and(|fetched| fetched.release == *target && fetched.outcome.is_ok())
    }

    fn name_of(&self, node: &NodeId) -> Option<&'a NodeName> {
        self.state.nodes.get(node).map(|node| &node.name)
    }
}

/// Whether a queued step may get the token now.
pub(crate) fn may_be_granted(candidate: &Candidate<'_>) -> Result<(), WaitingOn> {
    rollout_moves(candidate.state, candidate.rollout)?;
    group_is_open(candidate)?;
    is_its_turn(candidate)?;
    is_not_held(candidate)?;
    is_present(candidate)?;
    holds_no_token(candidate)?;
    is_prefetched(candidate)?;
    is_let_in(candidate)?;
    is_within_parallel(candidate)?;
    primaries_go_last(candidate)?;
    is_within_budget(candidate)?;
    quorum::can_do_without(candidate.state, candidate.node)
}

/// Whether a step may pass a commit point now: what may have changed since the grant is checked again.
pub(crate) fn may_commit(candidate: &Candidate<'_>) -> Result<(), WaitingOn> {
    if is_planted(Planted::NoCommitPoint) {
        return Ok(());
    }
    rollout_moves(candidate.state, candidate.rollout)?;
    group_is_open(candidate)?;
    primaries_go_last(candidate)?;
    is_within_budget(candidate)?;
    quorum::can_do_without(candidate.state, candidate.node)
}

/// Whether the rollout as a whole lets steps begin.
pub(crate) fn rollout_moves(state: &State, rollout: &Rollout) -> Result<(), WaitingOn> {
    match rollout.status {
        RolloutStatus::Running if state.quarantined(&rollout.target).is_some() => {
            Err(WaitingOn::Quarantined { release: rollout.target.clone() })
        }
        RolloutStatus::Running | RolloutStatus::RollingBack => Ok(()),
        RolloutStatus::AwaitingApproval => Err(WaitingOn::Approval),
        RolloutStatus::AwaitingPromotion => Err(WaitingOn::Promotion { batch: rollout.batch.number }),
        RolloutStatus::Paused => Err(WaitingOn::Paused { causes: rollout.pause_causes.iter().copied().collect() }),
        RolloutStatus::Succeeded
        | RolloutStatus::Stopped
        | RolloutStatus::RolledBack
        | RolloutStatus::Superseded
        | RolloutStatus::Denied => Err(WaitingOn::Ended),
    }
}

/// Windows and freezes, as `apply` saw them last.
fn group_is_open(candidate: &Candidate<'_>) -> Result<(), WaitingOn> {
    match candidate.group.closed.clone() {
        None => Ok(()),
        Some(Closed::OutsideWindow { opens_at }) => Err(WaitingOn::OutsideWindow { opens_at }),
        Some(Closed::Frozen { freeze, until, reason }) => Err(WaitingOn::Frozen { freeze, until, reason }),
    }
}

fn is_its_turn(candidate: &Candidate<'_>) -> Result<(), WaitingOn> {
    match Candidate::first(candidate.state, candidate.rollout) {
        Some(first) if first.node.id != candidate.node.id => {
            Err(WaitingOn::OrderTurn { before: first.node.name.clone() })
        }
        _ => Ok(()),
    }
}

fn is_not_held(candidate: &Candidate<'_>) -> Result<(), WaitingOn> {
    match &candidate.node.hold {
        Some(_) if is_planted(Planted::HoldIgnored) => Ok(()),
        Some(hold) => Err(WaitingOn::NodeHeld {
            node: candidate.node.name.clone(),
            by: hold.by.0.clone(),
            reason: hold.reason.clone(),
        }),
        None => Ok(()),
    }
}

fn is_present(candidate: &Candidate<'_>) -> Result<(), WaitingOn> {
    if candidate.node.session().is_some() {
        return Ok(());
    }
    Err(WaitingOn::NodeAway { node: candidate.node.name.clone(), departed: candidate.node.is_departed() })
}

/// INVARIANT I-02: a node holds at most one token over all its groups.
fn holds_no_token(candidate: &Candidate<'_>) -> Result<(), WaitingOn> {
    match candidate.state.tokens.get(&candidate.node.id) {
        Some(token) => Err(WaitingOn::TokenElsewhere {
            node: candidate.node.name.clone(),
            group: token.group.clone(),
            rollout: token.rollout,
        }),
        None => Ok(()),
    }
}

/// Before the first stop every present member must have the release; afterwards the one whose turn it is.
fn is_prefetched(candidate: &Candidate<'_>) -> Result<(), WaitingOn> {
    let missing = |node: &NodeId| {
        let other = Candidate::new(candidate.state, candidate.rollout, *node)?;
        (other.node.session().is_some() && !other.is_fetched()).then_some(other)
    };
    let waits_for_all = !candidate.rollout.begun && candidate.step.way == Way::Forward;
    let mut lacking = if waits_for_all {
        candidate.rollout.unfetched.keys().filter_map(missing).take(NameList::MAX_NAMED).collect::<Vec<_>>()
    } else {
        missing(&candidate.node.id).into_iter().collect()
    };
    if lacking.is_empty() {
        return Ok(());
    }
    let total = if waits_for_all { candidate.rollout.unfetched.len() } else { 1 };
    let failed = |other: &Candidate<'_>| {
        let target = other.rollout.target_of(other.step);
        other.service.prefetch.as_ref().filter(|fetched| fetched.release == *target)?.outcome.clone().err()
    };
    lacking.sort_by_key(|other| failed(other).is_none());
    let nodes = |lacking: &[Candidate<'_>], total| NameList::of(lacking.iter().map(|other| &other.node.name), total);
    match lacking.first().and_then(failed) {
        Some(why) => {
            lacking.retain(|other| failed(other).is_some());
            Err(WaitingOn::PrefetchFailed { nodes: nodes(&lacking, lacking.len()), why })
        }
        None => Err(WaitingOn::Prefetching { nodes: nodes(&lacking, total.max(lacking.len())) }),
    }
}

/// Batches, the pause between them, and steps that are taken by hand.
fn is_let_in(candidate: &Candidate<'_>) -> Result<(), WaitingOn> {
    let rollout = candidate.rollout;
    if candidate.state.deadlines.get(&DeadlineKey::Delay(rollout.id)).is_some() {
        return Err(WaitingOn::Delay);
    }
    let is_by_batch = candidate.step.way == Way::Forward && candidate.step.batch.is_none();
    if is_by_batch && rollout.batch.room == 0 {
        return Err(WaitingOn::BatchRuns { batch: rollout.batch.number });
    }
    if candidate.group.policy.mode == Mode::Manual && rollout.permits == 0 {
        return Err(WaitingOn::Next);
    }
    Ok(())
}

fn is_within_parallel(candidate: &Candidate<'_>) -> Result<(), WaitingOn> {
    let group = candidate.group;
    let max_parallel = group.policy.max_parallel.of(member_count(group));
    let (others, total) = others(candidate, &group.updaters);
    if total < max_parallel as usize {
        return Ok(());
    }
    Err(WaitingOn::StepsInFlight { nodes: NameList::of(others, total), max_parallel })
}

/// Roles move: this is asked again before every step and at every commit point.
fn primaries_go_last(candidate: &Candidate<'_>) -> Result<(), WaitingOn> {
    if !candidate.is_held_back_as_primary() {
        return Ok(());
    }
    let queue = &candidate.rollout.queue;
    let replicas =
        [false, true].map(|is_new| queue.range(Rank::before_replicas(is_new)..Rank::before_primaries(is_new)));
    let before: Vec<&NodeName> = replicas
        .into_iter()
        .flatten()
        .filter(|(_, node)| **node != candidate.node.id)
        .take(NameList::MAX_NAMED)
        .filter_map(|(_, node)| candidate.name_of(node))
        .collect();
    if before.is_empty() {
        return Ok(());
    }
    let total = before.len();
    Err(WaitingOn::PrimaryLast { before: NameList::of(before, total) })
}

/// INVARIANT I-03: nobody is taken down who would make more members not known healthy than `max_unavailable`, whatever
/// the cause of the others. A node that is broken already, or never ran the service, takes nothing more.
fn is_within_budget(candidate: &Candidate<'_>) -> Result<(), WaitingOn> {
    let group = candidate.group;
    if is_planted(Planted::NoBudget) {
        return Ok(());
    }
    // A held one is well: it takes as much as any other.
    if candidate.service.release.is_none() || candidate.is_repair() {
        return Ok(());
    }
    let max_unavailable = group.policy.max_unavailable.of(member_count(group));
    let (others, total) = others(candidate, &group.disrupted);
    if total < max_unavailable as usize {
        return Ok(());
    }
    Err(WaitingOn::BudgetExhausted { nodes: NameList::of(others, total), max_unavailable })
}

/// Who is in `set` besides the candidate: the first names, and how many they are.
fn others<'a>(candidate: &Candidate<'a>, set: &'a crate::Map<NodeId, ()>) -> (Vec<&'a NodeName>, usize) {
    let own = candidate.node.id;
    let total = set.len() - usize::from(set.contains_key(&own));
    let state = candidate.state;
    let named = set
        .keys()
        .filter(move |node| **node != own)
        .take(NameList::MAX_NAMED)
        .filter_map(move |node| state.nodes.get(node).map(|node| &node.name))
        .collect();
    (named, total)
}

pub(crate) fn member_count(group: &Group) -> u32 {
    u32::try_from(group.members.len()).unwrap_or(u32::MAX)
}
