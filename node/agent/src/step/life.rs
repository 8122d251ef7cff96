//! The agent begins: what it may do before it has heard anybody, and what it makes of a journal that the log is ahead of.
//!
//! After commit point B a step needs nobody. But a journal that was restored from a backup, or that a disk has lost synced
//! records of, looks like any other: so an agent that finds such a step asks first, for [`FIRST_WORD_LIMIT`], and goes on
//! alone only where nobody answers. From a data folder that lay elsewhere before nothing is done until somebody has.

use std::time::Duration;

use rollcall_steps::{Action, Event, Facts, FailureReason, Outcome, Phase, ServicePlan, StepState, Wanted, decide};

use super::engine::{Engine, failure, lock};
use crate::disk::JournalError;
use crate::service::{GroupOrders, OrderedStep, keep_up};

/// How long the first orders are waited for where a step is past commit point B: a service may be down meanwhile. Peers that
/// are there answer in a fraction of it.
const FIRST_WORD_LIMIT: Duration = Duration::from_secs(5);

impl Engine {
    /// Brings the service up where the journal says so, and hears the first word about a step that is past commit point B.
    pub(super) async fn begin_life(&mut self) {
        self.context.node.confirmed().await;
        let (plan, current) = {
            let journal = lock(&self.journal);
            (ServicePlan::of(journal.state()), journal.state().current.clone())
        };
        let is_running = self.process.borrow().instance.is_some();
        if plan == ServicePlan::KeepUp || (plan == ServicePlan::KeepIfUp && is_running) {
            keep_up(&self.context, &self.supervisor, current.as_ref(), is_running).await;
        }
        let facts = Facts { boot_id: self.context.node.boot_id };
        let Some(step) = self.open_step() else { return };
        let starts_something = match decide(&step, &facts, Wanted::NotHeard) {
            Action::Run(_) | Action::Settle(_) | Action::Reboot | Action::ComeBack { .. } => true,
            Action::Rest
            | Action::AwaitOrders
            | Action::Fail(..)
            | Action::Verify
            | Action::LetEnd(_)
            | Action::End(_) => false,
        };
        if starts_something && step.end_ordered.is_none() {
            let heard = self.orders.wait_for(Option::is_some);
            if tokio::time::timeout(FIRST_WORD_LIMIT, heard).await.is_err() {
                tracing::warn!(group = %self.context.group, "nobody has answered: the step goes on as the journal says");
            }
        }
    }

    /// Whether the log was told more of this very step than the journal knows.
    pub(super) fn is_behind(&self, step: &StepState, orders: Option<&GroupOrders>) -> bool {
        let ordered = orders.and_then(|orders| orders.step.as_ref());
        let is_it = |ordered: &&OrderedStep| ordered.key() == (step.opened.fence, step.opened.attempt);
        let Some(logged) = ordered.filter(is_it).and_then(|ordered| ordered.logged) else { return false };
        // Where the new process itself is there, the last record alone is missing.
        let is_running = self.process.borrow().instance.as_ref().is_some_and(|it| it.release == step.opened.to);
        step.is_behind(logged) && !(step.switched && is_running)
    }

    /// Nothing of the step is done twice: it fails, and whoever looks at it orders another attempt. False where it is about
    /// to end anyway.
    pub(super) async fn fail_as_behind(&mut self, step: &StepState) -> Result<bool, JournalError> {
        let detail = format!(
            "the cluster was told more of this step than this node's journal knows (it stands at {}): the data folder is an \
             older copy, or has lost what was synced. Nothing is repeated; `rollout retry` begins another attempt",
            step.phase().name()
        );
        let why = failure(FailureReason::JournalBehind, &detail);
        let events = step.failed_where_it_stands(why, self.context.node.boot_id);
        if events.is_empty() {
            return Ok(false);
        }
        tracing::error!(group = %self.context.group, fence = %step.opened.fence, "{detail}");
        self.append(&events).await?;
        Ok(true)
    }

    /// Whether the node has had this step before, and has lost it.
    pub(super) fn is_lost(&self, ordered: &OrderedStep) -> bool {
        ordered.opened.fence <= self.context.node.fence.lost()
    }

    /// The same for a step that the journal doesn't know at all. It was just opened.
    pub(super) async fn fail_as_lost(&mut self, logged: Option<Phase>) -> Result<(), JournalError> {
        let step = self.step();
        let boot_id = self.context.node.boot_id;
        if logged.is_some_and(|phase| phase >= Phase::Draining) {
            // It may have been drained: then `undrain` is owed.
            self.append(&[
                Event::PhaseBegun { phase: Phase::Preparing, boot_id },
                Event::PhaseEnded { phase: Phase::Preparing, outcome: Outcome::Forced },
                Event::PhaseBegun { phase: Phase::Draining, boot_id },
            ])
            .await?;
        }
        tracing::error!(group = %self.context.group, fence = %step.opened.fence, "the journal has lost this step");
        let step = self.step();
        self.fail_as_behind(&step).await.map(|_| ())
    }
}
