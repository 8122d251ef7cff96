//! The linter of the state: whatever breaks an invariant of `docs/invariants.md` is named. It runs after every entry in
//! tests and debug builds, and on demand.

use std::fmt;

use rollcall_ident::RolloutId;

use crate::apply::Standing;
use crate::gate::Candidate;
use crate::queue::Rank;
use crate::quorum::hosts;
use crate::state::{AlarmKey, DeadlineKey, Phase, Rollout, RolloutStatus, State, Tally, Turn};

/// An invariant that doesn't hold, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Its number in `docs/invariants.md`.
    pub invariant: &'static str,
    /// Where it is broken.
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.detail)
    }
}

/// All violations in `state`; none in a sound one.
#[must_use]
pub fn check(state: &State) -> Vec<Violation> {
    let mut found = Findings(Vec::new());
    check_tokens(state, &mut found);
    check_rollouts(state, &mut found);
    check_members(state, &mut found);
    check_sessions(state, &mut found);
    check_hosts(state, &mut found);
    check_deadlines(state, &mut found);
    found.0
}

struct Findings(Vec<Violation>);

impl Findings {
    fn require(&mut self, invariant: &'static str, holds: bool, detail: impl FnOnce() -> String) {
        if !holds {
            self.0.push(Violation { invariant, detail: detail() });
        }
    }
}

fn check_tokens(state: &State, found: &mut Findings) {
    for (node, token) in state.tokens.iter() {
        let step = state.rollouts.get(&token.rollout).and_then(|rollout| rollout.steps.get(node));
        let is_held = step.is_some_and(|step| step.phase.holds_token() && step.fence == Some(token.fence));
        found.require("I-01", is_held, || format!("the token of {node} with fence {} has no step", token.fence));
        found
            .require("I-04", token.fence.0 <= state.revision.0, || format!("fence {} is not of this log", token.fence));
    }
    for rollout in state.rollouts.values() {
        for step in rollout.steps_in_flight() {
            let is_token = state.tokens.get(&step.node).is_some_and(|token| token.rollout == rollout.id);
            found.require("I-01", is_token, || {
                format!("{} {} is {} without a token", rollout.id, step.node, step.phase)
            });
        }
    }
}

fn check_rollouts(state: &State, found: &mut Findings) {
    for rollout in state.rollouts.values() {
        let id = rollout.id;
        let is_groups = state.groups.get(&rollout.group).is_some_and(|group| group.active_rollout == Some(id));
        found.require("I-09", rollout.is_active() == is_groups, || {
            format!("{id} is {} and its group says otherwise", rollout.status)
        });
        let has_causes = !rollout.pause_causes.is_empty();
        found.require("I-10", (rollout.status == RolloutStatus::Paused) == has_causes, || {
            format!("{id} is {} with {} causes", rollout.status, rollout.pause_causes.len())
        });
        found.require("I-10", rollout.is_active() == rollout.ended.is_none(), || format!("{id} has ended and hasn't"));
        for step in rollout.steps.values() {
            let is_proved = step.phase != Phase::Succeeded || step.is_soaked;
            found.require("I-05", is_proved, || format!("{id} {} succeeded without its soak", step.node));
            let is_turned_where_it_can = match step.turn {
                None => true,
                Some(Turn::Fail { .. }) => step.phase >= Phase::Draining && step.phase <= Phase::Rebooting,
                Some(_) => step.phase == Phase::Draining,
            };
            found.require("I-08", is_turned_where_it_can, || format!("{id} {} turns while {}", step.node, step.phase));
            let is_uncommitted = step.phase.is_before_a() || (step.phase == Phase::Draining && step.turn.is_none());
            found.require("I-08", !is_uncommitted || rollout.status.is_moving(), || {
                format!("{id} {} may pass a commit point while its rollout is {}", step.node, rollout.status)
            });
        }
        let is_complete = rollout.steps.values().all(|step| step.phase.is_settled());
        let claims_all = matches!(rollout.status, RolloutStatus::Succeeded | RolloutStatus::RolledBack);
        found.require("I-11", !claims_all || is_complete, || format!("{id} is {} with open steps", rollout.status));
        let goes_back = rollout.going_back.is_some();
        found.require("I-11", rollout.status != RolloutStatus::RollingBack || goes_back, || {
            format!("{id} goes back, and nobody said so")
        });
        check_kept(state, rollout, found);
    }
}

/// What is kept of the steps as a whole is what counting them would give.
fn check_kept(state: &State, rollout: &Rollout, found: &mut Findings) {
    let id = rollout.id;
    let mut counted = Tally::default();
    let (mut queued, mut in_flight, mut failed, mut unfetched) = (0, 0, 0, 0);
    for step in rollout.steps.values() {
        counted.add(step.phase);
        let candidate = Candidate::with_step(state, rollout, step);
        let is_active = rollout.is_active() && step.phase == Phase::Queued;
        let rank = candidate.as_ref().filter(|_| is_active).map(Rank::of);
        let is_ranked = step.rank.as_ref().is_none_or(|rank| rollout.queue.get(rank) == Some(&step.node));
        found.require("I-19", is_ranked && (!rollout.is_active() || step.rank == rank), || {
            format!("{id} {} stands at {:?} instead of {rank:?}", step.node, step.rank)
        });
        queued += usize::from(step.rank.is_some());
        in_flight += usize::from(step.phase.holds_token());
        failed += usize::from(step.phase == Phase::Failed);
        let is_unfetched = is_active && candidate.is_some_and(|candidate| !candidate.is_fetched());
        unfetched += usize::from(is_unfetched);
        let is_noted = rollout.unfetched.contains_key(&step.node);
        found.require("I-19", !rollout.is_active() || is_noted == is_unfetched, || {
            format!("{id} {}: fetched {}, noted {is_noted}", step.node, !is_unfetched)
        });
    }
    found.require("I-19", counted == rollout.tally, || format!("{id} counts {:?}, not {counted:?}", rollout.tally));
    let kept = (rollout.queue.len(), rollout.in_flight.len(), rollout.failed.len());
    found.require("I-19", kept == (queued, in_flight, failed), || {
        format!("{id} keeps {kept:?} steps, and has {:?}", (queued, in_flight, failed))
    });
    found.require("I-19", !rollout.is_active() || rollout.unfetched.len() == unfetched, || {
        format!("{id} waits for a release of a node without a step")
    });
}

