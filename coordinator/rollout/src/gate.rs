//! The gates: small named checks that stand between a node and its being down.
//!
//! `apply` refuses by them, `plan` chooses by them, `explain` gives their reasons. They are the same code, so what is
//! explained is what is done.

use rollcall_ident::{NodeId, NodeName};

use crate::state::{Group, Node, Phase, Rollout, RolloutStatus, Service, Step};
use crate::{Order, State, WaitingOn};

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
        let group = state.groups.get(&rollout.group)?;
        let step = rollout.steps.get(&node)?;
        let node = state.nodes.get(&node)?;
        let service = node.services.get(&rollout.group)?;
        Some(Self { state, group, rollout, step, node, service })
    }

    /// Whether it is there and broken: a good release may always overtake a broken one, and a retry mends what failed.
    pub fn is_repair(&self) -> bool {
        self.node.session().is_some() && self.group.unhealthy.contains_key(&self.node.id)
    }

    fn is_held_back_as_primary(&self) -> bool {
        self.group.policy.primary_last && self.service.primary && !self.is_repair()
    }

    /// Where it stands in the queue: repairs first, primaries last, between them the policy's order, then the name.
    fn rank(&self) -> (bool, bool, u64, &'a str, &'a NodeName) {
        let (number, text) = match &self.group.policy.order {
            Order::Name => (0, ""),
            Order::Inventory => {
                let at = self.group.policy.inventory.iter().position(|name| name == self.node.name.as_str());
                (at.map_or(u64::MAX, |at| at as u64), "")
            }
            Order::Label(key) => match self.node.labels.get(key) {
                Some(value) => (0, value.as_str()),
                None => (1, ""),
            },
            Order::Priority => (self.service.priority.unwrap_or(u64::MAX), ""),
        };
        (!self.is_repair(), self.is_held_back_as_primary(), number, text, &self.node.name)
    }
}

/// The queued steps of a rollout in the order of their turns.
pub(crate) fn queue<'a>(state: &'a State, rollout: &'a Rollout) -> Vec<Candidate<'a>> {
    let mut queue: Vec<_> = rollout
        .steps
        .values()
        .filter(|step| step.phase == Phase::Queued)
        .filter_map(|step| Candidate::new(state, rollout, step.node))
        .collect();
    queue.sort_by(|a, b| a.rank().cmp(&b.rank()));
    queue
}

/// Whether a queued step may get the token now.
pub(crate) fn may_be_granted(candidate: &Candidate<'_>, queue: &[Candidate<'_>]) -> Result<(), WaitingOn> {
    rollout_runs(candidate)?;
    is_its_turn(candidate, queue)?;
    is_present(candidate)?;
    holds_no_token(candidate)?;
    is_prefetched(candidate, queue)?;
    is_within_parallel(candidate)?;
    primaries_go_last(candidate, queue)?;
    is_within_budget(candidate)
}

/// Whether a step may pass a commit point now: what may have changed since the grant is checked again.
pub(crate) fn may_commit(candidate: &Candidate<'_>, queue: &[Candidate<'_>]) -> Result<(), WaitingOn> {
    rollout_runs(candidate)?;
    primaries_go_last(candidate, queue)?;
    is_within_budget(candidate)
}

fn rollout_runs(candidate: &Candidate<'_>) -> Result<(), WaitingOn> {
    match candidate.rollout.status {
        RolloutStatus::Running => Ok(()),
        RolloutStatus::Paused => {
            Err(WaitingOn::Paused { causes: candidate.rollout.pause_causes.iter().copied().collect() })
        }
        RolloutStatus::Succeeded | RolloutStatus::Stopped | RolloutStatus::Superseded => Err(WaitingOn::Ended),
    }
}

