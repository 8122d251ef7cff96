//! Groups: declared, changed, deleted.

use rollcall_ident::GroupName;

use super::Transition;
use crate::state::{Group, GroupPatch};
use crate::{Event, Map, Policy, Rejection, Reply, UpdateCondition};

impl Transition<'_> {
    pub(super) fn apply_group(&mut self, patch: &GroupPatch) -> Result<Reply, Rejection> {
        let invalid = |field: &str, problem: String| Rejection::InvalidGroup {
            group: patch.name.clone(),
            field: field.to_owned(),
            problem,
        };
        let mut group = match self.state.groups.get(&patch.name) {
            Some(group) => {
                self.expect_unchanged_since(group.modified_revision)?;
                if patch.package.as_ref().is_some_and(|package| *package != group.package) {
                    return Err(invalid("package", format!("is {} for good; declare another group", group.package)));
                }
                group.clone()
            }
            None => self.new_group(patch)?,
        };
        if let Some(channel) = &patch.channel {
            group.channel.clone_from(channel);
        }
        if let Some(condition) = patch.update_condition {
            group.update_condition = condition;
        }
        group.policy = group.policy.patched(&patch.policy);
        group.policy.validate().map_err(|(field, problem)| invalid(field, problem))?;
        group.modified_revision = self.revision;
        if let Some(channel) = group.channel.clone() {
            self.ensure_channel(&channel);
        }
        let members: Vec<_> = group.members.keys().copied().collect();
        self.state.groups.insert(patch.name.clone(), group);
        for node in members {
            self.index_health(node, &patch.name);
        }
        self.emit(Event::GroupApplied { group: patch.name.clone() });
        self.touch(&patch.name);
        self.follow_channel(&patch.name, None)?;
        Ok(Reply::Done)
    }

    /// A group with all nodes that have declared it before it was there.
    fn new_group(&self, patch: &GroupPatch) -> Result<Group, Rejection> {
        let package = patch.package.clone().ok_or_else(|| Rejection::InvalidGroup {
            group: patch.name.clone(),
            field: "package".to_owned(),
            problem: "a new group needs one: origin/name".to_owned(),
        })?;
        let members = self
            .state
            .nodes
            .values()
            .filter(|node| node.services.contains_key(&patch.name))
            .map(|node| (node.id, ()))
            .collect();
        Ok(Group {
            name: patch.name.clone(),
            package,
            channel: None,
            update_condition: UpdateCondition::Latest,
            policy: Policy::default(),
            members,
            unhealthy: Map::default(),
            target: None,
            settled: false,
            active_rollout: None,
            modified_revision: self.revision,
        })
    }

    pub(super) fn delete_group(&mut self, name: &GroupName) -> Result<Reply, Rejection> {
        let group = self.state.groups.get(name).ok_or_else(|| Rejection::UnknownGroup(name.clone()))?;
        self.expect_unchanged_since(group.modified_revision)?;
        if let Some(rollout) = group.active_rollout {
            return Err(Rejection::GroupBusy { group: name.clone(), rollout });
        }
        if !group.members.is_empty() {
            return Err(Rejection::GroupHasMembers { group: name.clone(), count: group.members.len() as u64 });
        }
        self.state.groups.remove(name);
        self.forget_rollouts(name, 0);
        self.emit(Event::GroupDeleted { group: name.clone() });
        Ok(Reply::Done)
    }
}
