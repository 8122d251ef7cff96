//! The end of a step, however it ends: the current release runs, `undrain` has run where `drain` had begun.

use std::time::{Duration, Instant};

use rollcall_steps::{Ending, Event, Hook, Phase, Status};

use super::engine::Engine;
use super::hooks::failure_of;
use crate::disk::JournalError;
use crate::driver::Backoff;
use crate::hooks::{Exit, HookEnd, HookReason};

/// BOUND: an `undrain` that says "call me again" for so long won't come to an end.
const UNDRAIN_LIMIT: Duration = Duration::from_secs(3600);

impl Engine {
    /// Ends the step.
    pub(super) async fn end(&mut self, ending: Ending) -> Result<(), JournalError> {
        if !matches!(self.step().status, Status::Ending { .. }) {
            self.append(&[Event::EndBegun { ending, boot_id: self.context.node.boot_id }]).await?;
        }
        let step = self.step();
        if let Some(release) = self.current_release() {
            self.supervisor.keep_up(release, HookReason::Step(step.opened.reason)).await;
        }
        if step.owes_undrain()
            && let Some(end) = self.undrain().await?
        {
            if ending == Ending::Finished {
                return self.fail(Phase::Verifying, failure_of(Hook::Undrain, end)).await;
            }
            tracing::error!(group = %self.context.group, exit = %end.exit, "undrain failed: {}", end.output.tail);
        }
        self.close(ending).await
    }

    /// Runs `undrain` until it is done; its end where it failed.
    async fn undrain(&mut self) -> Result<Option<HookEnd>, JournalError> {
        let Some(release) = self.current_release() else { return Ok(None) };
        let phase = self.step().phase();
        let mut backoff = Backoff::standard();
        let begun = Instant::now();
        loop {
            let Some(end) = self.run_hook(&release, Hook::Undrain, phase).await? else { return Ok(None) };
            match end.exit {
                Exit::Code(75) if begun.elapsed() < UNDRAIN_LIMIT => {
                    tokio::time::sleep(backoff.next_delay()).await;
                }
                exit => {
                    self.append(&[Event::HookEnded { hook: Hook::Undrain }]).await?;
                    return Ok((exit != Exit::Code(0)).then_some(HookEnd { exit, ..end }));
                }
            }
        }
    }

    async fn close(&mut self, ending: Ending) -> Result<(), JournalError> {
        let timings = self.clock.timings();
        self.append(&[Event::StepClosed { ending, timings }]).await?;
        tracing::info!(group = %self.context.group, ?ending, ?timings, "step closed");
        self.urge_status();
        if ending == Ending::Finished {
            self.remove_old_releases().await?;
        }
        Ok(())
    }
}
