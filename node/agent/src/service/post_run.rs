//! The `post-run` hook: after each start, in the background, again until it succeeds or the process is another one.

use std::sync::Arc;

use rollcall_steps::Hook;
use tokio::sync::watch;

use super::ServiceContext;
use super::context::new_token;
use crate::driver::{Backoff, ProcessView};
use crate::hooks::{Exit, HookReason};

/// Runs `post-run` for every process that is started from now on. One that was re-adopted has had it.
pub(super) async fn run_post_run(context: Arc<ServiceContext>, mut process: watch::Receiver<ProcessView>) {
    let mut last = process.borrow_and_update().instance.clone();
    while let Ok(()) = process.changed().await {
        let instance = process.borrow_and_update().instance.clone();
        if instance == last {
            continue;
        }
        last.clone_from(&instance);
        let Some(instance) = instance else { continue };
        let Ok(release) = context.load(&instance.release) else { continue };
        let mut backoff = Backoff::standard();
        while let Some(run) = context.hook_run(&release, Hook::PostRun, HookReason::Start, None, new_token()) {
            let exit = run.run().await.exit;
            if exit == Exit::Code(0) || process.borrow().instance.as_ref() != Some(&instance) {
                break;
            }
            tracing::warn!(group = %context.group, %exit, "post-run will be tried again");
            tokio::time::sleep(backoff.next_delay()).await;
        }
    }
}
