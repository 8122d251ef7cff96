//! What a rollout would do: the same planner and the same checks on a copy of the state, with steps that succeed.

use rollcall_ident::{GroupName, NodeId, NodeName, ReleaseIdent, Revision};

use super::plan;
use crate::gate::{may_be_granted, queue};
use crate::state::{DeadlineKey, Health, Prefetch, Presence, RolloutKind, Session};
use crate::{Actor, Command, LogEntry, Proposal, Rejection, State, WaitingOn};

/// What a rollout would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preview {
    /// In order; members of one batch may be down together.
    pub batches: Vec<Vec<PlannedStep>>,
    /// Members that run the target already.
    pub unchanged: Vec<NodeName>,
    /// What would hold it up now.
    pub blockers: Vec<WaitingOn>,
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

/// Plays a rollout of `group` to `target` through on a copy of `state`.
///
/// # Errors
/// What starting it would be refused with.
pub fn preview(state: &State, group: &GroupName, target: &ReleaseIdent) -> Result<Preview, Rejection> {
    let mut play = Play { state: state.clone(), group: group.clone(), target: target.clone() };
    let start =
        Command::StartRollout { group: group.clone(), target: target.clone(), digest: None, kind: RolloutKind::Update };
    play.propose(start)?;
    let started = play.state.latest_rollout(group).expect("it was just started");
    let unchanged =
        started.unchanged.keys().filter_map(|id| state.nodes.get(id)).map(|node| node.name.clone()).collect();
    let mut preview = Preview { batches: Vec::new(), unchanged, blockers: Vec::new() };
    play.assume_prefetched();
    // BOUND: each round settles at least one step or lifts what blocks, so it ends after two for each member.
    for _ in 0..=2 * state.nodes.len() {
        let batch = play.grant_batch();
        if !batch.is_empty() {
            play.succeed_in_flight();
            preview.batches.push(batch);
        } else if let Some(blocker) = play.blocker() {
            preview.blockers.push(blocker);
            play.assume_good();
        } else {
            break;
        }
    }
    Ok(preview)
}

/// A copy of the state in which everything goes well.
struct Play {
    state: State,
    group: GroupName,
    target: ReleaseIdent,
}

impl Play {
    fn propose(&mut self, command: Command) -> Result<(), Rejection> {
        let proposal =
            Proposal { actor: Actor::coordinator(), reason: None, request_id: None, expected_revision: None, command };
        let revision = Revision(self.state.revision.0 + 1);
        self.state.apply(revision, &LogEntry { stamp: self.state.now, proposal }).outcome.map(|_| ())
    }

    /// Grants as the planner would until it has nothing more to grant.
    fn grant_batch(&mut self) -> Vec<PlannedStep> {
        let mut batch = Vec::new();
        loop {
            let next = plan(&self.state).into_iter().find_map(|command| match command {
                Command::GrantToken { rollout, node, .. } if self.is_ours(node) => Some((rollout, node)),
                _ => None,
            });
            let Some((rollout, node)) = next else { return batch };
            let step = self.planned(node);
            if self.propose(Command::GrantToken { rollout, node, based_on: self.state.revision }).is_err() {
                return batch;
            }
            batch.extend(step);
        }
    }

    fn is_ours(&self, node: NodeId) -> bool {
        self.state.active_rollout(&self.group).is_some_and(|rollout| rollout.steps.contains_key(&node))
    }

    fn planned(&self, node: NodeId) -> Option<PlannedStep> {
        let rollout = self.state.active_rollout(&self.group)?;
        let candidate = crate::gate::Candidate::new(&self.state, rollout, node)?;
        let placed_by = if candidate.is_repair() {
            "repairs_unhealthy_first"
        } else if candidate.service.primary && candidate.group.policy.primary_last {
            "primary_last"
        } else {
            "by_order"
        };
        Some(PlannedStep { node: candidate.node.name.clone(), from: candidate.service.release.clone(), placed_by })
    }

    /// What the first in the order waits on.
    fn blocker(&self) -> Option<WaitingOn> {
        let rollout = self.state.active_rollout(&self.group)?;
        let queue = queue(&self.state, rollout);
        may_be_granted(queue.first()?, &queue).err()
    }

    /// The steps in flight are done: their nodes run the target and are healthy.
    fn succeed_in_flight(&mut self) {
        let Some(rollout) = self.state.active_rollout(&self.group) else { return };
        let (id, nodes) = (rollout.id, rollout.steps_in_flight().map(|step| step.node).collect::<Vec<_>>());
        for node in nodes {
            self.state.tokens.remove(&node);
            if let Some(rollout) = self.state.rollouts.get_mut(&id) {
                rollout.steps.remove(&node);
            }
            for key in [DeadlineKey::ReadyTimeout(id, node), DeadlineKey::HealthyDeadline(id, node)] {
                self.state.deadlines.clear(&key);
            }
            self.make_good(node, true);
        }
    }

    /// What blocks is lifted, so that the rest of the order can be seen.
    fn assume_good(&mut self) {
        let Some(rollout) = self.state.active_rollout(&self.group) else { return };
        let id = rollout.id;
        let members: Vec<NodeId> =
            self.state.groups.get(&self.group).map(|group| group.members.keys().copied().collect()).unwrap_or_default();
        for node in members {
            self.state.tokens.remove(&node);
            self.make_good(node, false);
        }
        if let Some(rollout) = self.state.rollouts.get_mut(&id) {
            rollout.pause_causes.clear();
            rollout.status = crate::RolloutStatus::Running;
        }
    }

    fn make_good(&mut self, id: NodeId, is_updated: bool) {
        let (group, target, now) = (self.group.clone(), self.target.clone(), self.state.now);
        if let Some(found) = self.state.groups.get_mut(&group) {
            found.unhealthy.remove(&id);
        }
        let Some(node) = self.state.nodes.get_mut(&id) else { return };
        if node.session().is_none() {
            node.presence =
                Presence::Present(Session { host: Default::default(), epoch: Default::default(), opened_at: now });
        }
        let Some(service) = node.services.get_mut(&group) else { return };
        if service.release.is_some() || is_updated {
            service.health = Health::Healthy;
        }
        if is_updated {
            service.release = Some(target);
        }
    }

    fn assume_prefetched(&mut self) {
        let members: Vec<NodeId> =
            self.state.groups.get(&self.group).map(|group| group.members.keys().copied().collect()).unwrap_or_default();
        for id in members {
            let Some(node) = self.state.nodes.get_mut(&id) else { continue };
            let Some(service) = node.services.get_mut(&self.group) else { continue };
            service.prefetch = Some(Prefetch { release: self.target.clone(), outcome: Ok(()) });
        }
    }
}
