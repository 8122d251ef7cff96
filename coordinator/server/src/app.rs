//! The composition root: the only place that knows every part of a peer, what it is made with, and in which order it
//! begins and ends.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::Stream;
use rollcall_proto::v1::{
    agent_service_server::AgentServiceServer, channel_service_server::ChannelServiceServer,
    cluster_service_server::ClusterServiceServer, event_service_server::EventServiceServer,
    group_service_server::GroupServiceServer, node_service_server::NodeServiceServer,
    rollout_service_server::RolloutServiceServer, token_service_server::TokenServiceServer,
    window_service_server::WindowServiceServer,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tonic::server::NamedService;
use tonic::transport::server::{Connected, Router, TcpIncoming};

use rollcall_rollout::PeerFacts;

use crate::announce::announce;
use crate::config::Config;
use crate::http::{self, Page};
use crate::leader;
use crate::metrics::Metrics;
use crate::raft::{Consensus, Peer, PeerConfig, StartError};
use crate::services::{
    Agents, Api, Channels, ClusterClock, Clusters, Events, Groups, MAX_ANSWER_BYTES, MAX_REQUEST_BYTES, Nodes,
    Rollouts, Tokens, Windows, report_health,
};
use crate::sessions::Sessions;

/// BOUND: calls and streams on one connection: a peer forwards the writes of all its sessions over one.
const STREAMS_PER_CONNECTION: u32 = 4_096;

/// A connection whose other end is gone is noticed within these two, whatever TCP says.
const KEEPALIVE_EVERY: Duration = Duration::from_secs(10);
const KEEPALIVE_PATIENCE: Duration = Duration::from_secs(5);

/// BOUND: for connections to end in order, once everything that matters has ended.
const LINGER: Duration = Duration::from_secs(1);

/// Why a peer doesn't run, or runs no more.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// It can't listen.
    #[error("can't listen at {address} for {what}; is another process there? `{option}` chooses another address")]
    Listen {
        /// Where.
        address: String,
        /// For what.
        what: &'static str,
        /// The option that says where.
        option: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// Others can't reach what it would advertise.
    #[error(
        "the peer listens at {listens}, which others can't reach by that name; say how they do with `--advertise HOST:PORT`"
    )]
    Advertise {
        /// Where it listens.
        listens: SocketAddr,
    },
    /// Consensus or storage doesn't start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// Reflection can't be built: a defect of the build.
    #[error("the API's descriptors are damaged: {0}")]
    Descriptors(#[from] tonic_reflection::server::Error),
    /// Its disk or consensus has failed.
    #[error("this peer has stopped: {0}")]
    Stopped(String),
}

/// Runs a peer until `shutdown`.
///
/// # Errors
/// [`AppError`] says why it doesn't run, or runs no more, and what to do.
pub async fn run(config: Config, shutdown: impl Future<Output = ()>) -> Result<(), AppError> {
    let app = App::start(config).await?;
    let failure = tokio::select! {
        () = shutdown => None,
        failure = app.failed() => Some(failure),
    };
    tracing::info!("stopping");
    app.stop().await;
    match failure {
        None => Ok(()),
        Some(failure) => Err(AppError::Stopped(failure)),
    }
}

/// A running peer.
pub struct App {
    peer: Peer,
    grpc: SocketAddr,
    http: Option<SocketAddr>,
    /// Ends sessions, watches and the leader's work.
    stopping: CancellationToken,
    /// Ends the listeners.
    closing: CancellationToken,
    servers: Vec<JoinHandle<()>>,
}

impl App {
    /// Starts a peer: listens first, so that a port in use is told before anything is touched.
    ///
    /// # Errors
    /// [`AppError`] names what stands in the way, and the way out.
    pub async fn start(config: Config) -> Result<Self, AppError> {
        let (grpc_listener, grpc) = listen(&config.grpc, "gRPC", "--grpc").await?;
        let (http_listener, http) = listen(&config.http, "HTTP", "--http").await?;
        let incoming = TcpIncoming::from(grpc_listener).with_nodelay(Some(true));
        let (mut app, page) = Self::assemble(config, grpc, incoming).await?;
        app.servers.push(tokio::spawn(http::serve(http_listener, page, app.closing.clone())));
        app.http = Some(http);
        tracing::info!(%grpc, %http, advertise = app.peer.address(), "listening");
        Ok(app)
    }

    /// Starts a peer whose connections come from elsewhere, as if it listened for them at `grpc`: from a simulated network.
    /// There is nobody who listens for HTTP.
    ///
    /// # Errors
    /// As of [`start`](Self::start).
    pub async fn start_on<IO: Incoming>(
        config: Config,
        grpc: SocketAddr,
        incoming: impl Stream<Item = std::io::Result<IO>> + Send + 'static,
    ) -> Result<Self, AppError> {
        Ok(Self::assemble(config, grpc, incoming).await?.0)
    }

