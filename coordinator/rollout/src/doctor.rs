//! The doctor: looks at the whole state for what keeps the cluster from doing its work, and says what to do.
//!
//! Where [`explain()`](crate::explain()) follows one subject down to its causes, this goes over everything once and names
//! only what somebody should look at. It is asked for by a person, so it may count.
//!
//! # Deliberately absent
//! Peers, disks, clocks: the server knows those, and adds what it finds.

mod peers;

use std::collections::{BTreeMap, BTreeSet};

use rollcall_ident::{Millis, NodeId};

use crate::explain::removal;
use crate::gate::member_count;
use crate::schedule::openness;
use crate::state::{Group, Node, PauseCause, Phase, Presence, Rollout, RolloutStatus, Token};
use crate::{AlarmKey, Closed, Order, Policy, Stamp, State, Subject, WaitingOn, check, explain};

/// BOUND: findings of one check; nobody reads more, and the last one says how many there are besides.
const MAX_OF_ONE_CHECK: usize = 20;

/// BOUND: names in one finding.
const MAX_NAMED: usize = 5;

/// For how long a person's word may be missing before that is a finding.
const PATIENCE_WITH_PEOPLE: Millis = Millis::from_secs(3600);

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, strum::Display)]
#[strum(serialize_all = "snake_case")]
pub enum Severity {
    /// Something doesn't work, and won't by itself.
    Error,
    /// It works, and somebody should know.
    Warning,
}

/// What somebody should look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The check's name, in snake_case.
    pub check: &'static str,
    /// `group redis.default`, `node redis-1`, `rollout r42`, `state`.
    pub subject: String,
    /// What is so.
    pub text: String,
    /// What to do; a command where there is one.
    pub advice: String,
}

/// Looks for one thing.
type Check = fn(&Ward<'_>, &mut Findings);

/// Each check under its name, in the order in which their findings are told.
const CHECKS: [(&str, Check); 20] = [
    ("state_unsound", state_unsound),
    ("stuck_token", stuck_token),
    ("rollout_paused", rollout_paused),
    ("target_quarantined", target_quarantined),
    ("release_not_fetched", release_not_fetched),
    ("budget_used_by_departed", budget_used_by_departed),
    ("member_unhealthy", member_unhealthy),
    ("every_member_held", every_member_held),
    ("order_does_not_fit", order_does_not_fit),
    ("window_never_opens", window_never_opens),
    ("endless_freeze", endless_freeze),
    ("word_pending", word_pending),
    ("stopped_half_way", stopped_half_way),
    ("group_without_members", group_without_members),
    ("node_departed", node_departed),
    ("node_held", node_held),
    ("health_overridden", health_overridden),
    ("agent_versions", agent_versions),
    ("hosts_no_peer", peers::hosts_no_peer),
    ("peers_share_a_machine", peers::peers_share_a_machine),
];

/// How many checks [`diagnose`] makes.
pub const STATE_CHECKS: usize = CHECKS.len();

/// Everything in `state` that somebody should look at, the worst first. `now` is the present: an idle cluster writes
/// nothing, so the state's own time may be long past.
#[must_use]
pub fn diagnose(state: &State, now: Stamp) -> Vec<Finding> {
    let ward = Ward { state, now };
    let mut found = Vec::new();
    for (check, examine) in CHECKS {
        let mut findings = Findings { check, found: Vec::new(), more: 0 };
        examine(&ward, &mut findings);
        found.extend(findings.summed_up());
    }
    found.sort_by_key(|finding| finding.severity);
    found
}

/// What is examined, and when.
struct Ward<'a> {
    state: &'a State,
    now: Stamp,
}

impl<'a> Ward<'a> {
    fn since(&self, at: Stamp) -> Millis {
        self.now.cluster_time.since(at.cluster_time)
    }

    /// The same for people: nobody reads milliseconds behind seconds.
    fn lasts(&self, since: Stamp) -> Millis {
        whole_seconds(self.since(since))
    }

    fn groups(&self) -> impl Iterator<Item = (&'a Group, Option<&'a Rollout>)> {
        let state = self.state;
        state.groups.values().map(move |group| (group, state.active_rollout(&group.name)))
    }

    fn active_rollouts(&self) -> impl Iterator<Item = &'a Rollout> {
        self.groups().filter_map(|(_, rollout)| rollout)
    }
}

