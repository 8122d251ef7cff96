//! What the coordinator wants of one service, in our own types.

use rollcall_ident::{Digest, Fence, ReleaseIdent};
use rollcall_steps::{Go, Phase, StepOpened};

/// All that one service should be doing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GroupOrders {
    /// A release to fetch and verify without disturbing anything.
    pub prefetch: Option<Target>,
    /// The step; none: it isn't this node's turn.
    pub step: Option<OrderedStep>,
    /// How samples become health.
    pub health: HealthRules,
    /// Whether who gave them knew of every grant that this node has seen. Others can't say that a step isn't ordered any
    /// more: they may not have heard of it yet.
    pub are_current: bool,
}

/// A release, and what its digest must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Which one.
    pub release: ReleaseIdent,
    /// None: any.
    pub digest: Option<Digest>,
    /// The group's configuration that goes with it, as TOML; none: none does, or it has been handed out before.
    pub config: Option<String>,
}

/// The step, and how far it may go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderedStep {
    /// As it is to be opened.
    pub opened: StepOpened,
    /// The group's configuration that goes with its target, as of [`Target`].
    pub config: Option<String>,
    /// How far it may go; none: it is to be turned back.
    pub go: Option<Go>,
    /// Where it is turned back: a `drain` that still runs has had its time, and is ended.
    pub cut_drain: bool,
    /// Where the log has it; none: it has heard nothing of it from the node yet.
    pub logged: Option<Phase>,
}

impl OrderedStep {
    /// What sets one try of a step apart from every other.
    #[must_use]
    pub fn key(&self) -> (Fence, u32) {
        (self.opened.fence, self.opened.attempt)
    }
}

/// How samples become health.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HealthRules {
    /// `on_warning = "pass"`
    pub warning_is_good: bool,
    /// Good samples in a row to become healthy.
    pub success_threshold: u32,
    /// Bad samples in a row to become unhealthy.
    pub failure_threshold: u32,
}

impl Default for HealthRules {
    fn default() -> Self {
        Self { warning_is_good: false, success_threshold: 1, failure_threshold: 1 }
    }
}
