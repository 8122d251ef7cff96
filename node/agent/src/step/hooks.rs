//! Hooks of a step: journalled before they start, judged by their exit.

use std::sync::Arc;

use rollcall_steps::{Event, Failure, FailureReason, Go, Hook, Phase, RunToken, StepState, Wanted};

use super::engine::{Engine, lets_go, lock, until_spared};
use crate::disk::JournalError;
use crate::driver::Backoff;
use crate::hooks::{Exit, HOOK_TOKEN, HookEnd, HookReason, StepFacts};
use crate::package::Release;
use crate::process::kill_by_environment;
use crate::service::new_token;

/// `EX_TEMPFAIL`, and what Habitat's hooks say.
const NOT_YET: [i32; 2] = [75, 21];

/// How a hook that is asked again and again has answered.
pub(super) enum Polled {
    /// Yes.
    Ready { hook_ran: bool },
    /// The orders don't wait for it any more.
    Forced,
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
        self.run_hook_unless(release, hook, phase, std::future::pending()).await
    }

    /// The same, but it is ended with its group when `cut` completes.
    async fn run_hook_unless(
        &mut self,
        release: &Release,
        hook: Hook,
        phase: Phase,
        cut: impl Future<Output = ()>,
    ) -> Result<Option<HookEnd>, JournalError> {
        let step = self.step();
        let marked = mark_to_reuse(&step, hook);
        let token = marked.unwrap_or_else(new_token);
        let reason = HookReason::Step(step.opened.reason);
        let facts = Some(StepFacts::of(&step, phase));
        let Some(run) = self.context.hook_run(release, hook, reason, facts, token) else { return Ok(None) };
        if marked.is_none() {
            self.append(&[Event::HookStarted { hook, token }]).await?;
        }
        let end = self.attend(run.run_unless(cut)).await?;
        self.clock.add_hook(end.took);
        Ok(Some(end))
    }

    /// Asks a hook until it is ready, it fails, or the orders want something else. Whatever of it runs is ended where the
    /// orders don't wait for it any more: they let the step go to `next`, or see [`until_spared`].
    pub(super) async fn poll_hook(
        &mut self,
        release: &Release,
        hook: Hook,
        phase: Phase,
        next: Go,
    ) -> Result<Polled, JournalError> {
        self.end_survivor(hook).await;
        if release.hook(hook).is_none() {
            return Ok(Polled::Ready { hook_ran: false });
        }
        let mut backoff = Backoff::standard();
        loop {
            let step = self.step();
            let cut = until_spared(self.orders.clone(), step, hook, next);
            if let Some(polled) = self.overtaken(next) {
                return Ok(polled);
            }
            let Some(end) = self.run_hook_unless(release, hook, phase, cut).await? else {
                return Ok(Polled::Ready { hook_ran: false });
            };
            match end.exit.code() {
                Some(0) => return Ok(Polled::Ready { hook_ran: true }),
                Some(code) if NOT_YET.contains(&code) => {
                    if hook != Hook::ReadyToUpdate {
                        self.append(&[Event::HookEnded { hook }]).await?;
                    }
                }
                _ if matches!(self.overtaken(next), Some(Polled::Forced)) => return Ok(Polled::Forced),
                _ if matches!(end.exit, Exit::CutOff) => return Ok(Polled::Interrupted),
                _ => return Ok(Polled::Failed(failure_of(hook, end))),
            }
            let again = tokio::time::sleep(backoff.next_delay());
            tokio::pin!(again);
            loop {
                if let Some(polled) = self.overtaken(next) {
                    return Ok(polled);
                }
                tokio::select! {
                    () = &mut again => break,
                    () = self.orders_changed() => {}
                }
            }
        }
    }

    /// How the orders spare the step the hook's answer; none: it is waited for.
    fn overtaken(&mut self, next: Go) -> Option<Polled> {
        let step = self.step();
        match self.wanted(&step) {
            wanted if lets_go(wanted, next) => Some(Polled::Forced),
            Wanted::Step(_) | Wanted::NotHeard => None,
            Wanted::TurnBack | Wanted::Gone | Wanted::Superseded => Some(Polled::Interrupted),
        }
    }

    /// Ends what an earlier life of the agent has left of a hook that is asked again, or not waited for any more.
    pub(super) async fn end_survivor(&self, hook: Hook) {
        let mark = self.step().hook.filter(|mark| mark.hook == hook && !mark.ended);
        if let Some(mark) = mark {
            let token = mark.token.to_string();
            let _ = tokio::task::spawn_blocking(move || kill_by_environment(HOOK_TOKEN, |found| found == token)).await;
        }
    }
}

/// `ready-to-update` only asks, however often: one mark is enough to find what is left of it.
fn mark_to_reuse(step: &StepState, hook: Hook) -> Option<RunToken> {
    let mark = step.hook.filter(|mark| mark.hook == hook && hook == Hook::ReadyToUpdate)?;
    Some(mark.token)
}

/// What a hook's end means as a failure.
pub(super) fn failure_of(hook: Hook, end: HookEnd) -> Failure {
    let reason = match &end.exit {
        Exit::Code(_) | Exit::Signal(_) | Exit::CutOff => FailureReason::HookFailed,
        Exit::TimedOut(_) => FailureReason::HookTimeout,
        Exit::NotStarted(_) => FailureReason::HookNotExecutable,
    };
    Failure { reason, detail: format!("hook {} {}", hook.name(), end.exit), output: end.output.tail }
}
