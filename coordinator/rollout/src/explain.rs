//! Why something doesn't move: the reasons of the very checks that hold it, from the subject down to the causes.

use rollcall_ident::{GroupName, NodeId, RolloutId};

use crate::gate::{self, Candidate, queue};
use crate::state::{Node, PauseCause, Phase, Presence, Rollout, RolloutStatus, Step};
use crate::{Group, Stamp, State, WaitingOn};

/// What is asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// A group.
    Group(GroupName),
    /// A rollout.
    Rollout(RolloutId),
    /// A node.
    Node(NodeId),
}

/// One link of the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// What it is about: `group redis.default`, `rollout r42`, `node redis-1`.
    pub subject: String,
    /// The reason's name, in snake_case.
    pub reason: &'static str,
    /// The reason, for people.
    pub text: String,
    /// Since when.
    pub since: Stamp,
    /// What would release it; a command where there is one.
    pub released_by: String,
    /// How deep in the chain; 0 is the subject asked for.
    pub depth: u32,
}

/// The chain of reasons for `subject`, never empty; none where there is no such thing.
#[must_use]
pub fn explain(state: &State, subject: &Subject) -> Option<Vec<Explanation>> {
    let mut chain = Chain { state, links: Vec::new() };
    match subject {
        Subject::Group(name) => chain.group(state.groups.get(name)?),
        Subject::Rollout(id) => chain.rollout(state.rollouts.get(id)?, 0),
        Subject::Node(id) => chain.node(state.nodes.get(id)?, 0),
    }
    debug_assert!(!chain.links.is_empty(), "explain says nothing of {subject:?}");
    Some(chain.links)
}

/// Why a rollout as a whole doesn't move now.
pub(crate) fn waiting_on(state: &State, rollout: &Rollout) -> WaitingOn {
    match rollout.status {
        RolloutStatus::Paused => {
            return WaitingOn::Paused { causes: rollout.pause_causes.iter().copied().collect() };
        }
        RolloutStatus::Succeeded | RolloutStatus::Stopped | RolloutStatus::Superseded => return WaitingOn::Ended,
        RolloutStatus::Running => {}
    }
    let queue = queue(state, rollout);
    let in_flight = rollout.steps_in_flight().min_by_key(|step| step.fence);
    let next = in_flight.and_then(|step| Candidate::new(state, rollout, step.node)).or_else(|| queue.first().copied());
    next.map_or(WaitingOn::Nothing, |candidate| step_waiting_on(&candidate, &queue))
}

/// Why one step doesn't move now.
pub(crate) fn step_waiting_on(candidate: &Candidate<'_>, queue: &[Candidate<'_>]) -> WaitingOn {
    let (step, node) = (candidate.step, candidate.node.name.clone());
    match step.phase {
        Phase::Queued => gate::may_be_granted(candidate, queue).err().unwrap_or(WaitingOn::Nothing),
        Phase::Succeeded | Phase::Skipped => WaitingOn::Ended,
        Phase::Failed => {
            let reason = step.failure.as_ref().map_or_else(String::new, |failure| {
                if failure.detail.is_empty() {
                    failure.reason.clone()
                } else {
                    format!("{}: {}", failure.reason, failure.detail)
                }
            });
            WaitingOn::StepFailed { node, reason }
        }
        _ if candidate.node.session().is_none() && step.phase != Phase::Rebooting => {
            WaitingOn::NodeAway { node, departed: candidate.node.is_departed() }
        }
        _ if step.turn.is_some() => WaitingOn::TurningBack { node },
        Phase::Verifying if step.healthy_since.is_some() && !step.is_soaked => WaitingOn::Soak { node },
        Phase::Verifying if !step.is_soaked => {
            WaitingOn::HealthNotGood { node, detail: candidate.service.health_detail.clone() }
        }
        phase => WaitingOn::StepRuns { node, phase },
    }
}

/// The steps of a rollout in the order of their turns, each with what it waits on: begun ones by their grant, queued
/// ones as they would be granted now, then those that were left out.
#[must_use]
pub fn turns<'a>(state: &'a State, rollout: &'a Rollout) -> Vec<(&'a Step, WaitingOn)> {
    let queue = queue(state, rollout);
    let (mut begun, mut rest): (Vec<&Step>, Vec<&Step>) = rollout
        .steps
        .values()
        .filter(|step| step.phase != Phase::Queued || Candidate::new(state, rollout, step.node).is_none())
        .partition(|step| step.fence.is_some());
    begun.sort_by_key(|step| step.fence);
    begun.extend(queue.iter().map(|queued| queued.step));
    begun.append(&mut rest);
    let waits = |step: &Step| match Candidate::new(state, rollout, step.node) {
        Some(candidate) => step_waiting_on(&candidate, &queue),
        None => WaitingOn::Ended,
    };
    begun.into_iter().map(|step| (step, waits(step))).collect()
}

