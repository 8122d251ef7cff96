//! The composition root: the only place that knows every part.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rollcall_ident::Fence;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::config::{Config, ServiceConfig};
use crate::disk::{
    DataDirLock, DiskError, Identity, Layout, LockError, SessionMemory, boot_id, create_dir, highest_fence, machine_id,
};
use crate::driver::NotBuilt;
use crate::http;
use crate::metrics::Metrics;
use crate::package::PackageStore;
use crate::service::{Configs, FenceFloor, NodeContext, Service, ServiceContext, ServiceError};
use crate::session::{Outbox, Router, run_session};

/// Open requests get this long to end.
const HTTP_GRACE: Duration = Duration::from_secs(1);

/// Why the agent can't go on.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// The data folder is another agent's, or can't be locked.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The data folder can't be used.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// A service's config asks for what this agent hasn't got.
    #[error("service {group}: {source}")]
    Driver {
        /// Which service.
        group: rollcall_ident::GroupName,
        /// What.
        source: NotBuilt,
    },
    /// A service can't be looked after.
    #[error("service {group}: {source}")]
    Service {
        /// Which one.
        group: rollcall_ident::GroupName,
        /// Why.
        source: ServiceError,
    },
    /// A part of a service ended.
    #[error(transparent)]
    Part(ServiceError),
    /// The HTTP address can't be used.
    #[error("can't listen on http = {address}: {source}. Is it in use? Set another one, or leave `http` out")]
    Listen {
        /// Which one.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// A task panicked: a bug.
    #[error("a part of the agent has failed: {0}")]
    Panicked(#[from] tokio::task::JoinError),
}

/// Runs an agent until `shutdown` is cancelled. Services are left running.
///
/// # Errors
/// [`AppError`] names the thing and the way out; nothing that was stored is lost.
pub async fn run(config: Config, shutdown: CancellationToken) -> Result<(), AppError> {
    // First of all: preparing the folder removes what interrupted writes left, and another agent may be writing.
    create_dir(&config.data_dir)?;
    let _lock = DataDirLock::acquire(&config.data_dir)?;
    let layout = Layout::prepare(&config.data_dir)?;
    let memory = SessionMemory::load(&layout)?;
    let node = Arc::new(node_context(&config, &layout, &memory)?);
    tracing::info!(
        name = %node.name, node_id = %node.node_id, boot_id = %node.boot_id,
        data_dir = %layout.root().display(), version = env!("CARGO_PKG_VERSION"), "agent"
    );
    let store = PackageStore::open(&layout.packages())?;
    let listener = listen(config.http).await?;

    let mut tasks = JoinSet::new();
    let mut services = Vec::new();
    for service in &config.services {
        services.push(start_service(&node, &layout, &store, service, &mut tasks).await?);
    }
    let views = services.iter().map(Service::view).collect();
    let router = Router::new(services);
    let http_shutdown = shutdown.child_token();
    let http =
        listener.map(|listener| tokio::spawn(http::serve(listener, views, Arc::clone(&node), http_shutdown.clone())));
    let session = tokio::spawn(run_session(Arc::clone(&node), config.endpoints, memory, router));

    let outcome = tokio::select! {
        () = shutdown.cancelled() => Ok(()),
        Some(ended) = tasks.join_next() => match ended {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(AppError::Part(error)),
            Err(error) => Err(AppError::Panicked(error)),
        },
    };
    session.abort();
    tasks.shutdown().await;
    if let Some(http) = http {
        http_shutdown.cancel();
        let _ = tokio::time::timeout(HTTP_GRACE, http).await;
    }
    tracing::info!("the agent ends; services are left running");
    outcome
}

fn node_context(config: &Config, layout: &Layout, memory: &SessionMemory) -> Result<NodeContext, DiskError> {
    let machine_id = config.machine_id.clone().unwrap_or_else(machine_id);
    let identity = Identity::load_or_create(layout.root(), &machine_id)?;
    let journalled = highest_fence(layout)?;
    let is_from_elsewhere = memory.is_from_elsewhere(&identity.locus) && !identity.is_rewritten;
    if is_from_elsewhere {
        tracing::error!(
            node_id = %identity.node_id,
            "the data folder lay elsewhere when the cluster last knew this node: it was copied, moved or restored. Nothing \
             is started or ended from it until a peer has given this node orders"
        );
    }
    if identity.is_new && journalled > Fence::default() {
        tracing::error!(
            "both copies of this node's identity are lost, so it comes as a new one: `rollcall node replace {} {}` gives it \
             the old one's place, `rollcall node remove {}` forgets the old one",
            config.name,
            identity.node_id,
            config.name
        );
    }
    Ok(NodeContext {
        name: config.name.clone(),
        node_id: identity.node_id,
        identity_locus: identity.locus,
        machine_id,
        hosts_peer: config.hosts_peer.clone(),
        boot_id: boot_id()?,
        labels: config.labels.clone(),
        reboot_command: config.reboot_command.clone(),
        reboot_patience: config.reboot_patience,
        outbox: Outbox::default(),
        fence: FenceFloor::new(journalled, memory.fence()),
        is_confirmed: watch::Sender::new(!is_from_elsewhere),
        fetching: tokio::sync::Mutex::default(),
        in_use: Mutex::default(),
        metrics: Metrics::default(),
    })
}

async fn start_service(
    node: &Arc<NodeContext>,
    layout: &Layout,
    store: &PackageStore,
    config: &ServiceConfig,
    tasks: &mut JoinSet<Result<(), ServiceError>>,
) -> Result<Service, AppError> {
    let group = config.group.clone();
    config.driver.check_built().map_err(|source| AppError::Driver { group: group.clone(), source })?;
    let service_layout = layout.prepare_service(&group)?;
    let context = Arc::new(ServiceContext {
        node: Arc::clone(node),
        group: group.clone(),
        configs: Configs::new(service_layout.root().to_owned(), config.config.clone()),
        layout: service_layout,
        store: store.clone(),
        source: config.source.clone(),
        health_check_interval: config.health_check_interval,
    });
    Service::start(context, tasks).await.map_err(|source| AppError::Service { group, source })
}

async fn listen(address: Option<SocketAddr>) -> Result<Option<TcpListener>, AppError> {
    let Some(address) = address else { return Ok(None) };
    let listener = TcpListener::bind(address).await.map_err(|source| AppError::Listen { address, source })?;
    if let Ok(bound) = listener.local_addr() {
        tracing::info!(http = %bound, "listening");
    }
    Ok(Some(listener))
}
