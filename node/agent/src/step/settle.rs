//! A hook that was started, and whose end nobody saw.

use std::time::Duration;

use rollcall_steps::{Ending, Event, FailureReason, Go, Hook, Phase, Rerun, RunToken, Settled, Status, Wanted, settle};

use super::engine::{Engine, failure, lets_go, until_spared};
use crate::disk::JournalError;
use crate::hooks::wait_for_survivor;
use crate::package::Release;

impl Engine {
    /// Waits for what is left of the hook, applies its policy, and goes on with its phase.
    pub(super) async fn settle(&mut self, hook: Hook) -> Result<(), JournalError> {
        let step = self.step();
        let release = self.release_of(hook).await;
        if let (Some(release), Some(mark)) = (&release, step.hook.filter(|mark| mark.hook == hook)) {
            let limit = release.manifest.timeout(hook);
            self.attend_survivor(hook, mark.token, limit).await?;
        }
        if self.is_overtaken(hook) {
            return Ok(());
        }
        let settled = match &release {
            Some(release) => self.apply_policy(release, hook).await?,
            None => Settled::RunAgain,
        };
        tracing::info!(group = %self.context.group, hook = hook.name(), ?settled, "its end was not seen");
        match settled {
            Settled::RunAgain | Settled::AskProbe => self.run_again(hook).await,
            Settled::Done => self.go_on_after(hook).await,
            // Only a step that would have succeeded can still fail; of any other the end is what it was.
            Settled::Fail if hook == Hook::Undrain && !self.would_finish() => self.go_on_after(hook).await,
            Settled::Fail => {
                let detail = format!("hook {} was started and nobody saw its end; it isn't run again", hook.name());
                let phase = phase_of(hook);
                self.fail(phase, failure(FailureReason::OutcomeUnknown, detail)).await
            }
        }
    }

    /// Waits for what is left of a hook of a step that ends by order; nothing of it is run again. A drain that has had its
    /// time is ended.
    pub(super) async fn let_end(&mut self, hook: Hook) -> Result<(), JournalError> {
        let step = self.step();
        let release = match hook {
            Hook::Install | Hook::Init => self.context.load(&step.opened.to).ok().map(std::sync::Arc::new),
            _ => self.current_release(),
        };
        if let Some(mark) = step.hook {
            // Without its release nobody knows how long it may take: it isn't waited for.
            let limit = release.map_or(Duration::ZERO, |release| release.manifest.timeout(hook));
            self.attend_survivor(hook, mark.token, limit).await?;
        }
        self.append(&[Event::HookEnded { hook }]).await
    }

    /// Waits for what is left of a hook, at most so long. A drain is ended before that where the orders don't wait for it.
    async fn attend_survivor(&mut self, hook: Hook, token: RunToken, limit: Duration) -> Result<(), JournalError> {
        let (orders, step) = (self.orders.clone(), self.step());
        let cut = async move {
            match hook {
                Hook::Drain => until_spared(orders, step, hook, Go::Replace).await,
                _ => std::future::pending().await,
            }
        };
        let log = self.context.layout.log(hook.name());
        self.attend(wait_for_survivor(token, limit, &log, cut)).await
    }

    /// Whether the orders have made it needless to know how the hook has ended; `decide` looks at them again.
    fn is_overtaken(&mut self, hook: Hook) -> bool {
        match hook {
            Hook::Drain => {
                let step = self.step();
                let wanted = self.wanted(&step);
                lets_go(wanted, Go::Replace) || !matches!(wanted, Wanted::Step(_) | Wanted::NotHeard)
            }
            Hook::Install | Hook::Init => self.is_to_end(),
            _ => false,
        }
    }

    fn would_finish(&self) -> bool {
        matches!(self.step().status, Status::Ending { ending: Ending::Finished, .. })
    }

    async fn release_of(&mut self, hook: Hook) -> Option<std::sync::Arc<Release>> {
        match hook {
            Hook::Install | Hook::Init => self.target().await.ok().map(std::sync::Arc::new),
            _ => self.current_release(),
        }
    }

    async fn apply_policy(&mut self, release: &Release, hook: Hook) -> Result<Settled, JournalError> {
        let policy: Rerun = release.manifest.rerun(hook, release.hook(Hook::Probe).is_some());
        match settle(policy, None) {
            Settled::AskProbe => {
                let probe = self.run_probe(release, phase_of(hook)).await;
                Ok(settle(policy, Some(probe)))
            }
            settled => Ok(settled),
        }
    }

    /// Not journalled: a probe only asks.
    async fn run_probe(&mut self, release: &Release, phase: Phase) -> Option<i32> {
        let step = self.step();
        let reason = crate::hooks::HookReason::Step(step.opened.reason);
        let facts = Some(crate::hooks::StepFacts::of(&step, phase));
        let token = crate::service::new_token();
        let run = self.context.hook_run(release, Hook::Probe, reason, facts, token)?;
        let end = run.run().await;
        self.clock.add_hook(end.took);
        end.exit.code()
    }

    async fn run_again(&mut self, hook: Hook) -> Result<(), JournalError> {
        match hook {
            Hook::Drain => self.drain().await,
            Hook::Install => self.install().await,
            Hook::Init => self.start(true).await,
            _ => {
                let Status::Ending { ending, .. } = self.step().status else {
                    unreachable!("only undrain is left, and it runs while a step ends")
                };
                self.end(ending).await
            }
        }
    }

    async fn go_on_after(&mut self, hook: Hook) -> Result<(), JournalError> {
        match hook {
            Hook::Drain => self.done(Phase::Draining, true).await,
            Hook::Install => self.done(Phase::Installing, true).await,
            Hook::Init => self.start(false).await,
            _ => self.append(&[Event::HookEnded { hook }]).await,
        }
    }
}

fn phase_of(hook: Hook) -> Phase {
    match hook {
        Hook::Drain => Phase::Draining,
        Hook::Install => Phase::Installing,
        Hook::Init => Phase::Starting,
        _ => Phase::Verifying,
    }
}
