//! Puts one service together: recovers it from its journal and sets its parts going.

use std::sync::{Arc, Mutex};

use rollcall_ident::{ReleaseIdent, Revision};
use rollcall_steps::{Baseline, Event, Facts, Instance, Milestone, Recovery, recover};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::ServiceContext;
use super::health::{HealthSettings, HealthView, watch_health};
use super::orders::{GroupOrders, Target};
use super::post_run::run_post_run;
use super::prefetch::{fetch, run_prefetch};
use super::status::{Inputs, ServiceStatus, publish_status};
use crate::disk::{DiskError, Journal, JournalError, read_sealed_text};
use crate::driver::{Supervisor, find_running};
use crate::hooks::HookReason;
use crate::step::{Engine, Surroundings};

/// Why a service can't be looked after.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// Its files can't be used.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// Its journal can't be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A part of it ended: a bug.
    #[error("the {part} of {group} has ended unexpectedly")]
    Ended {
        /// Which part.
        part: &'static str,
        /// Of which service.
        group: rollcall_ident::GroupName,
    },
}

/// A service that is being looked after.
#[derive(Debug)]
pub struct Service {
    context: Arc<ServiceContext>,
    orders: watch::Sender<Option<GroupOrders>>,
    status: watch::Receiver<ServiceStatus>,
}

impl Service {
    /// Recovers the service and sets its parts going on `tasks`; each of them only ends with an error.
    ///
    /// # Errors
    /// [`ServiceError`] where its files can't be used.
    pub async fn start(
        context: Arc<ServiceContext>,
        tasks: &mut JoinSet<Result<(), ServiceError>>,
    ) -> Result<Self, ServiceError> {
        let mut journal = Journal::open(&context.layout.journal())?;
        restore_current(&context, &mut journal)?;
        let facts = Facts { boot_id: context.node.boot_id };
        let recovery = recover(journal.events(), &facts).expect("opening the journal has folded it");
        let running = find_running(
            &context.layout,
            context.node.node_id,
            &context.group,
            context.node.boot_id,
            last_instance(&recovery),
        );
        log_recovery(&context, &recovery, running.as_ref().map(|found| &found.instance));

        let supervisor = Supervisor::spawn(Arc::clone(&context), running);
        Ok(Self::set_going(context, journal, supervisor, tasks))
    }

    fn set_going(
        context: Arc<ServiceContext>,
        journal: Journal,
        supervisor: Supervisor,
        tasks: &mut JoinSet<Result<(), ServiceError>>,
    ) -> Self {
        let (current, current_seen) = watch::channel(journal.state().current.clone());
        let journal = Arc::new(Mutex::new(journal));
        let (orders, orders_seen) = watch::channel(None);
        let (settings, settings_seen) = watch::channel(HealthSettings::default());
        let (health, health_seen) = watch::channel(HealthView::pending());
        let (prefetched, prefetched_seen) = watch::channel(None);
        let (urged, urged_seen) = watch::channel(0);
        let (status, status_seen) = watch::channel(ServiceStatus::unknown(context.group.clone()));

        let inputs = Inputs {
            current: current_seen,
            health: health_seen.clone(),
            prefetched: prefetched_seen,
            urged: urged_seen,
        };
        let mut part = |name, work| spawn_part(tasks, &context, name, work);
        part("health watch", Box::pin(watch_health(Arc::clone(&context), supervisor.view(), settings_seen, health)));
        part("post-run", Box::pin(run_post_run(Arc::clone(&context), supervisor.view())));
        part("status", Box::pin(publish_status(Arc::clone(&context), inputs, status)));
        let prefetch = run_prefetch(Arc::clone(&context), orders_seen.clone(), Arc::clone(&journal), prefetched);
        part("prefetch", Box::pin(prefetch));
        let surroundings = Surroundings { orders: orders_seen, health: health_seen, settings, current, urged };
        let engine = Engine::new(Arc::clone(&context), journal, supervisor, surroundings);
        tasks.spawn(engine.run());
        Self { context, orders, status: status_seen }
    }