fn is_its_turn(candidate: &Candidate<'_>, queue: &[Candidate<'_>]) -> Result<(), WaitingOn> {
    match queue.first() {
        Some(first) if first.node.id != candidate.node.id => {
            Err(WaitingOn::OrderTurn { before: first.node.name.clone() })
        }
        _ => Ok(()),
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
fn is_prefetched(candidate: &Candidate<'_>, queue: &[Candidate<'_>]) -> Result<(), WaitingOn> {
    let needed: Vec<&Candidate<'_>> = if candidate.rollout.begun {
        vec![candidate]
    } else {
        queue.iter().filter(|member| member.node.session().is_some()).collect()
    };
    let target = &candidate.rollout.target;
    let mut missing = Vec::new();
    let mut failed = Vec::new();
    for member in needed {
        match member.service.prefetch.as_ref().filter(|prefetch| prefetch.release == *target) {
            Some(prefetch) => {
                if let Err(why) = &prefetch.outcome {
                    failed.push((member.node.name.clone(), why.clone()));
                }
            }
            None => missing.push(member.node.name.clone()),
        }
    }
    match (failed.is_empty(), missing.is_empty()) {
        (false, _) => Err(WaitingOn::PrefetchFailed { nodes: failed }),
        (true, false) => Err(WaitingOn::Prefetching { nodes: missing }),
        (true, true) => Ok(()),
    }
}

/// The other members of the group that hold a token.
fn others_in_flight<'a>(candidate: &Candidate<'a>) -> impl Iterator<Item = (&'a Node, &'a Service)> {
    let (state, group, own) = (candidate.state, candidate.group, candidate.node.id);
    state.members(group).filter(move |(node, _)| {
        node.id != own && state.tokens.get(&node.id).is_some_and(|token| token.group == group.name)
    })
}

fn is_within_parallel(candidate: &Candidate<'_>) -> Result<(), WaitingOn> {
    let max_parallel = candidate.group.policy.max_parallel.of(member_count(candidate.group));
    let nodes: Vec<NodeName> = others_in_flight(candidate).map(|(node, _)| node.name.clone()).collect();
    if nodes.len() < max_parallel as usize { Ok(()) } else { Err(WaitingOn::StepsInFlight { nodes, max_parallel }) }
}

/// Roles move: this is asked again before every step and at every commit point.
fn primaries_go_last(candidate: &Candidate<'_>, queue: &[Candidate<'_>]) -> Result<(), WaitingOn> {
    if !candidate.is_held_back_as_primary() {
        return Ok(());
    }
    let before: Vec<NodeName> = queue
        .iter()
        .filter(|other| other.node.id != candidate.node.id && !other.service.primary)
        .map(|other| other.node.name.clone())
        .collect();
    if before.is_empty() { Ok(()) } else { Err(WaitingOn::PrimaryLast { before }) }
}

/// INVARIANT I-03: nobody is taken down who would make more members not known healthy than `max_unavailable`, whatever
/// the cause of the others. A node that is broken already, or never ran the service, takes nothing more.
fn is_within_budget(candidate: &Candidate<'_>) -> Result<(), WaitingOn> {
    let own = candidate.node.id;
    if candidate.service.release.is_none() || candidate.group.unhealthy.contains_key(&own) {
        return Ok(());
    }
    let max_unavailable = candidate.group.policy.max_unavailable.of(member_count(candidate.group));
    let nodes: Vec<NodeName> = budget_users(candidate).map(|node| node.name.clone()).collect();
    if nodes.len() < max_unavailable as usize {
        Ok(())
    } else {
        Err(WaitingOn::BudgetExhausted { nodes, max_unavailable })
    }
}

/// The other members that use the budget: not known healthy, or about to be down.
fn budget_users<'a>(candidate: &Candidate<'a>) -> impl Iterator<Item = &'a Node> {
    let (group, own) = (candidate.group, candidate.node.id);
    let unhealthy = group.unhealthy.keys().filter(move |id| **id != own).filter_map(|id| candidate.state.nodes.get(id));
    let in_flight = others_in_flight(candidate)
        .filter(|(node, service)| service.release.is_some() && !group.unhealthy.contains_key(&node.id))
        .map(|(node, _)| node);
    unhealthy.chain(in_flight)
}

fn member_count(group: &Group) -> u32 {
    u32::try_from(group.members.len()).unwrap_or(u32::MAX)
}
