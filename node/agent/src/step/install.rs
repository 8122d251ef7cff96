//! Installing: once per release, service and node.

use rollcall_steps::{Event, Failure, FailureReason, Hook, Phase, StepOpened};

use super::engine::{Engine, failure, lock};
use super::hooks::failure_of;
use crate::disk::JournalError;
use crate::driver::Backoff;
use crate::package::Release;
use crate::service::{Target, fetch};

enum Installed {
    Done {
        hook_ran: bool,
    },
    /// Done, and the machine is to be rebooted.
    WantsReboot,
    Failed(Failure),
    /// It has failed, and isn't tried again: the step is to end.
    Overtaken,
}

impl Engine {
    /// Runs `install` of the target, unless it has succeeded here before.
    pub(super) async fn install(&mut self) -> Result<(), JournalError> {
        self.begin(Phase::Installing).await?;
        let step = self.step();
        if lock(&self.journal).state().installed.contains(&step.opened.to.bare()) {
            return self.done(Phase::Installing, false).await;
        }
        let release = match self.target().await {
            Ok(release) => release,
            Err(failure) => return self.fail(Phase::Installing, failure).await,
        };
        if self.is_to_end() {
            return Ok(());
        }
        match self.run_install(&release).await? {
            Installed::Done { hook_ran } => self.done(Phase::Installing, hook_ran).await,
            Installed::WantsReboot if step.reboots >= step.opened.max_reboots => {
                let detail = format!("install asks for another reboot after {} of them", step.reboots);
                self.fail(Phase::Installing, failure(FailureReason::MaxReboots, detail)).await
            }
            Installed::WantsReboot => self.append(&[Event::RebootAsked { boot_id: self.context.node.boot_id }]).await,
            Installed::Failed(failure) => self.fail(Phase::Installing, failure).await,
            Installed::Overtaken => Ok(()),
        }
    }

    /// The target's release. Preparing has brought it here; should it be gone since, it is brought again.
    pub(super) async fn target(&mut self) -> Result<Release, Failure> {
        let opened = self.step().opened;
        if let Ok(release) = self.context.load(&opened.to) {
            return Ok(release);
        }
        let target = self.ordered_target(opened);
        let unavailable = |error| failure(FailureReason::PackageUnavailable, error);
        fetch(&self.context, &target).await.map_err(unavailable)?;
        self.context.load(&target.release).map_err(unavailable)
    }

    /// The target, with what the orders say of its configuration while they are about this step.
    pub(super) fn ordered_target(&self, opened: StepOpened) -> Target {
        let orders = self.orders.borrow();
        let step = orders.as_ref().and_then(|orders| orders.step.as_ref()).filter(|step| step.opened.to == opened.to);
        Target { config: step.and_then(|step| step.config.clone()), release: opened.to, digest: opened.digest }
    }

    async fn run_install(&mut self, release: &Release) -> Result<Installed, JournalError> {
        let mut backoff = Backoff::standard();
        let mut retries = release.manifest.retries(Hook::Install);
        loop {
            let Some(end) = self.run_hook(release, Hook::Install, Phase::Installing).await? else {
                return Ok(Installed::Done { hook_ran: false });
            };
            match end.exit.code() {
                Some(0) => return Ok(Installed::Done { hook_ran: true }),
                Some(code) if release.manifest.reboot_exit_codes.contains(&code) => return Ok(Installed::WantsReboot),
                _ if retries == 0 => return Ok(Installed::Failed(failure_of(Hook::Install, end))),
                _ => {
                    retries -= 1;
                    tracing::warn!(group = %self.context.group, exit = %end.exit, retries, "install is tried again");
                    self.append(&[Event::HookEnded { hook: Hook::Install }]).await?;
                    self.attend(tokio::time::sleep(backoff.next_delay())).await?;
                    if self.is_to_end() {
                        return Ok(Installed::Overtaken);
                    }
                }
            }
        }
    }
}