/// What would release a reason.
fn released_by(on: &WaitingOn, rollout: &Rollout) -> String {
    let id = rollout.id;
    match on {
        WaitingOn::Paused { causes } => match causes.first() {
            Some(PauseCause::StepFailed) => {
                format!(
                    "`rollcall rollout retry {id}`, or a rollout to a good release, or `rollcall rollout stop {id}`"
                )
            }
            Some(PauseCause::NodeAway) => {
                format!("the node's return and `rollcall rollout resume {id}`, or `rollcall node remove`")
            }
            Some(PauseCause::Operator | PauseCause::ProgressDeadline) | None => {
                format!("`rollcall rollout resume {id}`")
            }
        },
        WaitingOn::Ended => "a new rollout".to_owned(),
        WaitingOn::Prefetching { .. } => "the end of the download".to_owned(),
        WaitingOn::PrefetchFailed { .. } => {
            "the release in the nodes' source, whole and with its digest; they try again by themselves".to_owned()
        }
        WaitingOn::BudgetExhausted { .. } => "these members' health".to_owned(),
        WaitingOn::StepsInFlight { .. } | WaitingOn::StepRuns { .. } | WaitingOn::TurningBack { .. } => {
            "the step's next phase".to_owned()
        }
        WaitingOn::OrderTurn { .. } | WaitingOn::PrimaryLast { .. } => "their success".to_owned(),
        WaitingOn::NodeAway { node, .. } => {
            format!("its agent's return; `rollcall node remove {node}` if it never will")
        }
        WaitingOn::TokenElsewhere { rollout, .. } => format!("the end of its step in {rollout}"),
        WaitingOn::HealthNotGood { .. } => "its health check's success; healthy_deadline fails the step".to_owned(),
        WaitingOn::Soak { .. } => "min_healthy_time without one bad sample".to_owned(),
        WaitingOn::StepFailed { .. } => format!("`rollcall rollout retry {id}`, or a rollout to a good release"),
        WaitingOn::Nothing => "the leader's next look, at once".to_owned(),
    }
}

/// The chain while it is made.
struct Chain<'a> {
    state: &'a State,
    links: Vec<Explanation>,
}

