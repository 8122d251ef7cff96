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
    let v1::GroupSpec { name, package, channel, update_condition, policy, windows, config } =
        spec.ok_or_else(|| FieldError::new("spec", "is missing"))?;
    Ok(GroupPatch {
        name: required("name", &name)?,
        package: package.map(|package| required("package", &package)).transpose()?,
        channel: channel.map(|channel| optional("channel", &channel)).transpose()?,
        update_condition: one_of("update_condition", update_condition, "latest, track-channel")?,
        policy: policy.map_or_else(|| Ok(PolicyPatch::default()), policy_patch)?,
        config: config.map(group_config).transpose()?,
        windows: windows.map(|list| list.values.into_iter().map(window).collect()).transpose()?,
    })
}

/// BOUND: it travels with orders, and lies in each snapshot.
const MAX_CONFIG_BYTES: usize = 64 * 1024;

/// A configuration that hooks can be given; none where it is empty.
fn group_config(text: String) -> Result<Option<String>, FieldError> {
    if text.len() > MAX_CONFIG_BYTES {
        return Err(FieldError::new("config", format!("takes {} bytes; at most {MAX_CONFIG_BYTES} go", text.len())));
    }
    let table: toml::Table =
        text.parse().map_err(|error| FieldError::new("config", format!("isn't TOML: {}", one_line(&error))))?;
    Ok((!table.is_empty()).then_some(text))
}

fn one_line(error: &toml::de::Error) -> String {
    error.message().replace('\n', "; ")
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
            config: Some(group.config_text().cloned().unwrap_or_default()),
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
