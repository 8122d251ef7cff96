//! Fetching releases: without a token, without disturbing anything.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rollcall_ident::{Digest, ReleaseIdent};
use rollcall_steps::Hook;
use tokio::sync::watch;

use super::ServiceContext;
use super::orders::{GroupOrders, Target};
use crate::disk::Journal;
use crate::driver::Backoff;
use crate::package::FetchError;
use crate::session::PrefetchOutcome;

/// A source that hasn't got the release yet, or a full disk, may change: asked again by back-off up to this.
const RETRY_LIMIT: Duration = Duration::from_secs(60);

/// A release that lies on the disk, verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fetched {
    /// Of what was fetched.
    pub digest: Digest,
    /// Whether nodes that run it may go back to an earlier release.
    pub rollback: bool,
}

/// Sees that a release lies on the disk, verified, and can be run by the service's driver.
///
/// # Errors
/// [`FetchError`]
pub async fn fetch(context: &Arc<ServiceContext>, target: &Target) -> Result<Fetched, FetchError> {
    let _one_at_a_time = context.node.fetching.lock().await;
    let (context, target) = (Arc::clone(context), target.clone());
    let work = move || {
        let digest = context.store.fetch(&context.source, &target.release, target.digest)?;
        if let Some(text) = &target.config {
            context.configs.keep(&target.release, text)?;
        }
        let release = context.load(&target.release)?;
        if release.hook(Hook::Run).is_none() {
            let problem = "it has no hooks/run, which driver = \"supervise\" needs".to_owned();
            return Err(FetchError::Damaged { ident: target.release, problem });
        }
        Ok(Fetched { digest, rollback: release.manifest.rollback })
    };
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        // The runtime is going down.
        Err(_) => std::future::pending().await,
    }
}

/// Fetches what the orders name, reports how that went, once in each session, and tries again what failed.
pub(super) async fn run_prefetch(
    context: Arc<ServiceContext>,
    mut orders: watch::Receiver<Option<GroupOrders>>,
    journal: Arc<Mutex<Journal>>,
    prefetched: watch::Sender<Option<ReleaseIdent>>,
) {
    let mut sessions = context.node.outbox.sessions();
    loop {
        sessions.mark_unchanged();
        let target = target_of(&orders.borrow_and_update());
        let work = async {
            if let Some(target) = &target {
                fetch_until_there(&context, target, &journal, &prefetched).await;
                // The cluster may be another one than was told: recovered, or made of a backup.
                let _ = sessions.changed().await;
            } else {
                std::future::pending().await
            }
        };
        tokio::select! {
            () = work => {}
            changed = orders.wait_for(|orders| target_of(orders) != target) => if changed.is_err() { return },
        }
    }
}

fn target_of(orders: &Option<GroupOrders>) -> Option<Target> {
    orders.as_ref().and_then(|orders| orders.prefetch.clone())
}

async fn fetch_until_there(
    context: &Arc<ServiceContext>,
    target: &Target,
    journal: &Mutex<Journal>,
    prefetched: &watch::Sender<Option<ReleaseIdent>>,
) {
    let mut backoff = Backoff::new(Duration::from_secs(1), RETRY_LIMIT);
    let mut last_failure = None;
    loop {
        let fetched = fetch(context, target).await;
        let failure = fetched.as_ref().err().map(|error| (error.name(), error.to_string()));
        // The same failure again is no news.
        if failure.is_none() || failure != last_failure {
            report(context, target, &fetched);
        }
        if fetched.is_ok() {
            let current = journal.lock().unwrap_or_else(PoisonError::into_inner).state().current.clone();
            prefetched.send_replace(Some(target.release.clone()).filter(|release| Some(release) != current.as_ref()));
            return;
        }
        last_failure = failure;
        tokio::time::sleep(backoff.next_delay()).await;
    }
}

fn report(context: &ServiceContext, target: &Target, fetched: &Result<Fetched, FetchError>) {
    let (failure, detail) = match fetched {
        Ok(Fetched { digest, .. }) => {
            tracing::info!(group = %context.group, release = %target.release, %digest, "fetched and verified");
            (String::new(), String::new())
        }
        Err(error) => {
            tracing::error!(group = %context.group, release = %target.release, %error, "can't fetch the release");
            (error.name().to_owned(), error.to_string())
        }
    };
    context.node.outbox.push_prefetch(PrefetchOutcome {
        group: context.group.clone(),
        release: target.release.clone(),
        failure,
        detail,
        digest: fetched.as_ref().ok().map(|fetched| fetched.digest),
        // Of what couldn't be fetched nobody knows; it isn't run either.
        rollback: fetched.as_ref().map_or(true, |fetched| fetched.rollback),
    });
}
