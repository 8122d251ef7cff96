//! The linter of the state: whatever breaks an invariant of `docs/invariants.md` is named. It runs after every entry in
//! tests and debug builds, and on demand.

use std::fmt;

use crate::State;
use crate::state::{DeadlineKey, Phase, RolloutStatus};

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
            let is_turned_where_it_can = step.turn.is_none() || step.phase == Phase::Draining;
            found.require("I-08", is_turned_where_it_can, || format!("{id} {} turns while {}", step.node, step.phase));
            let is_uncommitted = step.phase.is_before_a() || (step.phase == Phase::Draining && step.turn.is_none());
            found.require("I-08", !is_uncommitted || rollout.status == RolloutStatus::Running, || {
                format!("{id} {} may pass a commit point while its rollout is {}", step.node, rollout.status)
            });
        }
        let is_complete = rollout.steps.values().all(|step| step.phase.is_settled());
        found.require("I-11", rollout.status != RolloutStatus::Succeeded || is_complete, || {
            format!("{id} succeeded with open steps")
        });
    }
}

fn check_members(state: &State, found: &mut Findings) {
    for group in state.groups.values() {
        for (node, service) in state.members(group) {
            let is_indexed = group.unhealthy.contains_key(&node.id);
            found.require("I-06", is_indexed == node.is_unhealthy(&group.name, group.policy.on_warning), || {
                format!("{} in {}: health {}, indexed {is_indexed}", node.name, group.name, service.health)
            });
        }
        let is_subset = group.unhealthy.keys().all(|id| group.members.contains_key(id));
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
    for (at, key) in state.deadlines.iter() {
        let subject_exists = match key {
            DeadlineKey::StaleAfter(node) | DeadlineKey::LostAfter(node) => state.nodes.contains_key(&node),
            DeadlineKey::ProgressDeadline(rollout) => state.rollouts.get(&rollout).is_some_and(|it| it.is_active()),
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
