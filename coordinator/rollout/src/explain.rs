//! Why something doesn't move: the reasons of the very checks that hold it, from the subject down to the causes.

use rollcall_ident::{GroupName, NodeId, RolloutId};

use crate::gate::{self, Candidate};
use crate::schedule::in_words;
use crate::state::{AlarmKey, Node, PauseCause, Phase, Presence, Rollout, RolloutStatus, Step};
use crate::{Group, NameList, Stamp, State, WaitingOn};

/// BOUND: steps and members that are told of, of each kind; nobody reads more.
const MAX_STEPS: usize = 8;

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
    if let Err(on) = gate::rollout_moves(state, rollout)
        && (rollout.in_flight.is_empty() || !rollout.status.is_moving())
    {
        return on;
    }
    let in_flight = rollout.in_flight.first().and_then(|(_, node)| Candidate::new(state, rollout, *node));
    let first = || Candidate::first(state, rollout);
    in_flight.or_else(first).map_or(WaitingOn::Nothing, |candidate| step_waiting_on(&candidate))
}

/// Why one step doesn't move now.
pub(crate) fn step_waiting_on(candidate: &Candidate<'_>) -> WaitingOn {
    let (step, node) = (candidate.step, candidate.node.name.clone());
    match step.phase {
        Phase::Queued => gate::may_be_granted(candidate).err().unwrap_or(WaitingOn::Nothing),
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
    let (mut begun, rest): (Vec<&Step>, Vec<&Step>) =
        rollout.steps.values().filter(|step| step.rank.is_none()).partition(|step| step.fence.is_some());
    begun.sort_by_key(|step| step.fence);
    let queued = rollout.queue.values().filter_map(|node| rollout.steps.get(node));
    let waits = |step: &Step| {
        Candidate::with_step(state, rollout, step).map_or(WaitingOn::Ended, |candidate| step_waiting_on(&candidate))
    };
    begun.into_iter().chain(queued).chain(rest).map(|step| (step, waits(step))).collect()
}

/// Members that were updated by a rollout, and aren't healthy any more.
#[must_use]
pub(crate) fn bad_members(state: &State, id: RolloutId) -> Vec<NodeId> {
    let Some(rollout) = state.rollouts.get(&id) else { return Vec::new() };
    let Some(group) = state.groups.get(&rollout.group) else { return Vec::new() };
    let is_bad = |node: &NodeId| {
        rollout.steps.get(node).is_some_and(|step| step.phase == Phase::Succeeded)
            && state.nodes.get(node).is_some_and(|node| node.is_broken(&group.name, group.policy.on_warning))
    };
    group.unavailable.keys().copied().filter(is_bad).collect()
}

/// How a node that never comes back is taken out: in the middle of its step only by force.
pub(crate) fn removal(state: &State, node: &Node) -> String {
    let token = state.tokens.get(&node.id);
    let step = token.and_then(|token| state.rollouts.get(&token.rollout)?.steps.get(&node.id));
    let force = if step.is_some_and(|step| step.phase.is_past_b()) { " --force" } else { "" };
    format!("`rollcall node remove {}{force}`", node.name)
}

/// Who keeps a rollout paused by being away: its steps under way, and the first in the queue.
fn away_members(state: &State, rollout: &Rollout) -> Vec<NodeId> {
    let first = Candidate::first(state, rollout).map(|first| first.node.id);
    let away = |node: &NodeId| state.nodes.get(node).is_some_and(|node| node.session().is_none());
    rollout.in_flight.values().copied().chain(first).filter(away).collect()
}

/// What would release a reason.
fn released_by(state: &State, on: &WaitingOn, rollout: &Rollout) -> String {
    let id = rollout.id;
    // Where nodes can't go back, nobody is told to try.
    let abort = if rollout.is_one_way { String::new() } else { format!(" or `rollcall rollout abort {id}`,") };
    match on {
        WaitingOn::Paused { causes } => causes.first().map_or_else(
            || format!("`rollcall rollout resume {id}`"),
            |cause| match cause {
                PauseCause::StepFailed | PauseCause::FailureRatio => format!(
                    "`rollcall rollout retry {id}`,{abort} or a rollout to a good release, or `rollcall rollout stop {id}`"
                ),
                PauseCause::RollbackFailed => {
                    format!("`rollcall rollout retry {id}`, or a rollout to a good release, or `rollcall rollout stop {id}`")
                }
                PauseCause::MemberUnhealthy if bad_members(state, id).is_empty() => {
                    format!("`rollcall rollout resume {id}`: its members are healthy again")
                }
                PauseCause::MemberUnhealthy => format!(
                    "these members' health and `rollcall rollout resume {id}`,{abort} or a rollout to a good release"
                ),
                PauseCause::NodeAway => match away_members(state, rollout).first().and_then(|node| state.nodes.get(node)) {
                    Some(node) => format!(
                        "the return of {0} and `rollcall rollout resume {id}`; if it never will: `rollcall rollout skip {id} --node {0}`, or {1} and the resume",
                        node.name,
                        removal(state, node)
                    ),
                    None => format!("`rollcall rollout resume {id}`: nobody is away any more"),
                },
                PauseCause::Operator | PauseCause::ProgressDeadline => format!("`rollcall rollout resume {id}`"),
            },
        ),
        WaitingOn::Approval => format!("`rollcall rollout approve {id}` by somebody else than {}", rollout.started_by.0),
        WaitingOn::Promotion { .. } => format!("`rollcall rollout promote {id}`, or `rollcall rollout abort {id}`"),
        WaitingOn::Next => format!("`rollcall rollout next {id}`"),
        WaitingOn::Delay => "the end of the delay".to_owned(),
        WaitingOn::BatchRuns { .. } => "the success of all its steps".to_owned(),
        WaitingOn::OutsideWindow { .. } => "its opening; `rollcall window list` shows the windows".to_owned(),
        WaitingOn::Frozen { freeze, until: None, .. } => format!("`rollcall freeze lift {freeze}`"),
        WaitingOn::Frozen { freeze, .. } => format!("its end, or `rollcall freeze lift {freeze}`"),
        WaitingOn::Quarantined { release } => format!("`rollcall quarantine remove {release}`, or `rollcall rollout abort {id}`"),
        WaitingOn::NodeHeld { node, .. } => format!("`rollcall node release {node}`, or `rollcall rollout skip {id} --node {node}`"),
        WaitingOn::Ended => "a new rollout".to_owned(),
        WaitingOn::Prefetching { .. } => "the end of the download".to_owned(),
        WaitingOn::PrefetchFailed { .. } => {
            "the release in the nodes' source, whole and with its digest; they try again by themselves".to_owned()
        }
        WaitingOn::BudgetExhausted { .. } => "these members' health; it goes on by itself then".to_owned(),
        WaitingOn::StepRuns { node, phase: Phase::Preparing } => format!(
            "its `ready-to-update` hook's yes; ready_timeout ends the wait, `rollcall rollout skip {id} --node {node}` too"
        ),
        WaitingOn::StepRuns { node, phase: Phase::Draining } => format!(
            "the end of its `drain` hook; drain_timeout ends the wait, `rollcall rollout skip {id} --node {node}` too"
        ),
        WaitingOn::StepsInFlight { .. } | WaitingOn::StepRuns { .. } | WaitingOn::TurningBack { .. } => {
            "the step's next phase".to_owned()
        }
        WaitingOn::OrderTurn { .. } | WaitingOn::PrimaryLast { .. } => "their success".to_owned(),
        WaitingOn::QuorumGuard { voters: 0, .. } => "a leader; `rollcall cluster status` shows whether there is one".to_owned(),
        WaitingOn::QuorumGuard { missing, .. } if missing.is_empty() => {
            "peers on more machines; `rollcall cluster status` shows them".to_owned()
        }
        WaitingOn::QuorumGuard { .. } => "these peers' return; `rollcall cluster status` shows them".to_owned(),
        WaitingOn::LeaderMoves { .. } => "the hand-over, by itself; `rollcall cluster transfer-leader` does it too".to_owned(),
        WaitingOn::NodeAway { node, .. } => {
            let remove = state.node_named(node).map_or_else(String::new, |node| format!(", or {}", removal(state, node)));
            format!("its agent's return; if it never will: `rollcall rollout skip {id} --node {node}`{remove}")
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
                let left_out: Vec<&NodeId> = group.left_out.keys().collect();
                let text = match self.names(&left_out) {
                    None => format!("it is where it should be: {target}"),
                    Some(names) => format!("it is where it should be: {target}, but for what was left out: {names}"),
                };
                let since = self.last_end(&group.name).unwrap_or(now);
                self.link(0, subject, "settled", text, since, "a new release".to_owned());
            }
            (Some(target), false) => {
                let last = self.state.latest_rollout(&group.name).and_then(|last| Some((last, last.ended.as_ref()?)));
                let how = last.map_or_else(
                    || "didn't reach its end".to_owned(),
                    |(_, ended)| format!("has ended: {}", ended.why),
                );
                let text = format!("its last rollout, to {target}, {how}; nothing moves by itself");
                let since = last.map_or(now, |(_, ended)| ended.at);
                let by = if self.has_reached_another(group) {
                    format!("{start}, or `rollcall rollout undo {}`", group.name)
                } else {
                    start
                };
                self.link(0, subject, "not_settled", text, since, by);
            }
        }
        let unhealthy: Vec<_> = group.unavailable.keys().filter_map(|id| self.state.nodes.get(id)).cloned().collect();
        for node in unhealthy {
            self.health_of(&node, &group.name, 1);
        }
    }

    /// None of none.
    fn names(&self, nodes: &[&NodeId]) -> Option<NameList> {
        let names: Vec<_> = nodes.iter().filter_map(|id| self.state.nodes.get(*id)).map(|node| &node.name).collect();
        (!names.is_empty()).then(|| NameList::of(names.iter().copied(), names.len()))
    }

    /// Whether `rollout undo` has somewhere to go.
    fn has_reached_another(&self, group: &Group) -> bool {
        self.state.rollouts.values().any(|rollout| {
            rollout.group == group.name
                && rollout.status == RolloutStatus::Succeeded
                && group.target.as_ref() != Some(&rollout.target)
        })
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
            self.link(depth, subject.clone(), on.name(), text, since, released_by(self.state, &on, rollout));
            if let Some(back) = &rollout.going_back {
                let text = format!("it goes back: {}", back.why);
                self.link(
                    depth + 1,
                    subject,
                    "going_back",
                    text,
                    back.at,
                    "the return of every updated member".to_owned(),
                );
            }
            self.pauser(rollout, depth + 1);
            self.causes(&on, rollout, depth + 1);
        }
        let failed = rollout.failed.keys().filter_map(|node| rollout.steps.get(node)).take(MAX_STEPS);
        let open: Vec<&Step> = failed.chain(rollout.steps_in_flight().take(MAX_STEPS)).collect();
        for step in open {
            self.step(rollout, step, depth + 1);
        }
    }

    /// The person who paused it.
    fn pauser(&mut self, rollout: &Rollout, depth: u32) {
        let Some(said) = &rollout.paused_by else { return };
        let mut text = format!("{} paused it", said.by.0);
        if let Some(reason) = &said.reason {
            text.push_str(": ");
            text.push_str(reason);
        }
        let by = match self.state.alarm(&AlarmKey::ResumeRollout(rollout.id)) {
            Some(until) => format!("{}, or `rollcall rollout resume {}`", in_words(until), rollout.id),
            None => format!("`rollcall rollout resume {}`", rollout.id),
        };
        self.link(depth, format!("rollout {}", rollout.id), "operator", text, said.at, by);
    }

    /// The health of the members that a reason names.
    fn causes(&mut self, on: &WaitingOn, rollout: &Rollout, depth: u32) {
        let named: Vec<NodeId> = match on {
            WaitingOn::Paused { causes } if causes.contains(&PauseCause::MemberUnhealthy) => {
                bad_members(self.state, rollout.id)
            }
            WaitingOn::Paused { causes } if causes.contains(&PauseCause::NodeAway) => away_members(self.state, rollout),
            WaitingOn::BudgetExhausted { .. } | WaitingOn::NodeAway { .. } => {
                on.nodes().iter().filter_map(|name| self.state.node_named(name)).map(|node| node.id).collect()
            }
            _ => return,
        };
        let nodes: Vec<Node> =
            named.iter().take(MAX_STEPS).filter_map(|id| self.state.nodes.get(id)).cloned().collect();
        for node in nodes {
            self.health_of(&node, &rollout.group, depth);
        }
    }

    fn step(&mut self, rollout: &Rollout, step: &Step, depth: u32) {
        let Some(candidate) = Candidate::new(self.state, rollout, step.node) else { return };
        let on = step_waiting_on(&candidate);
        let subject = format!("node {}", candidate.node.name);
        let text = match (&on, step.phase) {
            (WaitingOn::StepFailed { reason, .. }, _) => {
                let phase = step.failure.as_ref().map_or(step.phase, |failure| failure.phase);
                format!("its step to {} failed while {phase}: {reason}", rollout.target_of(step))
            }
            (WaitingOn::Ended, phase) => match step.skipped {
                Some(cause) => format!("it was left out of {}: {cause}", rollout.id),
                None => format!("its step in {} has {phase}", rollout.id),
            },
            (WaitingOn::StepRuns { .. }, phase) => format!("its step to {} is {phase}", rollout.target_of(step)),
            (_, phase) => format!("its step to {} is {phase} and waits on {on}", rollout.target_of(step)),
        };
        self.link(depth, subject, on.name(), text, step.phase_since, released_by(self.state, &on, rollout));
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
                let by = format!("its agent's return; {} if it never will", removal(self.state, node));
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

    fn hold_of(&mut self, node: &Node, depth: u32) {
        let Some(hold) = &node.hold else { return };
        let mut text = format!("{} holds it", hold.by.0);
        if let Some(reason) = &hold.reason {
            text.push_str(": ");
            text.push_str(reason);
        }
        let by = match hold.until {
            Some(until) => format!("{}, or `rollcall node release {}`", in_words(until), node.name),
            None => format!("`rollcall node release {}`", node.name),
        };
        self.link(depth, format!("node {}", node.name), "held", text, hold.at, by);
    }

    fn health_of(&mut self, node: &Node, group: &GroupName, depth: u32) {
        let Some(service) = node.services.get(group) else { return };
        self.hold_of(node, depth);
        if node.session().is_none() && service.release.is_some() {
            let text = format!("its agent isn't connected, so nobody knows how {group} is; it was {}", service.health);
            let since = match node.presence {
                Presence::Away { since } | Presence::Departed { since } => since,
                Presence::Present(session) => session.opened_at,
            };
            let by = format!("its agent's return; {} if it never will", removal(self.state, node));
            return self.link(depth, format!("node {}", node.name), "away", text, since, by);
        }
        let health = node.health_of(service);
        let mut text = format!("{group} is {health}");
        if !service.health_detail.is_empty() {
            text.push_str(": ");
            text.push_str(&service.health_detail);
        }
        if let Some(word) = &node.health_override {
            text.push_str(&format!("; {} said so, the checks say {}", word.by.0, service.health));
        }
        let by = match health {
            crate::Health::Healthy | crate::Health::Critical if node.health_override.is_some() => {
                format!("`rollcall node set-health {} auto`", node.name)
            }
            crate::Health::Healthy => "nothing has to".to_owned(),
            crate::Health::Unprovisioned => "its first rollout".to_owned(),
            crate::Health::Warning | crate::Health::Critical => "its health check's success".to_owned(),
            crate::Health::Unknown => "word from its agent".to_owned(),
        };
        let reason: &'static str = match health {
            crate::Health::Healthy => "healthy",
            crate::Health::Warning => "warning",
            crate::Health::Critical => "critical",
            crate::Health::Unknown => "unknown",
            crate::Health::Unprovisioned => "unprovisioned",
        };
        self.link(depth, format!("node {}", node.name), reason, text, service.health_since, by);
    }
}
