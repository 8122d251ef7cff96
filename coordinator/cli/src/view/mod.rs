//! Answers as programs see them: the contract of `-o json`, described in this crate's README.
//!
//! - Names are snake_case; enums are their short names; ids are strings; what there isn't is `null`, never left out.
//! - A moment is two fields: `x_at` in RFC 3339 by the leader's wall clock, for people, and `x_at_cluster_ms` in
//!   cluster time, to reckon with. Durations are milliseconds and end in `_ms`.
//! - One thing is an object with its `revision`; several are `{"revision", "items"}`.
//!
//! Fields may be added; none is renamed, removed or given another meaning.

mod audit;
mod channel;
mod cluster;
mod common;
mod doctor;
mod event;
mod explain;
mod freeze;
mod group;
mod node;
mod plan;
mod quarantine;
mod rollout;
mod snapshot;
mod step;
mod token;
mod window;

use serde::Serialize;

pub use audit::{AuditRecordView, CopyView, ProblemView, VerificationView};
pub use channel::{ChannelView, PromotionView};
pub use cluster::{ClusterView, PeerView, PeersView};
pub use common::{WaitingOnView, short_release};
pub use doctor::{DoctorView, FindingView};
pub use event::EventView;
pub use explain::{ExplainView, ExplanationView};
pub use freeze::{FreezeCreatedView, FreezeView};
pub use group::{GroupView, MemberView, PolicyView};
pub use node::{HealthOverrideView, HoldView, NodeView};
pub use plan::{PlanView, WindowFitView};
pub use quarantine::QuarantineView;
pub use rollout::{History, RolloutView};
pub use snapshot::{RefoundedView, SavedSnapshotView, SnapshotView};
pub use step::StepView;
pub use token::{RevokedView, TokenView};
pub use window::{GroupWindowsView, WindowAddedView, WindowView};

/// Several things, as of one revision.
#[derive(Debug, Serialize)]
pub struct List<T> {
    /// The log index that they are true at.
    pub revision: u64,
    pub items: Vec<T>,
}

/// One thing, as of one revision.
#[derive(Debug, Serialize)]
pub struct At<T> {
    /// The log index that it is true at.
    pub revision: u64,
    #[serde(flatten)]
    pub item: T,
}

/// A change that leaves nothing to show but where it stands in the log.
#[derive(Debug, Serialize)]
pub struct Changed {
    /// The log index of the change.
    pub revision: u64,
}
