//! How the service stands, put together, and reported when anything in it changes.

use std::sync::Arc;

use rollcall_ident::{GroupName, ReleaseIdent};
use rollcall_steps::Instance;
use tokio::sync::watch;

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

    /// Whether a report is due after `before`. Another detail alone is none: checks print numbers that always change.
    fn is_news_after(&self, before: &Self) -> bool {
        let detail = before.detail.clone();
        Self { detail, ..self.clone() } != *before
    }
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

/// Publishes the status for ever, and reports what is news.
pub(super) async fn publish_status(
    context: Arc<ServiceContext>,
    mut inputs: Inputs,
    status: watch::Sender<ServiceStatus>,
) {
    let mut reported: Option<ServiceStatus> = None;
    let mut urged = *inputs.urged.borrow_and_update();
    loop {
        let now = inputs.status(&context.group);
        let urge = *inputs.urged.borrow_and_update();
        let is_due = urge != urged || reported.as_ref().is_none_or(|before| now.is_news_after(before));
        if is_due && !now.is_pending {
            context.node.metrics.note_health(&context.group, now.health);
            context.node.outbox.push_status(now.clone());
            reported = Some(now.clone());
            urged = urge;
        }
        status.send_replace(now);
        if inputs.changed().await.is_err() {
            return;
        }
    }
}
