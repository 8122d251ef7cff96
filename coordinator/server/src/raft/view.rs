//! The applied state of this peer, as readers and watchers see it.

use std::sync::Arc;

use rollcall_ident::Revision;
use rollcall_rollout::State;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use crate::storage::AppliedState;

/// The state after some revision. Cheap to clone, never changes.
#[derive(Debug, Clone)]
pub struct View {
    /// The state.
    pub state: Arc<State>,
    /// The last entry that is in it.
    pub revision: Revision,
}

impl View {
    pub(super) fn of(applied: &AppliedState) -> Self {
        Self { state: applied.state.clone(), revision: applied.revision() }
    }
}

/// Follows what this peer applies. A burst of entries may be seen as one change.
#[derive(Debug, Clone)]
pub struct StateWatch {
    applied: watch::Receiver<AppliedState>,
}

impl StateWatch {
    pub(super) fn new(applied: watch::Receiver<AppliedState>) -> Self {
        Self { applied }
    }

    /// What is applied now.
    pub fn current(&self) -> View {
        View::of(&self.applied.borrow())
    }

    /// The revision of what is applied now.
    pub fn revision(&self) -> Revision {
        self.applied.borrow().revision()
    }

    /// Waits until something was applied since the last call, and returns the newest state; `None` once this peer has
    /// stopped. Cancel safe.
    pub async fn changed(&mut self) -> Option<View> {
        self.applied.changed().await.ok()?;
        Some(View::of(&self.applied.borrow_and_update()))
    }

    /// Waits until `revision` is applied, and returns the newest state; `None` if that isn't so by the deadline, or the
    /// peer has stopped.
    pub async fn wait_for(&mut self, revision: Revision, deadline: Instant) -> Option<View> {
        let reached = self.applied.wait_for(|applied| applied.revision() >= revision);
        let applied = timeout_at(deadline, reached).await.ok()?.ok()?;
        Some(View::of(&applied))
    }
}
