//! What operators say of nodes, tokens and releases.

use rollcall_ident::{NodeId, ReleaseIdent, RolloutId, WallTime};

use super::Transition;
use super::step::REVOKED;
use crate::state::{
    AlarmKey, HealthOverride, Hold, Node, PauseCause, Phase, Quarantine, Rollout, RolloutStatus, StepFailure, Turn,
};
use crate::{Actor, Event, Rejection, Reply};

impl Transition<'_> {
    /// From its next step on; a step that has begun goes on.
    pub(super) fn hold_node(&mut self, id: NodeId, until: Option<WallTime>) -> Result<Reply, Rejection> {
        self.expect_future("until", until)?;
        self.expect_node_unchanged(id)?;
        let hold = Hold { by: self.actor.clone(), at: self.now, reason: self.reason.map(str::to_owned), until };
        let node = self.node_mut(id)?;
        if node.hold.as_ref().is_some_and(|known| known.until == until) {
            return Err(Rejection::AlreadySo(format!("node {} is held", node.name)));
        }
        node.hold = Some(hold);
        let name = node.name.clone();
        self.state.alarms.put(AlarmKey::ReleaseNode(id), until);
        self.emit(Event::NodeHeld { node: id, name });
        self.touch_groups_of(id);
        Ok(Reply::Done)
    }

    pub(super) fn release_node(&mut self, id: NodeId) -> Result<Reply, Rejection> {
        self.expect_node_unchanged(id)?;
        let node = self.node_mut(id)?;
        if node.hold.is_none() {
            return Err(Rejection::AlreadySo(format!("nobody holds node {}", node.name)));
        }
        self.end_hold(id);
        Ok(Reply::Done)
    }

    pub(super) fn end_hold(&mut self, id: NodeId) {
        let Ok(node) = self.node_mut(id) else { return };
        node.hold = None;
        let name = node.name.clone();
        self.state.alarms.clear(&AlarmKey::ReleaseNode(id));
        self.emit(Event::NodeReleased { node: id, name });
        self.touch_groups_of(id);
    }

    pub(super) fn set_health(&mut self, id: NodeId, is_healthy: Option<bool>) -> Result<Reply, Rejection> {
        self.expect_node_unchanged(id)?;
        let (by, at, reason) = (self.actor.clone(), self.now, self.reason.map(str::to_owned));
        let node = self.node_mut(id)?;
        if node.health_override.as_ref().map(|word| word.is_healthy) == is_healthy {
            let what = match is_healthy {
                Some(true) => "counts as healthy",
                Some(false) => "counts as unhealthy",
                None => "is what its checks say",
            };
            return Err(Rejection::AlreadySo(format!("node {} {what}", node.name)));
        }
        node.health_override = is_healthy.map(|is_healthy| HealthOverride { is_healthy, by, at, reason });
        let name = node.name.clone();
        self.emit(Event::HealthOverridden { node: id, name, is_healthy });
        self.touch_groups_of(id);
        Ok(Reply::Done)
    }

    fn touch_groups_of(&mut self, id: NodeId) {
        let revision = self.revision;
        if let Ok(node) = self.node_mut(id) {
            node.modified_revision = revision;
        }
        let groups: Vec<_> =
            self.state.nodes.get(&id).into_iter().flat_map(|node| node.services.keys()).cloned().collect();
        for group in groups {
            self.after_health(id, &group);
        }
    }

    fn expect_node_unchanged(&self, id: NodeId) -> Result<(), Rejection> {
        match self.state.nodes.get(&id) {
            Some(node) => self.expect_unchanged_since(node.modified_revision),
            None => Err(Rejection::UnknownNode(id.to_string())),
        }
    }

    /// What an operator's word changes.
    fn node_mut(&mut self, id: NodeId) -> Result<&mut Node, Rejection> {
        self.state.nodes.get_mut(&id).ok_or_else(|| Rejection::UnknownNode(id.to_string()))
    }

    /// The fence goes up with the revision: whatever the node still says under the old one is refused. The rollout stops
    /// and asks, so that nobody gets the next token by this.
    pub(super) fn revoke_token(&mut self, id: NodeId, force: bool) -> Result<Reply, Rejection> {
        let name = self.node_mut(id)?.name.clone();
        let token = self.state.tokens.get(&id).ok_or_else(|| Rejection::NoToken(name.clone()))?;
        let (rollout, fence, group) = (token.rollout, token.fence, token.group.clone());
        if let Some(modified) = self.state.rollouts.get(&rollout).map(|rollout| rollout.modified_revision) {
            self.expect_unchanged_since(modified)?;
        }
        let phase = self.step(rollout, id).phase;
        if !force {
            return Err(Rejection::RevokeNeedsForce { node: name, phase, fence });
        }
        self.emit(Event::TokenRevoked { rollout, group, node: id, name, fence });
        let detail = self.reason.map_or_else(|| "an operator took its token".to_owned(), str::to_owned);
        let is_away = self.state.nodes.get(&id).is_none_or(|node| node.session().is_none());
        match phase {
            Phase::Granted | Phase::Preparing => {
                self.enter(rollout, id, Phase::Queued);
                self.pause_rollout(rollout, PauseCause::Operator);
            }
            Phase::Draining if !is_away => {
                self.turn(rollout, id, Turn::Fail { reason: REVOKED.to_owned(), detail });
                self.pause_rollout(rollout, PauseCause::Operator);
            }
            phase => {
                let failure = StepFailure { phase, reason: REVOKED.to_owned(), detail, output: String::new() };
                self.fail_step(rollout, id, failure);
                // Whatever a failure does otherwise: nobody knows how this node is, and a person has to look.
                let goes_on = |it: &Rollout| it.is_active() && it.status != RolloutStatus::Paused;
                if self.state.rollouts.get(&rollout).is_some_and(goes_on) {
                    self.pause_rollout(rollout, PauseCause::Operator);
                }
            }
        }
        Ok(Reply::Done)
    }

    pub(super) fn add_quarantine(&mut self, release: &ReleaseIdent) -> Result<Reply, Rejection> {
        if self.state.quarantine.contains_key(release) {
            return Err(Rejection::AlreadySo(format!("{release} is in quarantine")));
        }
        let why = self.reason.map_or_else(|| format!("{} said so", self.actor.0), str::to_owned);
        let by = self.actor.clone();
        self.put_in_quarantine(release, why, by);
        Ok(Reply::Done)
    }

    pub(super) fn remove_quarantine(&mut self, release: &ReleaseIdent) -> Result<Reply, Rejection> {
        let found = self.state.quarantine.get(release).ok_or_else(|| Rejection::NotInQuarantine(release.clone()))?;
        self.expect_unchanged_since(found.modified_revision)?;
        self.state.quarantine.remove(release);
        self.emit(Event::QuarantineLifted { release: release.clone() });
        self.touch_groups_going_to(release);
        Ok(Reply::Done)
    }

    /// The release has failed: it isn't started again by itself, nor by mistake.
    pub(super) fn quarantine(&mut self, release: &ReleaseIdent, why: String) {
        if !self.state.quarantine.contains_key(release) {
            self.put_in_quarantine(release, why, Actor::coordinator());
        }
    }

    fn put_in_quarantine(&mut self, release: &ReleaseIdent, why: String, by: Actor) {
        let quarantine = Quarantine { at: self.now, by, reason: why.clone(), modified_revision: self.revision };
        self.state.quarantine.insert(release.clone(), quarantine);
        self.emit(Event::ReleaseQuarantined { release: release.clone(), why });
        for rollout in self.touch_groups_going_to(release) {
            self.turn_back_uncommitted(rollout);
        }
    }

    fn touch_groups_going_to(&mut self, release: &ReleaseIdent) -> Vec<RolloutId> {
        let going: Vec<_> = self
            .state
            .groups
            .values()
            .filter_map(|group| self.state.active_rollout(&group.name))
            .filter(|rollout| {
                (rollout.target == *release || rollout.target.bare() == *release) && rollout.going_back.is_none()
            })
            .map(|rollout| (rollout.id, rollout.group.clone()))
            .collect();
        going.iter().for_each(|(_, group)| self.touch(group));
        going.into_iter().map(|(id, _)| id).collect()
    }
}
