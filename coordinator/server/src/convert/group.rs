//! Groups.

use rollcall_proto::v1;
use rollcall_rollout::{Group, GroupPatch, PolicyPatch, State};

use super::policy::{one_of, policy, policy_patch};
use super::window::{window, windows};
use super::{FieldError, member, optional, required, waiting_on};

/// What a request declares.
///
/// # Errors
/// Names the first field that can't be.
pub fn group_patch(spec: Option<v1::GroupSpec>) -> Result<GroupPatch, FieldError> {
    let v1::GroupSpec { name, package, channel, update_condition, policy, windows } =
        spec.ok_or_else(|| FieldError::new("spec", "is missing"))?;
    Ok(GroupPatch {
        name: required("name", &name)?,
        package: package.map(|package| required("package", &package)).transpose()?,
        channel: channel.map(|channel| optional("channel", &channel)).transpose()?,
        update_condition: one_of("update_condition", update_condition, "latest, track-channel")?,
        policy: policy.map_or_else(|| Ok(PolicyPatch::default()), policy_patch)?,
        windows: windows.map(|list| list.values.into_iter().map(window).collect()).transpose()?,
    })
}

/// A group as it stands.
pub fn group(state: &State, group: &Group) -> v1::Group {
    let active = state.active_rollout(&group.name);
    let name_of = |id| state.nodes().get(id).map(|node| node.name.to_string());
    v1::Group {
        spec: Some(v1::GroupSpec {
            name: group.name.to_string(),
            package: Some(group.package.to_string()),
            channel: Some(group.channel.as_ref().map(ToString::to_string).unwrap_or_default()),
            update_condition: Some(group.update_condition.to_string()),
            policy: Some(policy(&group.policy)),
            windows: Some(v1::WindowList { values: windows(group) }),
        }),
        target: group.target.as_ref().map(ToString::to_string).unwrap_or_default(),
        active_rollout_id: group.active_rollout.map(|id| id.to_string()).unwrap_or_default(),
        members: state.members(group).map(|(node, service)| member(node, service)).collect(),
        modified_revision: group.modified_revision.0,
        waiting_on: active.and_then(|rollout| rollout.waiting.as_ref()).map(waiting_on),
        left_out_nodes: group.left_out.keys().filter_map(name_of).collect(),
        typical_step_ms: group.typical_step.map(|step| step.0),
    }
}
