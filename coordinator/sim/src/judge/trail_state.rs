//! Members, rollouts and steps as the trail tells of them.

use std::collections::{BTreeMap, BTreeSet};

use rollcall_ident::{Fence, ReleaseIdent};
use rollcall_rollout::{PauseCause, Phase};

/// What the log says of a member.
#[derive(Debug, Clone, Default)]
pub(super) struct Member {
    /// Of its latest session.
    pub epoch: u64,
    pub is_present: bool,
    pub is_healthy: bool,
    pub is_held: bool,
    /// What it runs, or would; none: it never ran it.
    pub release: Option<ReleaseIdent>,
    pub token: Option<Fence>,
    pub highest_fence: Fence,
    /// Since when, in cluster time, it is present and healthy without a break.
    pub well_since_ms: Option<u64>,
}

impl Member {
    /// Something about it has changed.
    pub fn look(&mut self, now_ms: u64) {
        if !self.is_present || !self.is_healthy {
            self.well_since_ms = None;
        } else if self.well_since_ms.is_none() {
            self.well_since_ms = Some(now_ms);
        }
    }

    /// It is there, and says that it isn't well: it takes nothing more from the group.
    pub fn is_broken(&self) -> bool {
        self.is_present && self.release.is_some() && !self.is_healthy
    }

    /// It is down, or may be, or is about to be. Unknown is not absent, held is not free.
    pub fn is_disrupted(&self) -> bool {
        let is_well = self.is_present && self.is_healthy && !self.is_held;
        self.release.is_some() && (!is_well || self.token.is_some())
    }
}

/// What the log says of a rollout.
#[derive(Debug, Clone, Default)]
pub(super) struct Course {
    pub causes: BTreeSet<PauseCause>,
    pub is_ended: bool,
    pub goes_back: bool,
    pub target: Option<ReleaseIdent>,
    pub stages: BTreeMap<String, Stage>,
}

impl Course {
    /// Whose turn it is before this one's, by name: unless that one is held, or this one isn't well or is tried again.
    pub fn turn_ahead<'a>(&self, node: &str, members: &'a BTreeMap<String, Member>) -> Option<&'a str> {
        let is_tried_again = self.stages.get(node).is_some_and(|stage| stage.left == Some(Phase::Failed));
        let overtakes = members.get(node).is_none_or(|member| member.is_broken() || member.release.is_none());
        if self.goes_back || is_tried_again || overtakes {
            return None;
        }
        let is_ahead = |name: &str, member: &Member| {
            let is_queued = self.stages.get(name).is_none_or(|stage| stage.phase == Phase::Queued);
            let has_way_to_go = member.release.is_some() && member.release != self.target;
            name < node && is_queued && has_way_to_go && !member.is_held
        };
        members.iter().find(|(name, member)| is_ahead(name, member)).map(|(name, _)| name.as_str())
    }

    /// Who should be brought back before this one: the last that was updated goes first, but for who is held or broken.
    pub fn turn_before(&self, node: &str, members: &BTreeMap<String, Member>) -> Option<&str> {
        let own = self.stages.get(node).filter(|stage| stage.is_way_back)?;
        if members.get(node).is_some_and(|member| member.is_broken() || member.is_held) {
            return None;
        }
        let is_before = |name: &str, stage: &Stage| {
            let is_free = members.get(name).is_some_and(|member| !member.is_held && !member.is_broken());
            // One that was tried on its way back already has another fence since.
            let is_first_try = stage.fence == stage.forward && own.fence == own.forward;
            name != node
                && is_free
                && is_first_try
                && stage.is_way_back
                && stage.phase == Phase::Queued
                && stage.forward > own.forward
        };
        self.stages.iter().find(|(name, stage)| is_before(name, stage)).map(|(name, _)| name.as_str())
    }
}

/// What the log says of a step.
#[derive(Debug, Clone)]
pub(super) struct Stage {
    pub phase: Phase,
    /// The phase before.
    pub left: Option<Phase>,
    /// Since when, in cluster time.
    pub since_ms: u64,
    pub fence: Fence,
    /// The fence under which it went forward last.
    pub forward: Fence,
    pub is_way_back: bool,
    /// It was taken down, on the way forward.
    pub is_disturbed: bool,
}

impl Default for Stage {
    fn default() -> Self {
        let fence = Fence::default();
        let (left, is_way_back, is_disturbed) = (None, false, false);
        Self { phase: Phase::Queued, left, since_ms: 0, fence, forward: fence, is_way_back, is_disturbed }
    }
}

impl Stage {
    pub fn enter(&mut self, phase: Phase, now_ms: u64) {
        self.left = Some(std::mem::replace(&mut self.phase, phase));
        self.since_ms = now_ms;
        self.is_disturbed |= phase == Phase::Stopping && !self.is_way_back;
    }

    /// Its rollout has taken it down, and neither brought it back nor left it out on record.
    pub fn is_left_behind(&self) -> bool {
        let is_back = self.is_way_back && self.phase == Phase::Succeeded;
        self.is_disturbed && !is_back && self.phase != Phase::Skipped
    }

    /// The edges of the picture in `docs/state-machines.md`.
    pub fn may_become(&self, next: Phase) -> bool {
        use Phase::{
            Draining, Failed, Granted, Installing, Preparing, Queued, Rebooting, Skipped, Starting, Stopping,
            Succeeded, Verifying,
        };
        let forward: &[Phase] = match self.phase {
            Queued => &[Granted, Skipped],
            Granted => &[Preparing, Queued],
            Preparing => &[Draining, Queued],
            Draining => &[Stopping, Queued],
            Stopping => &[Installing, Rebooting],
            Installing => &[Starting, Rebooting],
            Rebooting => &[Installing],
            Starting => &[Verifying, Rebooting],
            Verifying => &[Succeeded],
            Failed => &[Queued, Skipped],
            Succeeded | Skipped => &[],
        };
        let ends_badly = self.phase.holds_token() && matches!(next, Failed | Skipped);
        forward.contains(&next) || ends_badly
    }
}