fn check_members(state: &State, found: &mut Findings) {
    for group in state.groups.values() {
        for (node, service) in state.members(group) {
            let (kept, is) = (Standing::kept(group, node.id), Standing::of(state, group, node.id));
            found.require("I-06", kept == is, || {
                format!("{} in {}: health {}, kept {kept:?} instead of {is:?}", node.name, group.name, service.health)
            });
        }
        let sets = [&group.unavailable, &group.updaters, &group.disrupted, &group.astray, &group.left_out];
        let is_subset = sets.iter().all(|set| set.keys().all(|id| group.members.contains_key(id)));
        found.require("I-06", is_subset, || format!("{} counts nodes that are no members", group.name));
    }
    for node in state.nodes.values() {
        for name in node.services.keys() {
            let is_member = state.groups.get(name).is_none_or(|group| group.members.contains_key(&node.id));
            found.require("I-06", is_member, || format!("{name} doesn't know its member {}", node.name));
        }
        let is_named = state.node_names.get(&node.name) == Some(&node.id);
        found.require("I-12", is_named, || format!("the name {} isn't {}'s", node.name, node.id));
    }
    found.require("I-12", state.nodes.len() == state.node_names.len(), || "a name without a node".to_owned());
}

fn check_hosts(state: &State, found: &mut Findings) {
    let mut count = 0;
    for peer in state.peers.values() {
        for node in state.nodes.values().filter(|node| hosts(node, peer)) {
            count += 1;
            let is_kept = state.hosts.contains_key(&(peer.id, node.id));
            found.require("I-20", is_kept, || format!("{} isn't known as the machine of peer {}", node.name, peer.id));
        }
    }
    found.require("I-20", state.hosts.len() == count, || "a machine of a peer that isn't one".to_owned());
}

fn check_sessions(state: &State, found: &mut Findings) {
    let open = state.nodes.values().filter_map(|node| node.session().map(|session| (node, session)));
    let mut count = 0;
    for (node, session) in open {
        count += 1;
        let is_indexed = state.sessions.get(&(session.host, session.epoch)) == Some(&node.id);
        found.require("I-13", is_indexed, || format!("the session of {} isn't indexed", node.name));
    }
    found.require("I-13", state.sessions.len() == count, || "a session without a node".to_owned());
}

fn check_deadlines(state: &State, found: &mut Findings) {
    found.require("I-14", state.deadlines.is_consistent(), || "deadlines by time and by key differ".to_owned());
    found.require("I-14", state.requests.is_consistent(), || "requests by id and by revision differ".to_owned());
    found.require("I-14", state.alarms.is_consistent(), || "alarms by time and by key differ".to_owned());
    for (at, key) in state.alarms.iter() {
        let is_active = |id: &RolloutId| state.rollouts.get(id).is_some_and(Rollout::is_active);
        let subject_exists = match key {
            AlarmKey::Openness(group) => state.active_rollout(group).is_some(),
            AlarmKey::ResumeRollout(id) | AlarmKey::PauseRollout(id) => is_active(id),
            AlarmKey::ReleaseNode(node) => state.nodes.get(node).is_some_and(|node| node.hold.is_some()),
        };
        found.require("I-14", subject_exists, || format!("{key:?} at {at:?} is about nothing"));
    }
    for (at, key) in state.deadlines.iter() {
        let subject_exists = match *key {
            DeadlineKey::StaleAfter(node) | DeadlineKey::LostAfter(node) => state.nodes.contains_key(&node),
            DeadlineKey::ProgressDeadline(rollout) | DeadlineKey::Delay(rollout) => {
                state.rollouts.get(&rollout).is_some_and(|it| it.is_active())
            }
            DeadlineKey::ReadyTimeout(rollout, node)
            | DeadlineKey::DrainTimeout(rollout, node)
            | DeadlineKey::HealthyDeadline(rollout, node)
            | DeadlineKey::MinHealthyTime(rollout, node)
            | DeadlineKey::RebootTimeout(rollout, node) => {
                state.tokens.get(&node).is_some_and(|token| token.rollout == rollout)
            }
        };
        found.require("I-14", subject_exists, || format!("{key:?} at {at:?} is about nothing"));
    }
    for node in state.nodes.values().filter(|node| node.session().is_none() && !node.is_departed()) {
        let is_armed = state.deadlines.get(&DeadlineKey::LostAfter(node.id)).is_some();
        found.require("I-14", is_armed, || format!("{} is away and would never depart", node.name));
    }
}
