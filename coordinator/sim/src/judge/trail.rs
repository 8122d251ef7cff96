//! What the log says, record by record in its order: each grant and each commit point was lawful by what the log knew then, and a
//! step moved only by what its node has done under its fence.
//!
//! The members, rollouts and steps that are kept here are folded from the events alone, by rules of their own: none of the
//! product's gates is asked.

use std::collections::{BTreeMap, BTreeSet};

use rollcall_ident::{Fence, RolloutId};
use rollcall_rollout::{ChainedRecord, Event, HistoryRecord, PauseCause, Phase, RolloutStatus};

use super::Violation;
use super::trail_state::{Course, Member, Stage};
use super::witness::Witness;

/// What the policy of the group allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// So many steps at once.
    pub max_parallel: usize,
    /// So many members may be down at once.
    pub max_unavailable: usize,
    /// So long a new process must have been well.
    pub min_healthy_ms: u64,
}

/// What was read of the trail so far.
pub struct Trail {
    limits: Limits,
    /// The revision of the last record that was taken.
    last: u64,
    /// Records whose predecessor nobody has shown yet, by its revision.
    ahead: BTreeMap<u64, ChainedRecord>,
    members: BTreeMap<String, Member>,
    courses: BTreeMap<RolloutId, Course>,
    /// Tokens that were given back since somebody asked.
    given_back: Vec<Fence>,
}

/// The record that is looked at.
struct Entry<'a> {
    record: &'a HistoryRecord,
    /// Who was let go on without the hook's word.
    forced: BTreeSet<&'a str>,
}

impl Entry<'_> {
    fn is_said(&self) -> bool {
        self.record.actor.0.starts_with("op-")
    }

    fn now_ms(&self) -> u64 {
        self.record.stamp.cluster_time.0
    }

    fn accuse(&self, rule: &str, what: impl std::fmt::Display) -> Violation {
        Violation::new(rule, format_args!("revision {}: {what}", self.record.revision))
    }
}

