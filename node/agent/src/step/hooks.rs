//! Hooks of a step: journalled before they start, judged by their exit.

use std::sync::Arc;

use rollcall_steps::{Event, Failure, FailureReason, Go, Hook, Phase, Wanted};

use super::engine::{Engine, lets_go, lock};
use crate::disk::JournalError;
use crate::driver::Backoff;
use crate::hooks::{Exit, HookEnd, HookReason, StepFacts};
use crate::package::Release;
use crate::service::new_token;

/// `EX_TEMPFAIL`, and what Habitat's hooks say.
const NOT_YET: [i32; 2] = [75, 21];

/// How a hook that is asked again and again has answered.
pub(super) enum Polled {
    /// Yes, or the orders don't wait for it any more.
    Ready { hook_ran: bool },
    /// No, for good.
    Failed(Failure),
    /// The orders want something else.
    Interrupted,
}

impl Engine {
    /// The release that runs; none: nothing does, or its hooks are gone.
    pub(super) fn running_release(&self) -> Option<Arc<Release>> {
        let instance = self.process.borrow().instance.clone()?;
        self.load(&instance.release)
    }

    /// The release that runs, or would be started.
    pub(super) fn current_release(&self) -> Option<Arc<Release>> {
        let current = lock(&self.journal).state().current.clone()?;
        self.load(&current)
    }

    fn load(&self, ident: &rollcall_ident::ReleaseIdent) -> Option<Arc<Release>> {
        self.context
            .store
            .load(ident)
            .inspect_err(|error| tracing::error!(group = %self.context.group, %error, "its hooks can't be run"))
            .map(Arc::new)
            .ok()
    }

    /// Runs a hook of the step to its end; none: the release hasn't got it.
    pub(super) async fn run_hook(
        &mut self,
        release: &Release,
        hook: Hook,
        phase: Phase,
    ) -> Result<Option<HookEnd>, JournalError> {
        let step = self.step();
        let token = new_token();
        let reason = HookReason::Step(step.opened.reason);
        let facts = Some(StepFacts::of(&step, phase));
        let Some(run) = self.context.hook_run(release, hook, reason, facts, token) else { return Ok(None) };
        if is_journalled(hook) {
            self.append(&[Event::HookStarted { hook, token }]).await?;
        }
        let end = run.run().await;
        self.clock.add_hook(end.took);
        Ok(Some(end))
    }

    /// Asks a hook until it is ready, it fails, or the orders want something else. Orders that let the step go to `next`
    /// don't wait for it any more.
    pub(super) async fn poll_hook(
        &mut self,
        release: &Release,
        hook: Hook,
        phase: Phase,
        next: Go,
    ) -> Result<Polled, JournalError> {
        let mut backoff = Backoff::standard();
        loop {
            let Some(end) = self.run_hook(release, hook, phase).await? else {
                return Ok(Polled::Ready { hook_ran: false });
            };
            match end.exit.code() {
                Some(0) => return Ok(Polled::Ready { hook_ran: true }),
                Some(code) if NOT_YET.contains(&code) => {
                    if is_journalled(hook) {
                        self.append(&[Event::HookEnded { hook }]).await?;
                    }
                }
                _ => return Ok(Polled::Failed(failure_of(hook, end))),
            }
            let again = tokio::time::sleep(backoff.next_delay());
            tokio::pin!(again);
            loop {
                let step = self.step();
                let wanted = self.wanted(&step);
                if lets_go(wanted, next) {
                    return Ok(Polled::Ready { hook_ran: true });
                }
                if !matches!(wanted, Wanted::Step(_) | Wanted::NotHeard) {
                    return Ok(Polled::Interrupted);
                }
                tokio::select! {
                    () = &mut again => break,
                    _ = self.orders.changed() => {}
                }
            }
        }
    }
}

/// `ready-to-update` only asks; that it was asked changes nothing.
fn is_journalled(hook: Hook) -> bool {
    hook != Hook::ReadyToUpdate
}

/// What a hook's end means as a failure.
pub(super) fn failure_of(hook: Hook, end: HookEnd) -> Failure {
    let reason = match &end.exit {
        Exit::Code(_) | Exit::Signal(_) => FailureReason::HookFailed,
        Exit::TimedOut(_) => FailureReason::HookTimeout,
        Exit::NotStarted(_) => FailureReason::HookNotExecutable,
    };
    Failure { reason, detail: format!("hook {} {}", hook.name(), end.exit), output: end.output.tail }
}
