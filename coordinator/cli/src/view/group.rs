//! Groups, their policies and members.

use rollcall_proto::{ShortName as _, v1};
use serde::Serialize;

use super::common::{WaitingOnView, cluster_ms, empty_as_none, wall};
use super::window::WindowView;

/// A group as it stands.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GroupView {
    pub name: String,
    pub package: Option<String>,
    pub channel: Option<String>,
    pub update_condition: Option<String>,
    /// The release it is going to or has reached.
    pub target: Option<String>,
    pub active_rollout_id: Option<String>,
    pub waiting_on: Option<WaitingOnView>,
    pub modified_revision: u64,
    /// By name.
    pub members: Vec<MemberView>,
    pub policy: PolicyView,
    /// None: always open.
    pub windows: Vec<WindowView>,
    /// What its hooks are given, below each node's own; empty: nothing.
    pub config: toml::Table,
    /// Nodes that an operator left out of the way to the present target.
    pub left_out_nodes: Vec<String>,
    /// How long a step takes here, by those of its rollouts.
    pub typical_step_ms: Option<u64>,
}

/// A policy in full.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct PolicyView {
    pub mode: Option<String>,
    pub approval_required: Option<bool>,
    pub max_parallel: Option<String>,
    pub max_unavailable: Option<String>,
    pub batches: Option<Vec<String>>,
    pub order: Option<String>,
    pub inventory: Option<Vec<String>>,
    pub primary_last: Option<bool>,
    pub canary: Option<u32>,
    pub auto_promote: Option<bool>,
    pub delay_ms: Option<u64>,
    pub on_warning: Option<String>,
    pub success_threshold: Option<u32>,
    pub failure_threshold: Option<u32>,
    pub min_healthy_time_ms: Option<u64>,
    pub healthy_deadline_ms: Option<u64>,
    pub progress_deadline_ms: Option<u64>,
    pub ready_timeout_ms: Option<u64>,
    pub ready_timeout_action: Option<String>,
    pub drain_timeout_ms: Option<u64>,
    pub drain_timeout_action: Option<String>,
    pub reboot_timeout_ms: Option<u64>,
    pub max_reboots: Option<u32>,
    pub stale_after_ms: Option<u64>,
    pub lost_after_ms: Option<u64>,
    pub offline_policy: Option<String>,
    pub failure_action: Option<String>,
    pub max_failure_permille: Option<u32>,
    pub on_demote: Option<String>,
    pub auto_start: Option<bool>,
    pub catch_up: Option<String>,
    pub max_attempts: Option<u32>,
    pub revision_history_limit: Option<u32>,
}

/// One node's part in a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MemberView {
    pub node_id: String,
    pub node_name: String,
    pub presence: String,
    pub release: Option<String>,
    pub health: String,
    pub health_detail: Option<String>,
    pub health_since_at: Option<String>,
    pub health_since_at_cluster_ms: Option<u64>,
    pub primary: bool,
    pub priority: Option<u64>,
    pub instance: Option<InstanceView>,
}

/// One running process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct InstanceView {
    pub pid: u32,
    /// Clock ticks after boot.
    pub start_time: u64,
    pub boot_id: String,
    pub release: String,
}

impl From<v1::Group> for GroupView {
    fn from(group: v1::Group) -> Self {
        let spec = group.spec.unwrap_or_default();
        let mut members: Vec<_> = group.members.into_iter().map(MemberView::from).collect();
        members.sort_by(|a, b| a.node_name.cmp(&b.node_name));
        Self {
            name: spec.name,
            package: spec.package,
            channel: spec.channel.and_then(empty_as_none),
            update_condition: spec.update_condition,
            target: empty_as_none(group.target),
            active_rollout_id: empty_as_none(group.active_rollout_id),
            waiting_on: WaitingOnView::from_wire(group.waiting_on),
            modified_revision: group.modified_revision,
            members,
            policy: spec.policy.map(PolicyView::from).unwrap_or_default(),
            windows: spec.windows.unwrap_or_default().values.into_iter().map(WindowView::from).collect(),
            config: spec.config.and_then(|config| config.parse().ok()).unwrap_or_default(),
            left_out_nodes: group.left_out_nodes,
            typical_step_ms: group.typical_step_ms,
        }
    }
}

impl GroupView {
    /// Members that are known to be healthy.
    pub fn healthy_count(&self) -> usize {
        self.members.iter().filter(|member| member.health == "healthy").count()
    }

    /// Members that run the target.
    pub fn on_target_count(&self) -> usize {
        self.members.iter().filter(|member| self.target.is_some() && member.release == self.target).count()
    }
}

impl From<v1::Member> for MemberView {
    fn from(member: v1::Member) -> Self {
        Self {
            health: member.health().short_name(),
            health_since_at: wall(member.health_since.as_ref()),
            health_since_at_cluster_ms: cluster_ms(member.health_since.as_ref()),
            node_id: member.node_id,
            node_name: member.node_name,
            presence: member.presence,
            release: empty_as_none(member.release),
            health_detail: empty_as_none(member.health_detail),
            primary: member.primary,
            priority: member.priority,
            instance: member.instance.map(|instance| InstanceView {
                pid: instance.pid,
                start_time: instance.start_time,
                boot_id: instance.boot_id,
                release: instance.release,
            }),
        }
    }
}

impl From<v1::Policy> for PolicyView {
    fn from(policy: v1::Policy) -> Self {
        Self {
            mode: policy.mode,
            approval_required: policy.approval_required,
            max_parallel: policy.max_parallel,
            max_unavailable: policy.max_unavailable,
            batches: policy.batches.map(|list| list.values),
            order: policy.order,
            inventory: policy.inventory.map(|list| list.values),
            primary_last: policy.primary_last,
            canary: policy.canary,
            auto_promote: policy.auto_promote,
            delay_ms: policy.delay_ms,
            on_warning: policy.on_warning,
            success_threshold: policy.success_threshold,
            failure_threshold: policy.failure_threshold,
            min_healthy_time_ms: policy.min_healthy_time_ms,
            healthy_deadline_ms: policy.healthy_deadline_ms,
            progress_deadline_ms: policy.progress_deadline_ms,
            ready_timeout_ms: policy.ready_timeout_ms,
            ready_timeout_action: policy.ready_timeout_action,
            drain_timeout_ms: policy.drain_timeout_ms,
            drain_timeout_action: policy.drain_timeout_action,
            reboot_timeout_ms: policy.reboot_timeout_ms,
            max_reboots: policy.max_reboots,
            stale_after_ms: policy.stale_after_ms,
            lost_after_ms: policy.lost_after_ms,
            offline_policy: policy.offline_policy,
            failure_action: policy.failure_action,
            max_failure_permille: policy.max_failure_permille,
            on_demote: policy.on_demote,
            auto_start: policy.auto_start,
            catch_up: policy.catch_up,
            max_attempts: policy.max_attempts,
            revision_history_limit: policy.revision_history_limit,
        }
    }
}
