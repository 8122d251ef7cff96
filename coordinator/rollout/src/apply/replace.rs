//! A machine in the place of another.

use std::sync::Arc;

use rollcall_ident::{GroupName, NodeId, NodeName};

use super::Transition;
use crate::{Event, Rejection, Reply};

impl Transition<'_> {
    /// The old one leaves as it does by `remove`. Its name is free for the new one, which may join under it from now on;
    /// one that has joined under another name keeps that, and takes over the old one's place in the inventories.
    pub(super) fn replace_node(&mut self, old: NodeId, new: NodeId, force: bool) -> Result<Reply, Rejection> {
        if old == new {
            return Err(Rejection::ReplacedByItself(new));
        }
        if self.state.removed_nodes.contains_key(&new) {
            return Err(Rejection::NodeRemoved(new));
        }
        let before = self.state.nodes.get(&old).ok_or_else(|| Rejection::UnknownNode(old.to_string()))?;
        let (name, groups) = (before.name.clone(), before.services.keys().cloned().collect::<Vec<_>>());
        self.remove_node(old, force)?;
        let new_name = self.state.nodes.get(&new).map(|node| node.name.clone());
        for group in new_name.iter().flat_map(|new_name| groups.iter().map(move |group| (group, new_name))) {
            self.hand_place_on(group.0, &name, group.1);
        }
        self.emit(Event::NodeReplaced { node: old, name, new, new_name });
        Ok(Reply::Done)
    }

    /// Where the inventory names the old one and not the new one, it names the new one in its place.
    fn hand_place_on(&mut self, group: &GroupName, old: &NodeName, new: &NodeName) {
        let revision = self.revision;
        let Some(found) = self.state.groups.get_mut(group) else { return };
        let inventory = &found.policy.inventory;
        let Some(place) = inventory.iter().position(|name| name == old.as_str()) else { return };
        if inventory.iter().any(|name| name == new.as_str()) {
            return;
        }
        Arc::make_mut(&mut found.policy).inventory[place] = new.to_string();
        found.places = found.policy.inventory.iter().cloned().zip(0..).collect();
        found.modified_revision = revision;
        self.emit(Event::GroupApplied { group: group.clone() });
        self.touch_all_members(group);
    }
}