impl Chain<'_> {
    fn link(&mut self, depth: u32, subject: String, reason: &'static str, text: String, since: Stamp, by: String) {
        self.links.push(Explanation { subject, reason, text, since, released_by: by, depth });
    }

    fn group(&mut self, group: &Group) {
        let subject = format!("group {}", group.name);
        let now = self.state.now;
        if let Some(active) = self.state.active_rollout(&group.name) {
            let (text, since) = (format!("{} is {}", active.id, active.status), active.started_at);
            self.link(0, subject, "in_rollout", text, since, "its end".to_owned());
            return self.rollout(active, 1);
        }
        let start = format!("`rollcall rollout start {} --to IDENT`", group.name);
        match (&group.target, group.settled) {
            (None, _) => {
                let by = match &group.channel {
                    Some(channel) => format!("`rollcall package promote IDENT {channel}`, or {start}"),
                    None => start,
                };
                self.link(0, subject, "no_target", "it has never had a rollout".to_owned(), now, by);
            }
            (Some(target), true) => {
                let text = format!("it is where it should be: {target}");
                let since = self.last_end(&group.name).unwrap_or(now);
                self.link(0, subject, "settled", text, since, "a new release".to_owned());
            }
            (Some(target), false) => {
                let text = format!("its last rollout, to {target}, didn't reach its end; nothing moves by itself");
                let since = self.last_end(&group.name).unwrap_or(now);
                self.link(0, subject, "not_settled", text, since, start);
            }
        }
        let unhealthy: Vec<_> = group.unhealthy.keys().filter_map(|id| self.state.nodes.get(id)).cloned().collect();
        for node in unhealthy {
            self.health_of(&node, &group.name, 1);
        }
    }

    fn last_end(&self, group: &GroupName) -> Option<Stamp> {
        self.state.latest_rollout(group).and_then(|rollout| rollout.ended.as_ref()).map(|ended| ended.at)
    }

    fn rollout(&mut self, rollout: &Rollout, depth: u32) {
        let subject = format!("rollout {}", rollout.id);
        if let Some(ended) = &rollout.ended {
            let text = format!("it has ended, {}: {}", rollout.status, ended.why);
            self.link(depth, subject, "ended", text, ended.at, "a new rollout".to_owned());
        } else {
            let on = waiting_on(self.state, rollout);
            let since = rollout.waiting.as_ref().map_or(rollout.started_at, |waiting| waiting.since);
            let text = match &on {
                WaitingOn::Paused { .. } => format!("it is {on}"),
                _ => format!("it waits on {on}"),
            };
            self.link(depth, subject, on.name(), text, since, released_by(&on, rollout));
            self.causes(&on, rollout, depth + 1);
        }
        let open: Vec<&Step> =
            rollout.steps.values().filter(|step| step.phase == Phase::Failed || step.phase.holds_token()).collect();
        for step in open {
            self.step(rollout, step, depth + 1);
        }
    }

    /// The health of the members that a reason names.
    fn causes(&mut self, on: &WaitingOn, rollout: &Rollout, depth: u32) {
        if !matches!(on, WaitingOn::BudgetExhausted { .. } | WaitingOn::NodeAway { .. }) {
            return;
        }
        let nodes: Vec<Node> = on.nodes().iter().filter_map(|name| self.state.node_named(name)).cloned().collect();
        for node in nodes {
            self.health_of(&node, &rollout.group, depth);
        }
    }

    fn step(&mut self, rollout: &Rollout, step: &Step, depth: u32) {
        let Some(candidate) = Candidate::new(self.state, rollout, step.node) else { return };
        let on = step_waiting_on(&candidate, &queue(self.state, rollout));
        let subject = format!("node {}", candidate.node.name);
        let text = match (&on, step.phase) {
            (WaitingOn::StepFailed { reason, .. }, _) => {
                let phase = step.failure.as_ref().map_or(step.phase, |failure| failure.phase);
                format!("its step to {} failed while {phase}: {reason}", rollout.target)
            }
            (WaitingOn::Ended, phase) => format!("its step in {} has {phase}", rollout.id),
            (_, phase) => format!("its step to {} is {phase} and waits on {on}", rollout.target),
        };
        self.link(depth, subject, on.name(), text, step.phase_since, released_by(&on, rollout));
    }

    fn node(&mut self, node: &Node, depth: u32) {
        let subject = format!("node {}", node.name);
        match &node.presence {
            Presence::Present(session) => {
                let text = format!("it is connected to peer {}", session.host);
                self.link(depth, subject, "present", text, session.opened_at, "nothing has to".to_owned());
            }
            Presence::Away { since } | Presence::Departed { since } => {
                let reason = if node.is_departed() { "departed" } else { "away" };
                let by = format!("its agent's return; `rollcall node remove {}` if it never will", node.name);
                self.link(depth, subject, reason, "its agent isn't connected".to_owned(), *since, by);
            }
        }
        let groups: Vec<GroupName> = node.services.keys().cloned().collect();
        for group in groups {
            self.health_of(node, &group, depth + 1);
            let Some(rollout) = self.state.latest_rollout(&group) else { continue };
            match rollout.steps.get(&node.id) {
                Some(step) => {
                    self.step(rollout, step, depth + 1);
                    if step.phase == Phase::Queued || step.phase == Phase::Failed {
                        self.rollout(rollout, depth + 2);
                    }
                }
                None if rollout.unchanged.contains_key(&node.id) => {
                    let text = format!("it runs {} already, so it has no step in {}", rollout.target, rollout.id);
                    let subject = format!("node {}", node.name);
                    self.link(depth + 1, subject, "unchanged", text, rollout.started_at, "a new release".to_owned());
                }
                None => {
                    let text = format!("it has no step in {}, the group's latest rollout", rollout.id);
                    let subject = format!("node {}", node.name);
                    self.link(depth + 1, subject, "no_step", text, rollout.started_at, "a new rollout".to_owned());
                    self.rollout(rollout, depth + 2);
                }
            }
        }
    }

    fn health_of(&mut self, node: &Node, group: &GroupName, depth: u32) {
        let Some(service) = node.services.get(group) else { return };
        if node.session().is_none() && service.release.is_some() {
            let text = format!("its agent isn't connected, so nobody knows how {group} is; it was {}", service.health);
            let since = match node.presence {
                Presence::Away { since } | Presence::Departed { since } => since,
                Presence::Present(session) => session.opened_at,
            };
            let by = format!("its agent's return; `rollcall node remove {}` if it never will", node.name);
            return self.link(depth, format!("node {}", node.name), "away", text, since, by);
        }
        let mut text = format!("{group} is {}", service.health);
        if !service.health_detail.is_empty() {
            text.push_str(": ");
            text.push_str(&service.health_detail);
        }
        let by = match service.health {
            crate::Health::Healthy => "nothing has to".to_owned(),
            crate::Health::Unprovisioned => "its first rollout".to_owned(),
            crate::Health::Warning | crate::Health::Critical => "its health check's success".to_owned(),
            crate::Health::Unknown => "word from its agent".to_owned(),
        };
        let reason: &'static str = match service.health {
            crate::Health::Healthy => "healthy",
            crate::Health::Warning => "warning",
            crate::Health::Critical => "critical",
            crate::Health::Unknown => "unknown",
            crate::Health::Unprovisioned => "unprovisioned",
        };
        self.link(depth, format!("node {}", node.name), reason, text, service.health_since, by);
    }
}
