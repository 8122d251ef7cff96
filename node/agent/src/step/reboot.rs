//! Rebooting the machine for an install hook that asked for it.

use std::process::{Command, Stdio};
use std::time::Duration;

use rollcall_steps::{FailureReason, Phase};

use super::engine::{Engine, failure};
use crate::disk::JournalError;
use crate::process::Process;

/// The coordinator should know why the node is about to vanish; if it can't be told, the journal will tell it later.
const REPORT_LIMIT: Duration = Duration::from_secs(5);

/// A machine that still runs so long after the command is asked again.
const DEATH_LIMIT: Duration = Duration::from_secs(60);

impl Engine {
    /// Runs the reboot command and waits to die. Returning means that it has to be tried again.
    pub(super) async fn reboot(&mut self) -> Result<(), JournalError> {
        let command = self.context.node.reboot_command.clone();
        let Some((program, arguments)) = command.split_first() else {
            let detail = "install asks for a reboot, but reboot_command is empty in the agent's config";
            return self.fail(Phase::Rebooting, failure(FailureReason::HookFailed, detail)).await;
        };
        let reached = u32::try_from(self.step().milestones.len()).unwrap_or(u32::MAX);
        let mut answered = self.answered.subscribe();
        let reported = async move { answered.wait_for(|count| *count >= reached).await.map(|_| ()) };
        let _ = self.attend(tokio::time::timeout(REPORT_LIMIT, reported)).await?;
        if self.is_to_end() {
            return Ok(());
        }
        tracing::warn!(group = %self.context.group, ?command, "rebooting");
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let dying = async {
            match Process::spawn(&mut command).await {
                Ok(mut process) => {
                    process.exited().await;
                    tracing::info!(status = ?process.reap(), "the reboot command has ended");
                }
                Err(error) => tracing::error!(%error, "can't reboot"),
            }
            tokio::time::sleep(DEATH_LIMIT).await;
        };
        self.attend(dying).await?;
        tracing::error!(group = %self.context.group, "still here {DEATH_LIMIT:?} after the reboot command");
        Ok(())
    }
}
