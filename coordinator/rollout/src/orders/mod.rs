//! Orders: what a node should be doing now, derived from the state. Nothing is fired, so a new leader or another host
//! has nothing to recover.

mod changes;

use std::sync::Arc;

use rollcall_ident::{Digest, Fence, GroupName, NodeId, PackageName, ReleaseIdent, Revision, RolloutId};

use crate::state::{Phase, Rollout, RolloutKind, Step, Turn, Way};
use crate::{State, WarningPolicy};
pub use changes::{orders_changed, sessions_opened};

/// All that a node should be doing now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Orders {
    /// The revision they were derived at.
    pub revision: Revision,
    /// One for each group that it declares.
    pub groups: Vec<GroupOrders>,
    /// The highest fence that it is known to have stored: one that knows of less has lost it.
    pub highest_fence: Fence,
}

/// What it should be doing for one group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupOrders {
    /// The group.
    pub group: GroupName,
    /// Its package; none: the group isn't declared yet.
    pub package: Option<PackageName>,
    /// What to fetch and verify, without disturbing anything.
    pub prefetch: Option<PrefetchOrder>,
    /// The step that it holds the token for.
    pub step: Option<StepOrder>,
    /// Whether WARNING counts as healthy.
    pub on_warning: WarningPolicy,
    /// Good samples in a row to become healthy.
    pub success_threshold: u32,
    /// Bad samples in a row to become unhealthy.
    pub failure_threshold: u32,
}

/// A release to fetch and verify.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrefetchOrder {
    /// The release.
    pub release: ReleaseIdent,
    /// What it must be.
    pub digest: Option<Digest>,
    /// The group's configuration that goes with it, as TOML; none: none goes with it, or it isn't kept any more.
    pub config: Option<String>,
}

/// The step that it holds the token for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepOrder {
    /// The rollout.
    pub rollout: RolloutId,
    /// What for.
    pub kind: RolloutKind,
    /// The grant.
    pub fence: Fence,
    /// The attempt.
    pub attempt: u32,
    /// What it ran before.
    pub from: Option<ReleaseIdent>,
    /// What it shall run.
    pub to: ReleaseIdent,
    /// What that must be.
    pub digest: Option<Digest>,
    /// The group's configuration that goes with it, as TOML; none: none goes with it, or it isn't kept any more.
    pub config: Option<String>,
    /// How far it may go.
    pub go: Go,
    /// Where it is turned back: a `drain` that still runs isn't waited for.
    pub cut_drain: bool,
    /// Where the log has the step.
    pub phase: Phase,
    /// How often it may reboot.
    pub max_reboots: u32,
    /// How often it did.
    pub reboots: u32,
}

/// How far an agent may go with its step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Go {
    /// Up to commit point A: ask the service.
    Prepare,
    /// Up to commit point B: drain.
    Drain,
    /// All the way up to the soak; nobody's leave is needed any more.
    Replace,
    /// The soak is complete: undrain and finish.
    Finish,
    /// Undo what was begun.
    TurnBack,
}

/// What `node` should be doing now; none where it isn't registered.
#[must_use]
pub fn orders_for(state: &State, node: NodeId) -> Option<Orders> {
    let node = state.nodes.get(&node)?;
    let groups = node.services.keys().map(|group| group_orders(state, node.id, group)).collect();
    Some(Orders { revision: state.revision, groups, highest_fence: node.highest_fence })
}

fn group_orders(state: &State, node: NodeId, name: &GroupName) -> GroupOrders {
    let group = state.groups.get(name);
    let policy = group.map(|group| Arc::clone(&group.policy)).unwrap_or_default();
    // The token's rollout, not the active one: a step past B runs to its end whatever became of its rollout.
    let token = state.tokens.get(&node).filter(|token| token.group == *name);
    let step = token
        .and_then(|token| state.rollouts.get(&token.rollout))
        .and_then(|rollout| Some(step_order(state, rollout, rollout.steps.get(&node)?, policy.max_reboots)));
    let prefetch = state.active_rollout(name).and_then(|rollout| {
        let step = rollout.steps.get(&node).filter(|step| !step.phase.is_settled())?;
        let release = rollout.target_of(step).clone();
        let (digest, config) = (digest_of(state, rollout, step), config_of(state, name, &release));
        Some(PrefetchOrder { release, digest, config })
    });
    GroupOrders {
        group: name.clone(),
        package: group.map(|group| group.package.clone()),
        prefetch,
        step,
        on_warning: policy.on_warning,
        success_threshold: policy.success_threshold,
        failure_threshold: policy.failure_threshold,
    }
}

/// What the release that a step leads to must be: as it was started with, or as a channel has it on record.
fn digest_of(state: &State, rollout: &Rollout, step: &Step) -> Option<Digest> {
    match step.way {
        Way::Forward => rollout.digest,
        Way::Back => state.recorded_digest(rollout.target_of(step)),
    }
}

/// The text of the configuration that goes with a release.
fn config_of(state: &State, group: &GroupName, release: &ReleaseIdent) -> Option<String> {
    state.groups.get(group)?.configs.get(&release.config()?).cloned()
}

fn step_order(state: &State, rollout: &Rollout, step: &Step, max_reboots: u32) -> StepOrder {
    let go = match step.phase {
        _ if step.turn.is_some() => Go::TurnBack,
        Phase::Draining => Go::Drain,
        Phase::Verifying if step.is_finishing => Go::Finish,
        phase if phase.is_past_b() => Go::Replace,
        _ => Go::Prepare,
    };
    StepOrder {
        rollout: rollout.id,
        kind: if step.way == Way::Back { RolloutKind::Rollback } else { rollout.kind },
        fence: step.fence.unwrap_or_default(),
        attempt: step.attempt,
        from: step.from.clone(),
        to: rollout.target_of(step).clone(),
        digest: digest_of(state, rollout, step),
        config: config_of(state, &rollout.group, rollout.target_of(step)),
        go,
        cut_drain: matches!(step.turn, Some(Turn::Fail { .. })),
        phase: step.phase,
        max_reboots,
        reboots: step.reboots,
    }
}