fn whole_seconds(lasts: Millis) -> Millis {
    if lasts < Millis::from_secs(1) { lasts } else { Millis(lasts.0 - lasts.0 % 1000) }
}

/// What one check finds.
struct Findings {
    check: &'static str,
    found: Vec<Finding>,
    more: usize,
}

impl Findings {
    fn tell(&mut self, severity: Severity, subject: String, text: String, advice: String) {
        if self.found.len() == MAX_OF_ONE_CHECK {
            self.more += 1;
        } else {
            self.found.push(Finding { severity, check: self.check, subject, text, advice });
        }
    }

    fn summed_up(mut self) -> Vec<Finding> {
        if let Some(last) = self.found.last_mut().filter(|_| self.more > 0) {
            last.text.push_str(&format!("; and {} more like this", self.more));
        }
        self.found
    }
}

fn of_group(group: &Group) -> String {
    format!("group {}", group.name)
}

fn of_node(node: &Node) -> String {
    format!("node {}", node.name)
}

/// Worse where a rollout waits for it.
fn where_it_hinders(rollout: Option<&Rollout>) -> Severity {
    if rollout.is_some() { Severity::Error } else { Severity::Warning }
}

/// The first of many names; none of none.
fn few<'a>(names: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let names: Vec<&str> = names.into_iter().collect();
    let (named, more) = names.split_at(names.len().min(MAX_NAMED));
    match (named, more.len()) {
        ([], _) => None,
        (named, 0) => Some(named.join(", ")),
        (named, more) => Some(format!("{} and {more} more", named.join(", "))),
    }
}

fn because(reason: Option<&str>) -> String {
    reason.map_or_else(String::new, |reason| format!(": {reason}"))
}

fn state_unsound(ward: &Ward<'_>, found: &mut Findings) {
    for violation in check(ward.state) {
        let advice = "this is a defect of Rollcall, and no restart mends it: pause the rollouts, keep the folder of one \
                      peer, and report it";
        found.tell(Severity::Error, "state".to_owned(), violation.to_string(), advice.to_owned());
    }
}

fn stuck_token(ward: &Ward<'_>, found: &mut Findings) {
    for (id, token) in ward.state.tokens.iter() {
        let (Some(node), Some(group)) = (ward.state.nodes.get(id), ward.state.groups.get(&token.group)) else {
            continue;
        };
        let Some(text) = stuck(ward, *id, node, token, &group.policy) else { continue };
        let (name, rollout) = (&node.name, token.rollout);
        let advice = format!(
            "look at the machine; if it won't come back: `rollcall rollout skip {rollout} --node {name}`, or `rollcall \
             token revoke {name} --force` with open eyes"
        );
        found.tell(Severity::Error, of_node(node), text, advice);
    }
}

/// Why a holder doesn't get on: away for longer than it may be, or in a phase for twice as long as that may take.
fn stuck(ward: &Ward<'_>, id: NodeId, node: &Node, token: &Token, policy: &Policy) -> Option<String> {
    if let Presence::Away { since } | Presence::Departed { since } = node.presence {
        let away = ward.since(since);
        return (away > policy.reboot_timeout).then(|| {
            let (limit, away) = (policy.reboot_timeout, whole_seconds(away));
            format!(
                "holds the token of {} with fence {} and has been away for {away}; reboot_timeout is {limit}",
                token.group, token.fence
            )
        });
    }
    let step = ward.state.rollouts.get(&token.rollout)?.steps.get(&id)?;
    let (limit, name) = match step.phase {
        Phase::Preparing => (policy.ready_timeout, "ready_timeout"),
        Phase::Draining => (policy.drain_timeout, "drain_timeout"),
        Phase::Rebooting => (policy.reboot_timeout, "reboot_timeout"),
        Phase::Verifying => (policy.healthy_deadline, "healthy_deadline"),
        _ => (policy.progress_deadline, "progress_deadline"),
    };
    let lasts = ward.since(step.phase_since);
    (lasts.0 > limit.0.saturating_mul(2)).then(|| {
        format!("has been {} under fence {} for {}; {name} is {limit}", step.phase, token.fence, whole_seconds(lasts))
    })
}

