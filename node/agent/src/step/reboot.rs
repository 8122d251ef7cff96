//! Rebooting the machine for an install hook that asked for it.

use std::process::{Command, Stdio};
use std::time::Duration;

use rollcall_steps::{FailureReason, Phase};

use super::engine::{Engine, failure};
use crate::disk::JournalError;
use crate::driver::Backoff;
use crate::hooks::Exit;
use crate::process::Process;

/// The coordinator should know why the node is about to vanish; if it can't be told, the journal will tell it later.
const REPORT_LIMIT: Duration = Duration::from_secs(5);

/// BOUND: a machine that so many commands haven't rebooted won't be by another one: the step fails, which brings the service
/// back up.
const TRIES: u32 = 3;

impl Engine {
    /// Runs the reboot command and waits to die. A machine that is still there is asked again, a few times.
    pub(super) async fn reboot(&mut self) -> Result<(), JournalError> {
        let reached = u32::try_from(self.step().milestones.len()).unwrap_or(u32::MAX);
        let mut answered = self.answered.subscribe();
        let reported = async move { answered.wait_for(|count| *count >= reached).await.map(|_| ()) };
        let _ = self.attend(tokio::time::timeout(REPORT_LIMIT, reported)).await?;
        let mut backoff = Backoff::standard();
        let mut last = String::new();
        for _ in 0..TRIES {
            if self.is_to_end() {
                return Ok(());
            }
            let pause = match self.attend(run_command(&self.context.node.reboot_command.clone())).await? {
                Ok(()) => {
                    let patience = Duration::from_millis(self.context.node.reboot_patience.0);
                    last = format!("it is still there {patience:?} after the command has ended well");
                    patience
                }
                Err(why) => {
                    last = why;
                    backoff.next_delay()
                }
            };
            self.attend(tokio::time::sleep(pause)).await?;
            tracing::error!(group = %self.context.group, "the machine wasn't rebooted: {last}");
        }
        if self.is_to_end() {
            return Ok(());
        }
        let command = &self.context.node.reboot_command;
        let detail =
            format!("reboot_command {command:?} was run {TRIES} times and the machine wasn't rebooted: {last}");
        self.fail(Phase::Rebooting, failure(FailureReason::RebootFailed, detail)).await
    }
}

async fn run_command(command: &[String]) -> Result<(), String> {
    let (program, arguments) = command.split_first().ok_or("it is empty in the agent's config")?;
    tracing::warn!(?command, "rebooting");
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut process = Process::spawn(&mut command).await.map_err(|error| error.to_string())?;
    process.exited().await;
    match process.reap().map(Exit::from) {
        Some(Exit::Code(0)) => Ok(()),
        Some(exit) => Err(format!("the command {exit}")),
        None => Err("how the command ended is lost".to_owned()),
    }
}
