//! Rollouts.

use rollcall_proto::{ShortName as _, v1};
use serde::Serialize;

use super::List;
use super::common::{WaitingOnView, cluster_ms, empty_as_none, time, wall};
use super::step::StepView;

/// One movement of a group to one target release.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RolloutView {
    pub rollout_id: String,
    pub group: String,
    pub target: String,
    pub status: String,
    pub pause_causes: Vec<String>,
    pub kind: String,
    pub source: Option<String>,
    pub started_by: Option<String>,
    pub reason: Option<String>,
    pub started_at: Option<String>,
    pub started_at_cluster_ms: Option<u64>,
    pub ended_at: Option<String>,
    pub ended_at_cluster_ms: Option<u64>,
    /// The cluster's clock when this was true; only where one rollout was asked for.
    pub now_at: Option<String>,
    pub now_at_cluster_ms: Option<u64>,
    pub waiting_on: Option<WaitingOnView>,
    pub modified_revision: u64,
    pub unchanged_nodes: Vec<String>,
    pub steps: Vec<StepView>,
    /// The second person.
    pub approved_by: Option<String>,
    /// Set where it goes back: why, and since when.
    pub going_back_why: Option<String>,
    pub going_back_since_at: Option<String>,
    pub going_back_since_at_cluster_ms: Option<u64>,
    /// Which batch may begin steps now, from 0 on; the canary is 0 where there is one.
    pub batch: u32,
    /// Nodes that run the target can't go back.
    pub one_way: bool,
    /// When an operator's pause ends by itself.
    pub resumes_at: Option<String>,
    /// When an operator's leave ends by itself.
    pub pauses_at: Option<String>,
}

/// The rollouts of one group.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub struct History(pub List<RolloutView>);

impl From<v1::Rollout> for RolloutView {
    fn from(rollout: v1::Rollout) -> Self {
        let mut unchanged_nodes = rollout.unchanged_nodes.clone();
        unchanged_nodes.sort();
        Self {
            status: rollout.status().short_name(),
            started_at: wall(rollout.started_at.as_ref()),
            started_at_cluster_ms: cluster_ms(rollout.started_at.as_ref()),
            ended_at: wall(rollout.ended_at.as_ref()),
            ended_at_cluster_ms: cluster_ms(rollout.ended_at.as_ref()),
            now_at: None,
            now_at_cluster_ms: None,
            rollout_id: rollout.rollout_id,
            group: rollout.group,
            target: rollout.target,
            pause_causes: rollout.pause_causes,
            kind: rollout.kind,
            source: empty_as_none(rollout.source),
            started_by: empty_as_none(rollout.started_by),
            reason: empty_as_none(rollout.reason),
            waiting_on: WaitingOnView::from_wire(rollout.waiting_on),
            modified_revision: rollout.modified_revision,
            unchanged_nodes,
            steps: rollout.steps.into_iter().map(StepView::from).collect(),
            approved_by: empty_as_none(rollout.approved_by),
            going_back_why: empty_as_none(rollout.going_back_why),
            going_back_since_at: wall(rollout.going_back_since.as_ref()),
            going_back_since_at_cluster_ms: cluster_ms(rollout.going_back_since.as_ref()),
            batch: rollout.batch,
            one_way: rollout.one_way,
            resumes_at: time(rollout.resumes_at.as_ref()),
            pauses_at: time(rollout.pauses_at.as_ref()),
        }
    }
}

impl RolloutView {
    /// The same with the cluster's clock of the answer.
    pub fn at_moment(mut self, now: Option<&v1::Moment>) -> Self {
        self.now_at = wall(now);
        self.now_at_cluster_ms = cluster_ms(now);
        self
    }

    /// Whether nothing more happens under this id.
    pub fn is_ended(&self) -> bool {
        matches!(self.status.as_str(), "succeeded" | "stopped" | "rolled_back" | "superseded" | "denied")
    }

    /// Whether it returns, or has returned, nodes to where they were.
    pub fn is_going_back(&self) -> bool {
        self.going_back_why.is_some() || matches!(self.status.as_str(), "rolling_back" | "rolled_back")
    }

    /// Steps that have led where the rollout goes now.
    pub fn done_count(&self) -> usize {
        self.steps_on_the_way().filter(|step| step.phase == "succeeded").count()
    }

    /// All that have to.
    pub fn step_count(&self) -> usize {
        self.steps_on_the_way().count()
    }

    /// Where it goes back, nodes that it never disturbed are none of it.
    fn steps_on_the_way(&self) -> impl Iterator<Item = &StepView> {
        let is_back = self.is_going_back();
        self.steps.iter().filter(move |step| !is_back || step.is_way_back())
    }

    /// `2 of 6 done`.
    pub fn progress(&self) -> String {
        let word = if self.is_going_back() { "back" } else { "done" };
        format!("{} of {} {word}", self.done_count(), self.step_count())
    }

    /// What a person is to say before it goes on: which command to type.
    pub fn asks_for(&self) -> Option<String> {
        let id = &self.rollout_id;
        let reason = self.waiting_on.as_ref().map(|waiting| waiting.reason.as_str());
        match (self.status.as_str(), reason) {
            ("awaiting_approval", _) => {
                let by = self.started_by.as_deref().unwrap_or("who started it");
                Some(format!(
                    "`rollcall rollout approve {id}` by somebody else than {by}, or `rollcall rollout deny {id}`"
                ))
            }
            ("awaiting_promotion", _) => {
                let batch = self.batch;
                Some(format!(
                    "`rollcall rollout promote {id}` to begin batch {batch}, or `rollcall rollout abort {id}` to go back"
                ))
            }
            ("paused", _) if self.pause_causes == ["operator"] => Some(format!("`rollcall rollout resume {id}`")),
            ("paused", _) => Some(format!("`rollcall explain {id}` says why it is paused, and what helps")),
            (_, Some("next")) => Some(format!("`rollcall rollout next {id}` to begin one step")),
            _ => None,
        }
    }

    /// For how long it runs or ran.
    pub fn elapsed_ms(&self) -> Option<u64> {
        let end = self.ended_at_cluster_ms.or(self.now_at_cluster_ms)?;
        Some(end.saturating_sub(self.started_at_cluster_ms?))
    }

    /// For how long something lasts, by the cluster's clock.
    pub fn lasts_ms(&self, since_cluster_ms: Option<u64>) -> Option<u64> {
        Some(self.now_at_cluster_ms?.saturating_sub(since_cluster_ms?))
    }
}