fn rollout_paused(ward: &Ward<'_>, found: &mut Findings) {
    for rollout in ward.active_rollouts().filter(|rollout| rollout.status == RolloutStatus::Paused) {
        let ends_by_itself = ward.state.alarms.get(&AlarmKey::ResumeRollout(rollout.id)).is_some();
        let by_operator = rollout.pause_causes.iter().all(|cause| *cause == PauseCause::Operator);
        if by_operator && ends_by_itself {
            continue;
        }
        let severity = if by_operator { Severity::Warning } else { Severity::Error };
        let chain = explain(ward.state, &Subject::Rollout(rollout.id)).unwrap_or_default();
        let Some(link) = chain.into_iter().next() else { continue };
        let text = format!("{} of {}, for {}", link.text, rollout.group, ward.lasts(link.since));
        found.tell(severity, format!("rollout {}", rollout.id), text, link.released_by);
    }
}

fn target_quarantined(ward: &Ward<'_>, found: &mut Findings) {
    for (group, rollout) in ward.groups() {
        let goes_there = rollout.is_some_and(|rollout| rollout.going_back.is_none());
        let catches_up = rollout.is_none() && group.settled && !group.astray.is_empty();
        let Some(target) = group.target.as_ref().filter(|_| goes_there || catches_up) else { continue };
        let Some(quarantine) = ward.state.quarantined(target) else { continue };
        let text = format!("its target {target} is in quarantine: {}; no step to it begins", quarantine.reason);
        let advice = match rollout {
            Some(rollout) => format!("`rollcall rollout abort {}`, or start a rollout to a good release", rollout.id),
            None => format!("start a rollout to a good release, or `rollcall quarantine remove {target}`"),
        };
        found.tell(where_it_hinders(rollout), of_group(group), text, advice);
    }
}

fn release_not_fetched(ward: &Ward<'_>, found: &mut Findings) {
    for rollout in ward.active_rollouts() {
        let Some(waiting) = &rollout.waiting else { continue };
        if !matches!(waiting.on, WaitingOn::PrefetchFailed { .. }) {
            continue;
        }
        let text = format!("{}, for {}", waiting.on, ward.lasts(waiting.since));
        let advice = "put the release, whole and with its digest, into the source of these nodes; they try again by \
                      themselves";
        found.tell(Severity::Error, format!("rollout {}", rollout.id), text, advice.to_owned());
    }
}

fn budget_used_by_departed(ward: &Ward<'_>, found: &mut Findings) {
    for (group, rollout) in ward.groups() {
        let unavailable = group.unavailable.keys().filter_map(|id| ward.state.nodes.get(id));
        let departed: Vec<&Node> = unavailable.filter(|node| node.is_departed()).collect();
        let budget = group.policy.max_unavailable.of(member_count(group));
        let is_used_up = departed.len() >= budget as usize;
        let (true, Some(first), Some(names)) =
            (is_used_up, departed.first(), few(departed.iter().map(|node| node.name.as_str())))
        else {
            continue;
        };
        let text =
            format!("max_unavailable is {budget}, and departed members use it up: {names}; nobody else may go down");
        let advice = format!("bring them back; where one never will: {}", removal(ward.state, first));
        found.tell(where_it_hinders(rollout), of_group(group), text, advice);
    }
}

/// Connected members whose service is unwell without being moved just now. Those that aren't connected are told of
/// once they have departed.
fn member_unhealthy(ward: &Ward<'_>, found: &mut Findings) {
    for (group, rollout) in ward.groups() {
        let waits = rollout.filter(|rollout| {
            let on = rollout.waiting.as_ref().map(|waiting| &waiting.on);
            matches!(on, Some(WaitingOn::BudgetExhausted { .. }))
                || rollout.pause_causes.contains(&PauseCause::MemberUnhealthy)
        });
        let is_moved = |node: &Node| ward.state.tokens.get(&node.id).is_some_and(|token| token.group == group.name);
        let is_paused = |rollout: &&Rollout| rollout.status == RolloutStatus::Paused;
        // What its failed step asks for stands with the pause.
        let is_told = |node: &Node| rollout.filter(is_paused).is_some_and(|it| it.failed.contains_key(&node.id));
        for node in group.unavailable.keys().filter_map(|id| ward.state.nodes.get(id)) {
            if is_moved(node) || is_told(node) || !node.is_broken(&group.name, group.policy.on_warning) {
                continue;
            }
            let Some(service) = node.services.get(&group.name) else { continue };
            let (name, health, lasts) = (&node.name, node.health_of(service), ward.lasts(service.health_since));
            let detail = because(Some(service.health_detail.as_str()).filter(|detail| !detail.is_empty()));
            let hinders = waits.map_or_else(String::new, |rollout| format!("; {} waits for it", rollout.id));
            let text = format!("{} is {health} for {lasts}{detail}{hinders}", group.name);
            let advice = match node.health_override {
                Some(_) => format!("`rollcall node set-health {name} auto` lets its checks count again"),
                None => format!(
                    "mend it on its machine; if its check is wrong: `rollcall node set-health {name} healthy --reason WHY`"
                ),
            };
            found.tell(where_it_hinders(waits), of_node(node), text, advice);
        }
    }
}