impl Trail {
    /// Of a group with this policy.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        let (members, courses) = (BTreeMap::new(), BTreeMap::new());
        Self { limits, last: 0, ahead: BTreeMap::new(), members, courses, given_back: Vec::new() }
    }

    /// Somebody shows a record. What is wrong with it, and with those that have waited for it.
    pub fn shown(&mut self, record: &ChainedRecord, witness: &Witness) -> Vec<Violation> {
        if record.record.revision.0 <= self.last {
            return Vec::new();
        }
        self.ahead.entry(record.previous.revision.0).or_insert_with(|| record.clone());
        let mut found = Vec::new();
        while let Some(next) = self.ahead.remove(&self.last) {
            self.last = next.record.revision.0;
            self.take(&next.record, witness, &mut found);
        }
        found
    }

    /// Tokens that were given back since this was asked last.
    pub fn take_given_back(&mut self) -> Vec<Fence> {
        std::mem::take(&mut self.given_back)
    }

    /// Records that nobody could be judged by: the one before them was never shown.
    #[must_use]
    pub fn missing(&self) -> usize {
        self.ahead.len()
    }

    fn take(&mut self, record: &HistoryRecord, witness: &Witness, found: &mut Vec<Violation>) {
        let forced = record.events.iter().filter_map(|event| match event {
            Event::StepForced { name, .. } => Some(name.as_str()),
            _ => None,
        });
        let entry = Entry { record, forced: forced.collect() };
        for event in &record.events {
            self.follow_members(&entry, event, found);
            self.follow_rollouts(&entry, event, found);
            self.follow_steps(&entry, event, witness, found);
        }
        found.extend(record.events.iter().filter_map(|event| self.unanswered(&entry, event)));
    }

    fn member(&mut self, name: &impl ToString) -> &mut Member {
        self.members.entry(name.to_string()).or_default()
    }

    fn follow_members(&mut self, entry: &Entry<'_>, event: &Event, found: &mut Vec<Violation>) {
        let now_ms = entry.now_ms();
        match event {
            Event::SessionOpened { name, epoch, .. } => {
                let member = self.member(name);
                if epoch.0 <= member.epoch {
                    let what = format!("a session of {name} has the epoch {epoch}, after {}", member.epoch);
                    found.push(entry.accuse("I-22", what));
                }
                member.epoch = epoch.0;
                member.is_present = true;
                member.look(now_ms);
            }
            Event::SessionClosed { name, .. } => {
                let member = self.member(name);
                member.is_present = false;
                member.look(now_ms);
            }
            Event::HealthChanged { name, to, .. } => {
                let member = self.member(name);
                member.is_healthy = *to == rollcall_rollout::Health::Healthy;
                member.look(now_ms);
            }
            Event::ReleaseChanged { name, to, .. } => self.member(name).release.clone_from(to),
            Event::NodeHeld { name, .. } => self.member(name).is_held = true,
            Event::NodeReleased { name, .. } => self.member(name).is_held = false,
            _ => {}
        }
    }

    fn follow_rollouts(&mut self, entry: &Entry<'_>, event: &Event, found: &mut Vec<Violation>) {
        match event {
            Event::RolloutStarted { rollout, target, .. } => {
                let target = Some(target.clone());
                self.courses.insert(*rollout, Course { target, ..Course::default() });
            }
            Event::RolloutPaused { rollout, cause, .. } => {
                self.courses.entry(*rollout).or_default().causes.insert(*cause);
            }
            Event::RolloutResumed { rollout, .. } => {
                self.courses.entry(*rollout).or_default().causes.clear();
                if !entry.is_said() {
                    let what = format!("{rollout} goes on, and {} is no operator", entry.record.actor.0);
                    found.push(entry.accuse("R8", what));
                }
            }
            Event::RollbackBegun { rollout, .. } => {
                let course = self.courses.entry(*rollout).or_default();
                course.goes_back = true;
                course.causes.retain(|cause| *cause == PauseCause::Operator);
            }
            Event::RolloutEnded { rollout, status, .. } => {
                let course = self.courses.entry(*rollout).or_default();
                if course.is_ended {
                    found.push(entry.accuse("R9", format_args!("{rollout} ends once more")));
                }
                course.is_ended = true;
                let left = course.stages.iter().find(|(_, stage)| stage.is_left_behind());
                if let Some((node, stage)) = left.filter(|_| *status == RolloutStatus::RolledBack) {
                    let what = format!("{rollout} is back, and {node}, which it had taken down, is {}", stage.phase);
                    found.push(entry.accuse("R10", what));
                }
            }
            _ => {}
        }
    }

    fn follow_steps(&mut self, entry: &Entry<'_>, event: &Event, witness: &Witness, found: &mut Vec<Violation>) {
        match event {
            Event::StepQueued { rollout, name, .. } => {
                let course = self.courses.entry(*rollout).or_default();
                let is_way_back = course.goes_back;
                let stage = course.stages.entry(name.to_string()).or_default();
                if stage.phase.holds_token() {
                    found.push(entry.accuse("R12", format_args!("{name} is queued while it is {}", stage.phase)));
                }
                (stage.phase, stage.is_way_back) = (Phase::Queued, is_way_back);
            }
            Event::TokenGranted { rollout, name, fence, .. } => {
                let name = name.to_string();
                found.extend(self.unlawful_grant(*rollout, &name, *fence).map(|(rule, what)| entry.accuse(rule, what)));
                let course = self.courses.entry(*rollout).or_default();
                let stage = course.stages.entry(name.clone()).or_default();
                stage.fence = *fence;
                if !stage.is_way_back {
                    stage.forward = *fence;
                }
                let member = self.member(&name);
                (member.token, member.highest_fence) = (Some(*fence), *fence);
            }
            Event::StepEntered { rollout, name, phase, .. } => {
                let name = name.to_string();
                found.extend(self.unlawful_move(entry, *rollout, &name, *phase, witness));
                let stage = self.courses.entry(*rollout).or_default().stages.entry(name).or_default();
                stage.enter(*phase, entry.now_ms());
            }
            Event::StepSoaked { rollout, name, .. } => {
                found.extend(self.unproved(entry, *rollout, &name.to_string()));
            }
            Event::TokenEnded { rollout, name, fence, .. } => {
                let left = self.stage(*rollout, name.as_str()).map(|stage| stage.left).unwrap_or_default();
                let member = self.member(name);
                member.token = None;
                let (is_present, fence) = (member.is_present, *fence);
                // By force, or by a deadline, a step fails or is left out; its node may not have heard.
                let phase = self.stage(*rollout, name.as_str()).map(|stage| stage.phase);
                if matches!(phase, Some(Phase::Queued | Phase::Succeeded)) {
                    self.given_back.push(fence);
                }
                if !is_present && !entry.is_said() && left.is_some_and(|left| left >= Phase::Draining) {
                    let what = format!("{name} is away, and nobody took its token {fence}; it has lost it");
                    found.push(entry.accuse("I-07", what));
                }
            }
            _ => {}
        }
    }

    fn stage(&self, rollout: RolloutId, node: &str) -> Option<&Stage> {
        self.courses.get(&rollout).and_then(|course| course.stages.get(node))
    }

    /// What is wrong with a grant.
    fn unlawful_grant(&self, id: RolloutId, node: &str, fence: Fence) -> Option<(&'static str, String)> {
        let fresh = Member::default();
        let member = self.members.get(node).unwrap_or(&fresh);
        let what = format!("{node} is granted a token of {id}");
        if fence <= member.highest_fence {
            return Some(("R2", format!("{what} with fence {fence}, after {}", member.highest_fence)));
        }
        if let Some(held) = member.token {
            return Some(("I-02", format!("{what}, and holds {held}")));
        }
        if member.is_held {
            return Some(("R8", format!("{what}, and an operator holds it")));
        }
        let course = self.courses.get(&id)?;
        if course.is_ended {
            return Some(("R9", format!("{what}, which has ended")));
        }
        let others = self.members.iter().filter(|(name, other)| *name != node && other.token.is_some());
        if others.clone().count() >= self.limits.max_parallel {
            let others: Vec<_> = others.map(|(name, _)| name).collect();
            return Some(("R4", format!("{what} while {others:?} hold theirs")));
        }
        if let Some(before) = course.turn_before(node, &self.members) {
            return Some(("R10", format!("{what} on the way back, before {before}, which was updated after it")));
        }
        if let Some(ahead) = course.turn_ahead(node, &self.members) {
            return Some(("R4", format!("{what}, and it is {ahead}'s turn")));
        }
        self.too_many_down(node, course).map(|(rule, why)| (rule, format!("{what}, {why}")))
    }

    /// What was true at the grant must be so at the commit points, too.
    fn too_many_down(&self, node: &str, course: &Course) -> Option<(&'static str, String)> {
        if !course.causes.is_empty() {
            return Some(("I-08", format!("which is paused by {:?}", course.causes)));
        }
        let member = self.members.get(node)?;
        if member.release.is_none() || member.is_broken() {
            return None;
        }
        let others = self.members.iter().filter(|(name, other)| *name != node && other.is_disrupted());
        let others: Vec<_> = others.map(|(name, _)| name).collect();
        (others.len() >= self.limits.max_unavailable).then(|| ("I-03", format!("and {others:?} may be down")))
    }

    /// What is wrong with a step's next phase.
    fn unlawful_move(
        &self,
        entry: &Entry<'_>,
        id: RolloutId,
        node: &str,
        phase: Phase,
        witness: &Witness,
    ) -> Option<Violation> {
        let fresh = Stage::default();
        let stage = self.stage(id, node).unwrap_or(&fresh);
        if !stage.may_become(phase) {
            return Some(entry.accuse("R12", format_args!("{id} {node}: {} becomes {phase}", stage.phase)));
        }
        let needed: &[&str] = match (stage.phase, phase) {
            (_, Phase::Preparing) => &["accepted", "prepared"],
            (_, Phase::Draining) => &["prepared"],
            (_, Phase::Stopping) => &["drained"],
            (Phase::Stopping, Phase::Installing) => &["stopped"],
            (_, Phase::Rebooting) => &["reboot_begun"],
            (_, Phase::Starting) => &["installed", "started"],
            (_, Phase::Verifying) => &["started"],
            (_, Phase::Succeeded) => &["finished"],
            _ => &[],
        };
        let is_done = needed.is_empty() || witness.has_told(node, stage.fence, needed);
        if !is_done && !entry.forced.contains(node) {
            let fence = stage.fence;
            return Some(
                entry.accuse("I-04", format_args!("{id} {node} is {phase} under {fence}; it has told nothing of that")),
            );
        }
        match phase {
            Phase::Draining | Phase::Stopping => {
                let course = self.courses.get(&id)?;
                let found = self.too_many_down(node, course);
                found.map(|(rule, why)| entry.accuse(rule, format_args!("{id} {node} is {phase}, {why}")))
            }
            Phase::Succeeded => self.unproved(entry, id, node),
            _ => None,
        }
    }

    /// A step is proved by a process that is well, and has been for long enough.
    fn unproved(&self, entry: &Entry<'_>, id: RolloutId, node: &str) -> Option<Violation> {
        let verifying_ms = self.stage(id, node).map_or(0, |stage| stage.since_ms);
        let well_ms = self.members.get(node).and_then(|member| member.well_since_ms);
        let since_ms = well_ms.map(|since| since.max(verifying_ms));
        let soaked_ms = since_ms.map(|since| entry.now_ms().saturating_sub(since));
        let is_proved = soaked_ms.is_some_and(|soaked| soaked >= self.limits.min_healthy_ms);
        (!is_proved).then(|| entry.accuse("I-05", format_args!("{id} {node} is proved, and well for {soaked_ms:?} ms")))
    }

    /// Whether nobody has heeded what failed.
    fn unanswered(&self, entry: &Entry<'_>, event: &Event) -> Option<Violation> {
        let (rollout, name, is_tried_again) = match event {
            Event::StepFailed { rollout, name, .. } => {
                let stage = self.stage(*rollout, name.as_str());
                (rollout, name, stage.is_some_and(|stage| stage.phase != Phase::Failed))
            }
            Event::MemberWentBad { rollout, name, .. } => (rollout, name, false),
            _ => return None,
        };
        let course = self.courses.get(rollout)?;
        let is_heeded = course.is_ended || course.goes_back || !course.causes.is_empty();
        (!is_heeded && !is_tried_again).then(|| {
            entry.accuse("R7", format_args!("{name} has failed, and {rollout} goes on as if nothing had happened"))
        })
    }
}

#[cfg(test)]
#[path = "trail_test.rs"]
mod tests;
