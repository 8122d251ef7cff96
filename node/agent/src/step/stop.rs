//! Stopping: `pre-stop`, the signal, the old instance's observed end, `post-stop`.

use std::time::Instant;

use rollcall_steps::{Event, FailureReason, Hook, Phase};

use super::engine::{Engine, failure};
use crate::disk::JournalError;
use crate::hooks::Exit;
use crate::package::Release;

impl Engine {
    /// Stops whatever runs. After a crash each part looks at what is done already.
    pub(super) async fn stop(&mut self) -> Result<(), JournalError> {
        self.begin(Phase::Stopping).await?;
        let old = self.current_release();
        let is_running = self.process.borrow().instance.is_some();
        if let (Some(release), true) = (&old, is_running) {
            self.run_once(release, Hook::PreStop).await?;
        }
        let begun = Instant::now();
        let supervisor = self.supervisor.clone();
        let stopped = self.attend(supervisor.stop()).await?;
        self.clock.add_stop(begun.elapsed());
        match stopped {
            Ok(stopped) => {
                // Known to be killed before a crash stays known.
                let killed = stopped.killed || self.step().old_gone == Some(true);
                self.append(&[Event::OldInstanceGone { killed }]).await?;
            }
            Err(error) => return self.fail(Phase::Stopping, failure(FailureReason::StopFailed, error)).await,
        }
        if let Some(release) = &old {
            self.run_once(release, Hook::PostStop).await?;
        }
        self.done(Phase::Stopping, true).await
    }

    /// Runs a hook whose outcome is only logged, unless it was started in this attempt before.
    async fn run_once(&mut self, release: &Release, hook: Hook) -> Result<(), JournalError> {
        if self.step().hooks_started.contains(&hook) {
            return Ok(());
        }
        if let Some(end) = self.run_hook(release, hook, Phase::Stopping).await? {
            if end.exit != Exit::Code(0) {
                tracing::warn!(group = %self.context.group, hook = hook.name(), exit = %end.exit, "{}", end.output.tail);
            }
            self.append(&[Event::HookEnded { hook }]).await?;
        }
        Ok(())
    }
}