fn every_member_held(ward: &Ward<'_>, found: &mut Findings) {
    for (group, rollout) in ward.groups() {
        let mut members = ward.state.members(group).map(|(node, _)| node).peekable();
        let Some(first) = members.peek().map(|node| node.name.clone()) else { continue };
        if members.all(|node| node.hold.is_some()) {
            let advice = format!("`rollcall node release {first}`, and the others");
            found.tell(where_it_hinders(rollout), of_group(group), "every member of it is held".to_owned(), advice);
        }
    }
}

fn order_does_not_fit(ward: &Ward<'_>, found: &mut Findings) {
    for (group, _) in ward.groups().filter(|(group, _)| !group.members.is_empty()) {
        let members: Vec<&Node> = ward.state.members(group).map(|(node, _)| node).collect();
        let problem = match &group.policy.order {
            Order::Name | Order::Priority => None,
            Order::Inventory => misfit_of_inventory(&group.policy.inventory, &members),
            Order::Label(key) => misfit_of_label(key, &members),
        };
        let Some(problem) = problem else { continue };
        let order = group.policy.order.to_string();
        let text = format!("order = {order:?} doesn't fit its members: {problem}; a rollout is refused");
        let advice =
            "change the group file and `rollcall group apply -f FILE`, or the agents' configuration".to_owned();
        found.tell(Severity::Error, of_group(group), text, advice);
    }
}

fn misfit_of_inventory(inventory: &[String], members: &[&Node]) -> Option<String> {
    let listed: BTreeSet<&str> = inventory.iter().map(String::as_str).collect();
    let present: BTreeSet<&str> = members.iter().map(|node| node.name.as_str()).collect();
    let missing = few(present.difference(&listed).copied());
    let unknown = few(listed.difference(&present).copied());
    match (missing, unknown) {
        (None, None) => None,
        (Some(missing), None) => Some(format!("the inventory doesn't name {missing}")),
        (None, Some(unknown)) => Some(format!("the inventory names {unknown} in vain")),
        (Some(missing), Some(unknown)) => {
            Some(format!("the inventory doesn't name {missing}, and names {unknown} in vain"))
        }
    }
}

fn misfit_of_label(key: &str, members: &[&Node]) -> Option<String> {
    let without = members.iter().filter(|node| !node.labels.contains_key(key)).map(|node| node.name.as_str());
    few(without).map(|without| format!("{without} have no label {key:?}"))
}

fn window_never_opens(ward: &Ward<'_>, found: &mut Findings) {
    for (group, rollout) in ward.groups().filter(|(group, _)| !group.windows.is_empty()) {
        let by_windows = openness(group.windows.values(), [], ward.now.wall_time);
        if by_windows.closed == Some(Closed::OutsideWindow { opens_at: None }) {
            let advice =
                format!("`rollcall window list {0}`, and `rollcall window remove {0} ID` what is wrong", group.name);
            let text = "none of its windows opens within the next week".to_owned();
            found.tell(where_it_hinders(rollout), of_group(group), text, advice);
        }
    }
}

fn endless_freeze(ward: &Ward<'_>, found: &mut Findings) {
    for freeze in ward.state.freezes.values() {
        if freeze.until.is_some() || freeze.from > ward.now.wall_time {
            continue;
        }
        let groups: Vec<String> = freeze.groups.iter().map(ToString::to_string).collect();
        let whom = if groups.is_empty() { "every group".to_owned() } else { groups.join(", ") };
        let text = format!("{} froze {whom} without an end{}", freeze.by.0, because(freeze.reason.as_deref()));
        let advice = format!("`rollcall freeze lift {}` once it has served its purpose", freeze.id);
        found.tell(Severity::Warning, format!("freeze {}", freeze.id), text, advice);
    }
}

