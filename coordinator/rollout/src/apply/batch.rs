//! Batches: the canary, those of the policy, the pause between them, and a person's word.

use rollcall_ident::RolloutId;

use super::Transition;
use crate::Event;
use crate::gate::{Candidate, member_count};
use crate::policy::{Mode, Policy};
use crate::state::{Batch, DeadlineKey, RolloutStatus};

impl Batch {
    /// Where a rollout over `members` begins.
    pub(super) fn first(policy: &Policy, members: u32) -> Self {
        Self { number: 0, room: size(policy, members, 0), awaits_promotion: false, is_promoted_in_full: false }
    }

    /// Whether it has an end, so that a next one follows.
    pub(super) fn is_limited(self) -> bool {
        self.room < u32::MAX
    }
}

/// How many steps batch `number` has: the canary first, then the policy's, of which the last repeats.
fn size(policy: &Policy, members: u32, number: u32) -> u32 {
    let number = match (policy.canary, number) {
        (0, number) => number,
        (canary, 0) => return canary,
        (_, number) => number - 1,
    };
    let batch = policy.batches.get(number as usize).or(policy.batches.last());
    batch.map_or(u32::MAX, |amount| amount.of(members))
}

impl Transition<'_> {
    /// All steps of the batch are done: the next one begins, or asks whether it may.
    pub(super) fn begin_next_batch(&mut self, id: RolloutId) {
        let Some(rollout) = self.state.rollouts.get(&id) else { return };
        let is_done = rollout.status == RolloutStatus::Running
            && rollout.batch.room == 0
            && rollout.in_flight.is_empty()
            && Candidate::first(self.state, rollout).is_some_and(|first| first.step.batch.is_none());
        if !is_done {
            return;
        }
        let policy = self.policy_of(id);
        let Some(members) = self.state.groups.get(&rollout.group).map(member_count) else { return };
        let done = rollout.batch.number;
        let awaits_promotion = !policy.auto_promote && !rollout.batch.is_promoted_in_full;
        let revision = self.revision;
        let Some(rollout) = self.state.rollouts.get_mut(&id) else { return };
        rollout.batch.number = done + 1;
        rollout.batch.room = size(&policy, members, done + 1);
        rollout.batch.awaits_promotion = awaits_promotion;
        rollout.status = rollout.unpaused();
        rollout.modified_revision = revision;
        let group = rollout.group.clone();
        self.emit(Event::BatchDone { rollout: id, group, batch: done, awaits_promotion });
        self.begin_delay(id);
    }

    /// Nothing begins for a while.
    pub(super) fn begin_delay(&mut self, id: RolloutId) {
        let delay = self.policy_of(id).delay;
        // A step may outlive its rollout.
        let is_active = self.state.rollouts.get(&id).is_some_and(|rollout| rollout.is_active());
        if is_active && delay.0 > 0 {
            self.state.deadlines.set(DeadlineKey::Delay(id), self.clock() + delay);
        }
    }

    /// A step was granted: it takes its place in the batch, and a person's leave.
    pub(super) fn take_room(&mut self, id: RolloutId, is_new: bool) {
        let is_manual = self.policy_of(id).mode == Mode::Manual;
        let Some(rollout) = self.state.rollouts.get_mut(&id) else { return };
        if is_new && rollout.batch.is_limited() {
            rollout.batch.room -= 1;
        }
        if is_manual {
            rollout.permits = rollout.permits.saturating_sub(1);
        }
    }

    /// A step was given back undone: so is what it took.
    pub(super) fn give_room_back(&mut self, id: RolloutId, was_let_in: bool) {
        let is_manual = self.policy_of(id).mode == Mode::Manual;
        let Some(rollout) = self.state.rollouts.get_mut(&id) else { return };
        if was_let_in && rollout.batch.is_limited() {
            rollout.batch.room += 1;
        }
        if is_manual {
            rollout.permits += 1;
        }
    }
}