    /// Everything but what is served by HTTP: the page is what would be.
    async fn assemble<IO: Incoming>(
        config: Config,
        grpc: SocketAddr,
        incoming: impl Stream<Item = std::io::Result<IO>> + Send + 'static,
    ) -> Result<(Self, Page), AppError> {
        let address = match config.advertise {
            Some(address) => address,
            None if grpc.ip().is_unspecified() => return Err(AppError::Advertise { listens: grpc }),
            None => grpc.to_string(),
        };
        let metrics = Metrics::default();
        let peer = Peer::start(PeerConfig {
            data_dir: config.data_dir,
            address,
            tuning: config.tuning,
            observers: metrics.observers(),
        })
        .await?;
        let (stopping, closing) = (CancellationToken::new(), CancellationToken::new());
        let clock = ClusterClock::default();
        let api = Api::new(peer.clone(), clock.clone(), stopping.clone());
        let sessions = Sessions::start(peer.running(), stopping.clone());
        let facts = PeerFacts {
            machine_id: config.machine_id,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            feature_level: rollcall_rollout::LEVEL,
        };
        tokio::spawn(once_running(peer.running(), facts, stopping.clone(), clock.clone()));
        let router = services(&peer, &api, &sessions)?;
        let closed = closing.clone().cancelled_owned();
        let grpc_server = tokio::spawn(async move {
            if let Err(error) = router.serve_with_incoming_shutdown(incoming, closed).await {
                tracing::error!(%error, "the gRPC listener has failed");
            }
        });
        let registry = metrics.registry(peer.clone(), sessions, clock);
        let page = Page { peer: peer.clone(), metrics: Arc::new(registry) };
        Ok((Self { peer, grpc, http: None, stopping, closing, servers: vec![grpc_server] }, page))
    }

    /// The peer.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Where it listens for gRPC.
    pub fn grpc(&self) -> SocketAddr {
        self.grpc
    }

    /// Where it listens for HTTP, if it does.
    pub fn http(&self) -> Option<SocketAddr> {
        self.http
    }

    /// Resolves when the peer can't go on, with the reason.
    pub async fn failed(&self) -> String {
        let mut running = self.peer.running();
        let consensus = match running.wait_for(Option::is_some).await {
            Ok(running) => running.clone(),
            Err(_) => None,
        };
        match consensus {
            Some(consensus) => match consensus.stopped().await {
                Some(reason) => reason,
                // It was told to.
                None => std::future::pending().await,
            },
            None => std::future::pending().await,
        }
    }

    /// Stops in order: sessions and watches end, so that agents go elsewhere while this peer can still pass their hellos
    /// on; leadership is handed over; then nobody is listened to any more.
    pub async fn stop(self) {
        self.stopping.cancel();
        self.peer.shutdown().await;
        self.closing.cancel();
        for mut server in self.servers {
            if timeout(LINGER, &mut server).await.is_err() {
                server.abort();
            }
        }
    }
}

/// A connection that comes in.
pub trait Incoming: AsyncRead + AsyncWrite + Connected + Unpin + Send + 'static {}

impl<T: AsyncRead + AsyncWrite + Connected + Unpin + Send + 'static> Incoming for T {}

async fn listen(
    address: &str,
    what: &'static str,
    option: &'static str,
) -> Result<(TcpListener, SocketAddr), AppError> {
    let failed = |source| AppError::Listen { address: address.to_owned(), what, option, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}

/// What begins when the peer has a cluster.
async fn once_running(
    mut running: watch::Receiver<Option<Consensus>>,
    facts: PeerFacts,
    stopping: CancellationToken,
    clock: ClusterClock,
) {
    let Ok(running) = running.wait_for(Option::is_some).await.map(|running| running.clone()) else { return };
    if let Some(consensus) = running {
        tokio::spawn(clock.follow(consensus.clone()));
        tokio::spawn(announce(consensus.clone(), facts, stopping.clone()));
        leader::lead(consensus, stopping).await;
    }
}

/// All that is served at the one gRPC port.
fn services(peer: &Peer, api: &Api, sessions: &Sessions) -> Result<Router, AppError> {
    macro_rules! limited {
        ($service:expr) => {
            $service.max_decoding_message_size(MAX_REQUEST_BYTES).max_encoding_message_size(MAX_ANSWER_BYTES)
        };
    }
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(rollcall_proto::DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let (reporter, health) = tonic_health::server::health_reporter();
    tokio::spawn(report_health(reporter, names(), peer.running()));
    Ok(tonic::transport::Server::builder()
        .http2_keepalive_interval(Some(KEEPALIVE_EVERY))
        .http2_keepalive_timeout(Some(KEEPALIVE_PATIENCE))
        .max_concurrent_streams(Some(STREAMS_PER_CONNECTION))
        .add_service(peer.peer_service())
        .add_service(limited!(AgentServiceServer::new(Agents { api: api.clone(), sessions: sessions.clone() })))
        .add_service(limited!(GroupServiceServer::new(Groups(api.clone()))))
        .add_service(limited!(RolloutServiceServer::new(Rollouts(api.clone()))))
        .add_service(limited!(NodeServiceServer::new(Nodes(api.clone()))))
        .add_service(limited!(TokenServiceServer::new(Tokens(api.clone()))))
        .add_service(limited!(ChannelServiceServer::new(Channels(api.clone()))))
        .add_service(limited!(WindowServiceServer::new(Windows(api.clone()))))
        .add_service(limited!(EventServiceServer::new(Events(api.clone()))))
        .add_service(limited!(ClusterServiceServer::new(Clusters(api.clone()))))
        .add_service(health)
        .add_service(reflection().build_v1()?)
        .add_service(reflection().build_v1alpha()?))
}

/// The services whose health is reported one by one.
fn names() -> Vec<&'static str> {
    vec![
        AgentServiceServer::<Agents>::NAME,
        GroupServiceServer::<Groups>::NAME,
        RolloutServiceServer::<Rollouts>::NAME,
        NodeServiceServer::<Nodes>::NAME,
        TokenServiceServer::<Tokens>::NAME,
        ChannelServiceServer::<Channels>::NAME,
        WindowServiceServer::<Windows>::NAME,
        EventServiceServer::<Events>::NAME,
        ClusterServiceServer::<Clusters>::NAME,
    ]
}
