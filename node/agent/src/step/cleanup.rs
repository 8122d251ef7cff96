//! Old releases: the current and the previous one are kept, what else was installed for this service goes.

use std::collections::BTreeSet;

use rollcall_ident::ReleaseIdent;
use rollcall_steps::{Event, Hook};
use tokio::task::spawn_blocking;

use super::engine::{Engine, lock};
use crate::disk::JournalError;
use crate::hooks::{Exit, HookReason};
use crate::service::new_token;

impl Engine {
    /// Runs `uninstall` of each release that nothing needs any more, then removes it.
    pub(super) async fn remove_old_releases(&mut self) -> Result<(), JournalError> {
        for release in self.old_releases() {
            if let Ok(loaded) = self.context.load(&release)
                && let Some(run) = self.context.hook_run(&loaded, Hook::Uninstall, HookReason::Start, None, new_token())
            {
                let end = run.run().await;
                if end.exit != Exit::Code(0) {
                    tracing::warn!(group = %self.context.group, %release, exit = %end.exit, "uninstall failed");
                }
            }
            let taken_out = match self.context.store.take_out(&release) {
                Ok(taken_out) => taken_out,
                Err(error) => {
                    tracing::warn!(group = %self.context.group, %release, %error, "an old release stays");
                    continue;
                }
            };
            // That the step has ended is on its way meanwhile: the next node waits for it.
            if let Ok(Err(error)) = spawn_blocking(move || taken_out.delete()).await {
                tracing::warn!(group = %self.context.group, %release, %error, "files of it stay until the next start");
            }
            tracing::info!(group = %self.context.group, %release, "an old release was removed");
            self.append(&[Event::ReleaseRemoved { release }]).await?;
        }
        Ok(())
    }

    /// Only what this service has installed itself: another service of the node may share the store.
    fn old_releases(&self) -> Vec<ReleaseIdent> {
        let journal = lock(&self.journal);
        let state = journal.state();
        let orders = self.orders.borrow().clone().unwrap_or_default();
        // Whatever configuration goes with them.
        let kept: BTreeSet<ReleaseIdent> = [
            state.current.as_ref(),
            state.previous.as_ref(),
            orders.prefetch.as_ref().map(|target| &target.release),
            orders.step.as_ref().map(|step| &step.opened.to),
        ]
        .into_iter()
        .flatten()
        .map(ReleaseIdent::bare)
        .collect();
        let in_use = self.context.node.in_use_elsewhere(&self.context.group);
        state
            .installed
            .iter()
            .filter(|release| !kept.contains(*release) && !in_use.contains(*release))
            .cloned()
            .collect()
    }
}
