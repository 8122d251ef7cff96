//! Rollouts: how they start and how they end. What operators say to one is in `verbs.rs`.

use rollcall_ident::{Digest, GroupName, NodeId, ReleaseIdent, RolloutId};

use super::Transition;
use crate::gate::member_count;
use crate::policy::Order;
use crate::state::{
    AlarmKey, Batch, DeadlineKey, EndedBy, Group, Phase, Rollout, RolloutKind, RolloutStatus, Source, Step, Tally, Turn,
};
use crate::{Event, Map, NameList, Rejection, Reply};

impl Transition<'_> {
    pub(super) fn start_rollout_by_request(
        &mut self,
        group: &GroupName,
        target: &ReleaseIdent,
        digest: Option<Digest>,
        kind: RolloutKind,
    ) -> Result<Reply, Rejection> {
        let source = if kind == RolloutKind::CatchUp { Source::CatchUp } else { Source::Operator };
        let current = self.state.groups.get(group).and_then(|group| group.target.as_ref());
        // Who names a release means it with the group's configuration; a catch-up goes where the group has gone.
        let config = self.state.groups.get(group).and_then(|group| group.config);
        let target = &match (target.config(), kind) {
            (None, RolloutKind::Update | RolloutKind::Rollback) => target.with_config(config),
            _ => target.clone(),
        };
        let kind = match kind {
            RolloutKind::Update if current.is_some_and(|current| target < current) => RolloutKind::Rollback,
            kind => kind,
        };
        self.start_rollout(group, target, digest, kind, source).map(Reply::RolloutStarted)
    }

    pub(super) fn start_rollout(
        &mut self,
        name: &GroupName,
        target: &ReleaseIdent,
        digest: Option<Digest>,
        kind: RolloutKind,
        source: Source,
    ) -> Result<RolloutId, Rejection> {
        let group = self.state.groups.get(name).ok_or_else(|| Rejection::UnknownGroup(name.clone()))?;
        if *target.package() != group.package {
            return Err(Rejection::OtherPackage {
                group: name.clone(),
                package: group.package.clone(),
                target: target.clone(),
            });
        }
        if let Some(config) = target.config().filter(|config| !group.configs.contains_key(config)) {
            return Err(Rejection::UnknownConfig { group: name.clone(), config });
        }
        if let Some(quarantine) = self.state.quarantined(target) {
            return Err(Rejection::Quarantined { release: target.clone(), reason: quarantine.reason.clone() });
        }
        let digest = self.agreed_digest(target, digest)?;
        self.order_fits_members(group)?;
        // `plan` prints the revision of the state, so what is expected is that nothing of the group moved since.
        let modified = match self.state.latest_rollout(name) {
            Some(latest) => latest.modified_revision.max(group.modified_revision),
            None => group.modified_revision,
        };
        self.expect_unchanged_since(modified)?;
        let (mut previous, mut was_settled) = (group.target.clone(), group.settled);
        if let Some(active) = self.state.active_rollout(name) {
            if active.target == *target {
                return Err(Rejection::AlreadyGoingThere {
                    group: name.clone(),
                    target: target.clone(),
                    rollout: active.id,
                    status: active.status,
                });
            }
            if !active.begun {
                // Nothing has moved since: the group is where it was before that one.
                (previous, was_settled) = (active.previous.clone(), active.was_settled);
            }
            let active = active.id;
            self.end_rollout(active, RolloutStatus::Superseded, format!("superseded by a rollout to {target}"));
        }
        let id = self.free_id();
        let group = self.state.groups.get(name).expect("looked up above");
        // Joiners and drifters are brought to where the group has been allowed to go.
        let needs_approval = group.policy.approval_required && kind != RolloutKind::CatchUp;
        let status = if needs_approval { RolloutStatus::AwaitingApproval } else { RolloutStatus::Running };
        let batch = Batch::first(&group.policy, member_count(group));
        let (steps, unchanged) = self.steps_towards(name, target);
        let mut rollout = Rollout {
            id,
            group: name.clone(),
            target: target.clone(),
            digest,
            kind,
            source,
            started_by: self.actor.clone(),
            reason: self.reason.map(str::to_owned),
            previous,
            was_settled,
            approved_by: None,
            status,
            going_back: None,
            pause_causes: [].into(),
            paused_by: None,
            steps: Map::default(),
            queue: Map::default(),
            in_flight: Map::default(),
            failed: Map::default(),
            tally: Tally::default(),
            unfetched: Map::default(),
            batch,
            permits: 0,
            is_one_way: false,
            unchanged,
            begun: false,
            started_at: self.now,
            ended: None,
            progress_at: self.now,
            waiting: None,
            modified_revision: self.revision,
        };
        steps.into_iter().for_each(|step| rollout.put_step(step));
        self.state.rollouts.insert(id, rollout);
        let group = self.state.groups.get_mut(name).expect("looked up above");
        // Another configuration of the same release says nothing of another release.
        if group.target.as_ref().map(ReleaseIdent::bare) != Some(target.bare()) {
            group.declined = None;
        }
        group.target = Some(target.clone());
        // Who goes back to an earlier configuration means it.
        group.config = target.config();
        group.left_out = Map::default();
        group.settled = false;
        group.active_rollout = Some(id);
        group.latest_rollout = Some(id);
        self.emit(Event::RolloutStarted { rollout: id, group: name.clone(), target: target.clone(), kind });
        self.touch_all_members(name);
        self.look_at_openness(name);
        Ok(id)
    }

    /// An order that names members, or a label of theirs, must fit those that are there.
    fn order_fits_members(&self, group: &Group) -> Result<(), Rejection> {
        let members = || self.state.members(group).map(|(node, _)| node);
        match &group.policy.order {
            Order::Inventory => {
                let missing: Vec<_> = members()
                    .filter(|node| !group.places.contains_key(&node.name.to_string()))
                    .map(|node| &node.name)
                    .collect();
                let is_member = |name: &String| members().any(|node| node.name.as_str() == name);
                let unknown: Vec<&String> = group.policy.inventory.iter().filter(|name| !is_member(name)).collect();
                let problem = match (unknown.first(), missing.is_empty()) {
                    (Some(name), _) => format!("{name} is no member"),
                    (None, false) => {
                        format!("it doesn't name {}", NameList::of(missing.iter().copied(), missing.len()))
                    }
                    (None, true) => return Ok(()),
                };
                Err(Rejection::InventoryMismatch { group: group.name.clone(), problem })
            }
            Order::Label(key) => {
                let lacking: Vec<_> =
                    members().filter(|node| !node.labels.contains_key(key)).map(|node| &node.name).collect();
                if lacking.is_empty() {
                    return Ok(());
                }
                let nodes = NameList::of(lacking.iter().copied(), lacking.len());
                Err(Rejection::LabelMissing { group: group.name.clone(), key: key.clone(), nodes })
            }
            Order::Name | Order::Priority => Ok(()),
        }
    }

    /// The revision; the second and later rollouts that one entry starts (a channel that several groups follow) count on
    /// above 2^40, where no revision ever is.
    fn free_id(&self) -> RolloutId {
        let mut id = RolloutId(self.revision.0);
        while self.state.rollouts.contains_key(&id) {
            id = RolloutId(id.0 + (1 << 40));
        }
        id
    }

    /// A queued step for each member that isn't at the target, or is down there, or is still in the step of an earlier
    /// rollout.
    fn steps_towards(&self, name: &GroupName, target: &ReleaseIdent) -> (Vec<Step>, Map<NodeId, ()>) {
        let group = self.state.groups.get(name).expect("the caller looked it up");
        let (mut steps, mut unchanged) = (Vec::new(), Map::default());
        for (node, service) in self.state.members(group) {
            let is_there = service.release.as_ref() == Some(target) && !node.is_down(name);
            if is_there && !self.state.tokens.contains_key(&node.id) {
                unchanged.insert(node.id, ());
            } else {
                steps.push(Step::queued(node.id, service.release.clone(), self.now));
            }
        }
        (steps, unchanged)
    }

    /// A rollout to an earlier target of the group.
    pub(super) fn undo_rollout(&mut self, name: &GroupName, to: Option<RolloutId>) -> Result<Reply, Rejection> {
        let group = self.state.groups.get(name).ok_or_else(|| Rejection::UnknownGroup(name.clone()))?;
        let nothing = |problem: String| Rejection::NothingToUndo { group: name.clone(), problem };
        let target = match to {
            Some(id) => {
                let of_group = self.state.rollouts.get(&id).filter(|rollout| rollout.group == *name);
                of_group
                    .ok_or_else(|| nothing(format!("{id} is none of its rollouts, or not kept any more")))?
                    .target
                    .clone()
            }
            None => {
                let earlier = self.state.rollouts.values().rev().find(|rollout| {
                    rollout.group == *name
                        && rollout.status == RolloutStatus::Succeeded
                        && group.target.as_ref() != Some(&rollout.target)
                });
                earlier.ok_or_else(|| nothing("no other target was ever reached".to_owned()))?.target.clone()
            }
        };
        if group.target.as_ref() == Some(&target) && group.settled {
            return Err(Rejection::AlreadySo(format!("{name} is at {target}")));
        }
        let undone = group.target.clone();
        let id = self.start_rollout(name, &target, None, RolloutKind::Rollback, Source::Operator)?;
        // What was undone isn't started again by itself, though its channel still has it.
        if let Some(group) = self.state.groups.get_mut(name) {
            group.declined = undone;
        }
        Ok(Reply::RolloutStarted(id))
    }

    /// Ends it for good. Steps that haven't passed B go back; one that has, runs to its end under its own token.
    pub(super) fn end_rollout(&mut self, id: RolloutId, status: RolloutStatus, why: String) {
        let (now, revision) = (self.now, self.revision);
        let Some(rollout) = self.state.rollouts.get_mut(&id) else { return };
        assert!(rollout.is_active() && !status.is_active(), "{id} is {} and can't become {status}", rollout.status);
        rollout.status = status;
        rollout.batch.awaits_promotion = false;
        let (previous, was_settled) = (rollout.previous.clone(), rollout.was_settled);
        rollout.pause_causes.clear();
        rollout.ended = Some(EndedBy { at: now, why });
        rollout.waiting = None;
        rollout.modified_revision = revision;
        let name = rollout.group.clone();
        self.clear_rollout_timers(id);
        self.state.alarms.clear(&AlarmKey::Openness(name.clone()));
        let group = self.state.groups.get_mut(&name).expect("a rollout's group can't be deleted while it is active");
        group.active_rollout = None;
        group.closed = None;
        match status {
            RolloutStatus::RolledBack | RolloutStatus::Denied => {
                group.declined = std::mem::replace(&mut group.target, previous);
                group.config = group.target.as_ref().map_or(group.config, ReleaseIdent::config);
                group.settled = was_settled;
            }
            _ => group.settled = status == RolloutStatus::Succeeded,
        }
        let kept = group.policy.revision_history_limit as usize;
        self.emit(Event::RolloutEnded { rollout: id, group: name.clone(), status });
        if matches!(status, RolloutStatus::RolledBack | RolloutStatus::Denied) {
            self.touch_all_members(&name);
        }
        self.touch(&name);
        self.turn_back_uncommitted(id);
        if status == RolloutStatus::Superseded {
            for node in self.in_flight(id) {
                self.end_unwanted(id, node);
            }
        }
        self.forget_rollouts(&name, kept);
    }

    /// What was set for a rollout as a whole.
    pub(super) fn clear_rollout_timers(&mut self, id: RolloutId) {
        self.state.deadlines.clear(&DeadlineKey::ProgressDeadline(id));
        self.state.deadlines.clear(&DeadlineKey::Delay(id));
        self.state.alarms.clear(&AlarmKey::ResumeRollout(id));
        self.state.alarms.clear(&AlarmKey::PauseRollout(id));
    }

    /// The nodes whose steps hold a token.
    pub(super) fn in_flight(&self, id: RolloutId) -> Vec<NodeId> {
        self.state.rollouts.get(&id).map(|rollout| rollout.in_flight.values().copied().collect()).unwrap_or_default()
    }

    /// What hasn't passed B goes back: at once before A, by the agent's `undrain` between A and B.
    pub(super) fn turn_back_uncommitted(&mut self, id: RolloutId) {
        for node in self.in_flight(id) {
            let phase = self.step(id, node).phase;
            if phase.is_before_a() {
                self.enter(id, node, Phase::Queued);
            } else if phase == Phase::Draining {
                self.turn(id, node, Turn::GiveBack);
            }
        }
    }

    /// BOUND: only the last `kept` ended rollouts of a group stay, and those whose steps are still in flight.
    pub(super) fn forget_rollouts(&mut self, group: &GroupName, kept: usize) {
        let ended: Vec<RolloutId> = self
            .state
            .rollouts
            .values()
            .filter(|rollout| rollout.group == *group && !rollout.is_active())
            .filter(|rollout| rollout.in_flight.is_empty())
            .map(|rollout| rollout.id)
            .collect();
        for id in ended.iter().rev().skip(kept) {
            self.state.rollouts.remove(id);
        }
    }
}
