//! The end of a step, however it ends: the service is up, or left as it is, as the journal says; `undrain` has run where
//! `drain` had begun.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rollcall_steps::{Ending, Event, Hook, Phase, ServicePlan, Status};

use super::engine::{Engine, lock};
use super::hooks::failure_of;
use crate::disk::JournalError;
use crate::driver::Backoff;
use crate::hooks::{Exit, HookEnd, HookReason};
use crate::package::Release;

/// BOUND: an `undrain` that says "call me again" for so long won't come to an end.
const UNDRAIN_LIMIT: Duration = Duration::from_secs(3600);

impl Engine {
    /// Ends the step.
    pub(super) async fn end(&mut self, ending: Ending) -> Result<(), JournalError> {
        if !matches!(self.step().status, Status::Ending { .. }) {
            // Its answer isn't waited for, and nobody shall hear it ask for a step that is over.
            self.end_survivor(Hook::ReadyToUpdate).await;
            self.append(&[Event::EndBegun { ending, boot_id: self.context.node.boot_id }]).await?;
        }
        let step = self.step();
        if let Some(release) = self.release_to_keep_up() {
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

    /// The release that should be up from now on; none: nothing runs, and nothing is to be started.
    fn release_to_keep_up(&self) -> Option<Arc<Release>> {
        let plan = ServicePlan::of(lock(&self.journal).state());
        match plan {
            ServicePlan::KeepUp => self.current_release(),
            ServicePlan::KeepIfUp => self.running_release(),
            ServicePlan::LeaveAsIs | ServicePlan::AwaitStart => None,
        }
    }

    /// Runs `undrain` until it is done; its end where it failed.
    async fn undrain(&mut self) -> Result<Option<HookEnd>, JournalError> {
        let Some(release) = self.current_release() else { return Ok(None) };
        let phase = self.step().phase();
        // Where the service is left down, it won't be any readier when it is asked again.
        let limit = if self.step().leaves_service_as_is() { Duration::ZERO } else { UNDRAIN_LIMIT };
        let mut backoff = Backoff::standard();
        let begun = Instant::now();
        loop {
            let Some(end) = self.run_hook(&release, Hook::Undrain, phase).await? else { return Ok(None) };
            match end.exit {
                Exit::Code(75) if begun.elapsed() < limit => {
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
        if ending == Ending::TurnedBack {
            let opened = self.step().opened;
            self.turned_back = Some((opened.fence, opened.attempt));
        }
        self.append(&[Event::StepClosed { ending, timings }]).await?;
        tracing::info!(group = %self.context.group, ?ending, ?timings, "step closed");
        self.urge_status();
        if ending == Ending::Finished {
            self.remove_old_releases().await?;
        }
        Ok(())
    }
}