fn word_pending(ward: &Ward<'_>, found: &mut Findings) {
    for rollout in ward.active_rollouts() {
        let Some(waiting) = &rollout.waiting else { continue };
        let is_ours = matches!(waiting.on, WaitingOn::Approval | WaitingOn::Promotion { .. } | WaitingOn::Next);
        let lasts = ward.since(waiting.since);
        if is_ours && lasts > PATIENCE_WITH_PEOPLE {
            let chain = explain(ward.state, &Subject::Rollout(rollout.id)).unwrap_or_default();
            let advice = chain.into_iter().next().map_or_else(String::new, |link| link.released_by);
            let text = format!("{} waits on {}, for {}", rollout.group, waiting.on, whole_seconds(lasts));
            found.tell(Severity::Warning, format!("rollout {}", rollout.id), text, advice);
        }
    }
}

/// Its last rollout ended on the way: some members run its target, and nothing moves by itself.
fn stopped_half_way(ward: &Ward<'_>, findings: &mut Findings) {
    let half_way =
        ward.groups().filter(|(group, rollout)| rollout.is_none() && !group.settled && !group.astray.is_empty());
    for (group, target) in half_way.filter_map(|(group, _)| Some((group, group.target.as_ref()?))) {
        let (astray, all) = (group.astray.len(), group.members.len());
        let text = format!(
            "its last rollout, to {target}, ended before {astray} of {all} members ran it; nothing moves by itself"
        );
        let advice =
            format!("`rollcall rollout undo {name}`, or `rollcall rollout start {name} --to IDENT`", name = group.name);
        findings.tell(Severity::Warning, of_group(group), text, advice);
    }
}

fn group_without_members(ward: &Ward<'_>, found: &mut Findings) {
    for (group, rollout) in ward.groups().filter(|(group, _)| group.members.is_empty()) {
        let advice = format!(
            "start an agent with `group = \"{0}\"` in its configuration, or `rollcall group delete {0}`",
            group.name
        );
        found.tell(where_it_hinders(rollout), of_group(group), "no node declares it".to_owned(), advice);
    }
}

fn node_departed(ward: &Ward<'_>, found: &mut Findings) {
    for node in ward.state.nodes.values() {
        let Presence::Departed { since } = node.presence else { continue };
        let text = format!("departed: not heard of for {}", ward.lasts(since));
        let advice = format!("start its agent, or {} if the machine is gone for good", removal(ward.state, node));
        found.tell(Severity::Warning, of_node(node), text, advice);
    }
}

fn node_held(ward: &Ward<'_>, found: &mut Findings) {
    for node in ward.state.nodes.values() {
        let Some(hold) = node.hold.as_ref().filter(|hold| hold.until.is_none()) else { continue };
        let (by, lasts) = (&hold.by.0, ward.lasts(hold.at));
        let text = format!("{by} has held it for {lasts}, without an end{}", because(hold.reason.as_deref()));
        let advice = format!("`rollcall node release {}`; until then it isn't updated and uses the budget", node.name);
        found.tell(Severity::Warning, of_node(node), text, advice);
    }
}

fn health_overridden(ward: &Ward<'_>, found: &mut Findings) {
    for node in ward.state.nodes.values() {
        let Some(word) = &node.health_override else { continue };
        let what = if word.is_healthy { "healthy" } else { "unhealthy" };
        let (by, lasts) = (&word.by.0, ward.lasts(word.at));
        let text = format!("counts as {what} by the word of {by} for {lasts}{}", because(word.reason.as_deref()));
        let advice = format!("`rollcall node set-health {} auto` lets its checks count again", node.name);
        found.tell(Severity::Warning, of_node(node), text, advice);
    }
}

fn agent_versions(ward: &Ward<'_>, found: &mut Findings) {
    let mut versions = BTreeMap::<&str, usize>::new();
    for node in ward.state.nodes.values().filter(|node| node.session().is_some()) {
        *versions.entry(&node.agent_version).or_default() += 1;
    }
    if versions.len() > 1 {
        let counted: Vec<String> = versions.iter().map(|(version, count)| format!("{version} on {count}")).collect();
        let text = format!("agents of different versions are connected: {}", counted.join(", "));
        let advice = "finish the update of the agents; `rollcall node list -o json` shows who runs what".to_owned();
        found.tell(Severity::Warning, "agents".to_owned(), text, advice);
    }
}

#[cfg(test)]
mod test;
