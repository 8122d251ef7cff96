//! Steps: one node's part of a rollout.

use rollcall_proto::{ShortName as _, v1};
use serde::Serialize;

use super::common::{WaitingOnView, cluster_ms, empty_as_none, wall, zero_as_none};
use super::group::MemberView;

/// One node's part of a rollout.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StepView {
    pub node_id: String,
    pub node_name: String,
    pub phase: String,
    pub phase_since_at: Option<String>,
    pub phase_since_at_cluster_ms: Option<u64>,
    pub attempt: u32,
    pub fence: Option<u64>,
    pub from: Option<String>,
    pub to: String,
    pub holds_token: bool,
    /// What a begun step is being turned back for.
    pub turning: Option<String>,
    pub waiting_on: Option<WaitingOnView>,
    pub failure: Option<StepFailureView>,
    pub soaked_ms: u64,
    pub soak_needed_ms: u64,
    pub reboots: u32,
    pub timings: Option<StepTimingsView>,
    pub history: Vec<PhaseTimeView>,
    pub member: Option<MemberView>,
    /// `forward` or `back`.
    pub way: String,
    /// Why it was left out.
    pub skipped: Option<String>,
    /// The batch that it was granted in.
    pub batch: Option<u32>,
}

/// Why a step failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StepFailureView {
    pub phase: String,
    pub reason: String,
    pub detail: String,
    /// The last 4 KiB of what the hook printed.
    pub output: String,
}

/// What the node measured of its last attempt; fractions of a millisecond matter here.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StepTimingsView {
    pub total_ms: f64,
    pub hooks_ms: f64,
    pub service_ms: f64,
    pub soak_ms: f64,
}

/// When a step entered a phase.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PhaseTimeView {
    pub phase: String,
    pub attempt: u32,
    pub entered_at: Option<String>,
    pub entered_at_cluster_ms: Option<u64>,
}

impl From<v1::Step> for StepView {
    fn from(step: v1::Step) -> Self {
        Self {
            phase: step.phase().short_name(),
            phase_since_at: wall(step.phase_since.as_ref()),
            phase_since_at_cluster_ms: cluster_ms(step.phase_since.as_ref()),
            node_id: step.node_id,
            node_name: step.node_name,
            attempt: step.attempt,
            fence: zero_as_none(step.fence),
            from: empty_as_none(step.from),
            to: step.to,
            holds_token: step.holds_token,
            turning: empty_as_none(step.turning),
            waiting_on: WaitingOnView::from_wire(step.waiting_on),
            failure: step.failure.map(StepFailureView::from),
            soaked_ms: step.soaked_ms,
            soak_needed_ms: step.soak_needed_ms,
            reboots: step.reboots,
            timings: step.timings.map(|timings| StepTimingsView::from(&timings)),
            history: step.history.iter().map(PhaseTimeView::from).collect(),
            member: step.member.map(MemberView::from),
            way: if step.way.is_empty() { "forward".to_owned() } else { step.way },
            skipped: empty_as_none(step.skipped),
            batch: step.batch,
        }
    }
}

impl StepView {
    /// Whether it leads its node back to where it was.
    pub fn is_way_back(&self) -> bool {
        self.way == "back"
    }

    /// Why it was left out, in words.
    pub fn skipped_text(&self) -> Option<String> {
        Some(match self.skipped.as_deref()? {
            "operator" => "left out by an operator".to_owned(),
            "offline" => "left out: it had departed".to_owned(),
            "left" => "left out: no member any more".to_owned(),
            "not_begun" => "had not begun".to_owned(),
            "nothing_before" => "ran nothing before".to_owned(),
            other => format!("left out: {}", other.replace('_', " ")),
        })
    }

    /// Whether it is healthy and proves that it stays so.
    pub fn is_soaking(&self) -> bool {
        let is_healthy_now = self.waiting_on.as_ref().is_some_and(|waiting| waiting.reason == "soak");
        self.phase == "verifying" && self.soak_needed_ms > 0 && (self.soaked_ms > 0 || is_healthy_now)
    }
}

impl From<v1::StepFailure> for StepFailureView {
    fn from(failure: v1::StepFailure) -> Self {
        Self {
            phase: failure.phase().short_name(),
            reason: failure.reason,
            detail: failure.detail,
            output: failure.output,
        }
    }
}

impl StepFailureView {
    /// In one line.
    pub fn text(&self) -> String {
        let what = format!("{} while {}", self.reason.replace('_', " "), self.phase);
        if self.detail.is_empty() { what } else { format!("{what}: {}", self.detail) }
    }
}

impl From<&v1::StepTimings> for StepTimingsView {
    fn from(timings: &v1::StepTimings) -> Self {
        #[allow(clippy::cast_precision_loss, reason = "a step that lasts 285 years may lose a microsecond")]
        let ms = |us: u64| us as f64 / 1000.0;
        Self {
            total_ms: ms(timings.total_us),
            hooks_ms: ms(timings.hooks_us),
            service_ms: ms(timings.service_us),
            soak_ms: ms(timings.soak_us),
        }
    }
}

impl From<&v1::PhaseTime> for PhaseTimeView {
    fn from(time: &v1::PhaseTime) -> Self {
        Self {
            phase: time.phase().short_name(),
            attempt: time.attempt,
            entered_at: wall(time.entered_at.as_ref()),
            entered_at_cluster_ms: cluster_ms(time.entered_at.as_ref()),
        }
    }
}
