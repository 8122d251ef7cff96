//! Before commit point B: nothing is stopped yet.

use rollcall_steps::{FailureReason, Go, Hook, Phase};

use super::engine::{Engine, failure};
use super::hooks::Polled;
use crate::disk::JournalError;
use crate::service::fetch;

impl Engine {
    /// Sees that the target lies here, then asks the release that runs whether it may be updated.
    pub(super) async fn prepare(&mut self) -> Result<(), JournalError> {
        self.begin(Phase::Preparing).await?;
        let opened = self.step().opened;
        let target = self.ordered_target(opened);
        if let Err(error) = fetch(&self.context, &target).await {
            return self.fail(Phase::Preparing, failure(FailureReason::PackageUnavailable, error)).await;
        }
        self.ask(Hook::ReadyToUpdate, Phase::Preparing, Go::Drain).await
    }

    /// Lets the release that runs hand over what it does.
    pub(super) async fn drain(&mut self) -> Result<(), JournalError> {
        self.begin(Phase::Draining).await?;
        self.ask(Hook::Drain, Phase::Draining, Go::Replace).await
    }

    async fn ask(&mut self, hook: Hook, phase: Phase, next: Go) -> Result<(), JournalError> {
        // Where nothing runs there is nobody to ask.
        let Some(release) = self.running_release() else { return self.done(phase, false).await };
        match self.poll_hook(&release, hook, phase, next).await? {
            Polled::Ready { hook_ran } => self.done(phase, hook_ran).await,
            Polled::Forced => self.forced(phase).await,
            Polled::Failed(failure) => self.fail(phase, failure).await,
            Polled::Interrupted => Ok(()),
        }
    }
}
