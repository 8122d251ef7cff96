//! Groups: declared, changed, deleted.

use std::sync::Arc;

use rollcall_ident::{ConfigId, GroupName};

use super::Transition;
use crate::state::{Group, GroupPatch, RolloutKind, Source};
use crate::{Event, Map, Rejection, Reply, UpdateCondition};

/// BOUND: configurations of a group that are kept. A node that goes back to an older one still has it on its disk.
const MAX_CONFIGS: usize = 32;

fn set_config(group: &mut Group, text: Option<String>, id: ConfigId) {
    group.config = text.is_some().then_some(id);
    text.into_iter().for_each(|text| group.configs.insert(id, text));
    while group.configs.len() > MAX_CONFIGS
        && let Some(oldest) = group.configs.first().map(|(id, _)| *id)
    {
        group.configs.remove(&oldest);
    }
}

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
        let policy = group.policy.patched(&patch.policy);
        policy.validate().map_err(|(field, problem)| invalid(field, problem))?;
        group.places = policy.inventory.iter().cloned().zip(0..).collect();
        group.policy = Arc::new(policy);
        group.modified_revision = self.revision;
        let is_new_config = patch.config.as_ref().is_some_and(|config| config.as_ref() != group.config_text());
        if is_new_config {
            set_config(&mut group, patch.config.clone().flatten(), ConfigId(self.revision.0));
        }
        if let Some(channel) = group.channel.clone() {
            self.ensure_channel(&channel);
        }
        self.state.groups.insert(patch.name.clone(), group);
        self.emit(Event::GroupApplied { group: patch.name.clone() });
        if let Some(windows) = &patch.windows {
            self.replace_windows(&patch.name, windows)?;
        }
        self.touch(&patch.name);
        self.touch_all_members(&patch.name);
        self.look_at_openness(&patch.name);
        self.follow_channel(&patch.name, &[]);
        if is_new_config {
            self.roll_config(&patch.name);
        }
        Ok(Reply::Done)
    }

    /// Brings the members to the new configuration of the release that they run, or are going to: a rollout as any other.
    /// Where the last one was ended half-way, nobody is moved on by a change of the configuration; the next rollout brings
    /// it.
    fn roll_config(&mut self, name: &GroupName) {
        let Some(group) = self.state.groups.get(name).filter(|group| group.policy.auto_start) else { return };
        let active = self.state.active_rollout(name);
        let goes_on = active.map_or(group.settled, |rollout| rollout.going_back.is_none());
        let Some(target) = group.target.as_ref().map(|target| target.with_config(group.config)) else { return };
        if Some(&target) == group.target.as_ref() {
            return;
        }
        let refusal = if goes_on {
            self.start_rollout(name, &target, None, RolloutKind::Update, Source::Operator).err()
        } else {
            Some(Rejection::NotSettled(name.clone()))
        };
        if let Some(refusal) = refusal {
            self.emit_not_started(name, target, &refusal);
        }
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
            policy: Arc::default(),
            places: Map::default(),
            windows: Map::default(),
            windows_made: 0,
            closed: None,
            config: None,
            configs: Map::default(),
            members,
            unavailable: Map::default(),
            updaters: Map::default(),
            disrupted: Map::default(),
            astray: Map::default(),
            left_out: Map::default(),
            target: None,
            declined: None,
            settled: false,
            active_rollout: None,
            latest_rollout: None,
            typical_step: None,
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
