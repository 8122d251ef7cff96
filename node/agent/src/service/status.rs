//! How the service stands, put together, and reported when anything in it changes.

use std::sync::Arc;
use std::time::Duration;

use rollcall_ident::{GroupName, ReleaseIdent};
use rollcall_steps::Instance;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::ServiceContext;
use super::health::{Health, HealthView};

/// How one service stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceStatus {
    /// The service's group.
    pub group: GroupName,
    /// The release that runs, or would be started; none: never provisioned.
    pub release: Option<ReleaseIdent>,
    /// The process; none: none runs.
    pub instance: Option<Instance>,
    /// None: never provisioned.
    pub health: Option<Health>,
    /// Why it isn't healthy.
    pub detail: String,
    /// It says that it is the primary.
    pub primary: bool,
    /// What `suitability` says.
    pub priority: Option<u64>,
    /// A release that lies on the disk, verified, beside the current one.
    pub prefetched: Option<ReleaseIdent>,
    /// The service wasn't looked at yet: the rest says nothing.
    pub is_pending: bool,
}

impl ServiceStatus {
    /// Before anything is known.
    #[must_use]
    pub fn unknown(group: GroupName) -> Self {
        Self {
            group,
            release: None,
            instance: None,
            health: None,
            detail: String::new(),
            primary: false,
            priority: None,
            prefetched: None,
            is_pending: true,
        }
    }

    /// What is new after `before`.
    fn news_after(&self, before: &Self) -> News {
        let detail = before.detail.clone();
        if self == before {
            News::None
        } else if (Self { detail, ..self.clone() }) == *before {
            News::Detail
        } else {
            News::Status
        }
    }
}

/// What is new in a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum News {
    None,
    /// Only the words: checks print numbers that always change, so they have to wait.
    Detail,
    Status,
}

/// What a status is put together from.
pub(super) struct Inputs {
    pub current: watch::Receiver<Option<ReleaseIdent>>,
    pub health: watch::Receiver<HealthView>,
    pub prefetched: watch::Receiver<Option<ReleaseIdent>>,
    /// Counted up where the coordinator should hear of the status although nothing in it changed.
    pub urged: watch::Receiver<u64>,
}

impl Inputs {
    fn status(&mut self, group: &GroupName) -> ServiceStatus {
        let release = self.current.borrow_and_update().clone();
        let health = self.health.borrow_and_update().clone();
        let prefetched = self.prefetched.borrow_and_update().clone().filter(|there| Some(there) != release.as_ref());
        ServiceStatus {
            group: group.clone(),
            health: (release.is_some() || health.instance.is_some()).then_some(health.health),
            release,
            instance: health.instance,
            detail: health.detail,
            primary: health.primary,
            priority: health.priority,
            prefetched,
            is_pending: health.is_pending,
        }
    }

    async fn changed(&mut self) -> Result<(), watch::error::RecvError> {
        tokio::select! {
            changed = self.current.changed() => changed,
            changed = self.health.changed() => changed,
            changed = self.prefetched.changed() => changed,
            changed = self.urged.changed() => changed,
        }
    }
}

/// Publishes the status for ever, and reports what is news: at once, but another detail alone at most once per interval of
/// the health check.
pub(super) async fn publish_status(
    context: Arc<ServiceContext>,
    mut inputs: Inputs,
    status: watch::Sender<ServiceStatus>,
) {
    let interval = Duration::from_millis(context.health_check_interval.0);
    let mut reported: Option<(ServiceStatus, Instant)> = None;
    let mut urged = *inputs.urged.borrow_and_update();
    loop {
        let now = inputs.status(&context.group);
        let urge = *inputs.urged.borrow_and_update();
        let due_at = match &reported {
            _ if now.is_pending => None,
            Some((before, at)) if urge == urged => match now.news_after(before) {
                News::None => None,
                News::Detail => Some(*at + interval),
                News::Status => Some(Instant::now()),
            },
            _ => Some(Instant::now()),
        };
        status.send_replace(now.clone());
        if due_at.is_some_and(|at| at <= Instant::now()) {
            context.node.metrics.note_health(&context.group, now.health);
            context.node.outbox.push_status(now.clone());
            reported = Some((now, Instant::now()));
            urged = urge;
            continue;
        }
        tokio::select! {
            changed = inputs.changed() => if changed.is_err() { return },
            () = until(due_at) => {}
        }
    }
}

async fn until(due_at: Option<Instant>) {
    match due_at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}