    /// The group.
    #[must_use]
    pub fn group(&self) -> &rollcall_ident::GroupName {
        &self.context.group
    }

    /// New orders, as they were at this revision. A fence is the revision of its grant.
    pub fn order(&self, orders: GroupOrders, revision: Revision) {
        let are_current = revision.0 >= self.context.node.fence.get().0;
        let orders = GroupOrders { are_current, ..orders };
        self.orders.send_if_modified(|last| {
            let is_new = last.as_ref() != Some(&orders);
            *last = Some(orders);
            is_new
        });
    }

    /// The status, and every change of it.
    #[must_use]
    pub fn view(&self) -> watch::Receiver<ServiceStatus> {
        self.status.clone()
    }

    /// Completes once the service was looked at, so that something can be said about it.
    pub async fn looked_at(&self) {
        let _ = self.status.clone().wait_for(|status| !status.is_pending).await;
    }

    /// The status as it stands.
    #[must_use]
    pub fn status(&self) -> ServiceStatus {
        self.status.borrow().clone()
    }
}

type Work = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

fn spawn_part(
    tasks: &mut JoinSet<Result<(), ServiceError>>,
    context: &Arc<ServiceContext>,
    part: &'static str,
    work: Work,
) {
    let group = context.group.clone();
    tasks.spawn(async move {
        work.await;
        Err(ServiceError::Ended { part, group })
    });
}

/// A journal that was lost (not merely torn) doesn't cost the service its release: the second copy has it.
fn restore_current(context: &ServiceContext, journal: &mut Journal) -> Result<(), ServiceError> {
    if !journal.events().is_empty() {
        return Ok(());
    }
    let text = read_sealed_text(&context.layout.current())?.unwrap_or_default();
    let Ok(current) = text.trim().parse::<ReleaseIdent>() else { return Ok(()) };
    tracing::warn!(group = %context.group, release = %current, "the journal is empty; going on from the second copy");
    let baseline = Baseline { installed: [current.bare()].into(), current: Some(current), ..Baseline::default() };
    journal.append(&[Event::Baseline(baseline)])?;
    Ok(())
}

/// The instance that the journal knows of, should the records of it be lost.
fn last_instance(recovery: &Recovery) -> Option<Instance> {
    let milestones = &recovery.state.step.as_ref()?.milestones;
    milestones.iter().rev().find_map(|milestone| match milestone {
        Milestone::Started(instance) => Some(instance.clone()),
        _ => None,
    })
}

fn log_recovery(context: &ServiceContext, recovery: &Recovery, running: Option<&Instance>) {
    let step = recovery.state.open_step();
    tracing::info!(
        group = %context.group,
        current = %recovery.state.current.as_ref().map_or_else(|| "none".to_owned(), ToString::to_string),
        running = %running.map_or_else(|| "nothing".to_owned(), |instance| instance.pid.to_string()),
        service = if recovery.state.is_left_down { "left down by order" } else { "to be up" },
        step = %step.map_or_else(|| "none open".to_owned(), |step| format!("{:?}", step.status)),
        next = ?recovery.action,
        "recovered"
    );
}

/// Sees that the current release is up, where it can be had.
pub async fn keep_up(
    context: &Arc<ServiceContext>,
    supervisor: &Supervisor,
    current: Option<&ReleaseIdent>,
    is_running: bool,
) {
    let Some(current) = current else { return };
    let release = match context.load(current) {
        Ok(release) => Ok(release),
        Err(_) => {
            let target = Target { release: current.clone(), digest: None, config: None };
            fetch(context, &target).await.and_then(|_| context.load(current))
        }
    };
    match release {
        Ok(release) => supervisor.keep_up(Arc::new(release), HookReason::Start).await,
        Err(error) if is_running => tracing::error!(%error, "the service runs, but can't be started again"),
        Err(error) => tracing::error!(%error, "the service can't be started"),
    }
}
