//! The session itself: hello, then orders in, reports out, heartbeats between.
//!
//! It ends anywhere and begins anew with another peer; nothing that matters lives in it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rollcall_ident::{Fence, GroupName, Revision};
use rollcall_proto::v1::agent_message::Kind as Out;
use rollcall_proto::v1::agent_service_client::AgentServiceClient;
use rollcall_proto::v1::peer_message::Kind as In;
use rollcall_proto::v1::{AgentMessage, Heartbeat, Hello, Orders, PeerMessage, Refused, Welcome};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::{Channel, Endpoint};

use super::convert;
use super::endpoints::Endpoints;
use super::outbox::Answer;
use crate::disk::SessionMemory;
use crate::service::{GroupOrders, NodeContext, Service};

/// A peer that doesn't take the connection by then is tried later.
const CONNECT_LIMIT: Duration = Duration::from_secs(1);

/// Opening a session is a write to the log: an election may be on.
const WELCOME_LIMIT: Duration = Duration::from_secs(10);

/// A half-open connection is noticed within the sum of these.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);
const KEEPALIVE_LIMIT: Duration = Duration::from_secs(2);

/// A health check may take 10 s; saying hello without knowing anything is better than never.
const FIRST_LOOK_LIMIT: Duration = Duration::from_secs(12);

/// After a refusal that only a person can lift.
const REFUSED_PAUSE: Duration = Duration::from_secs(30);

/// BOUND: orders name a handful of groups; a failure's output has 4 KiB.
const MESSAGE_BYTES: usize = 1 << 20;

/// BOUND: of what waits to be written to the connection.
const OUTGOING: usize = 64;

/// BOUND: the coordinator may ask for heartbeats, but not for a flood or for none.
const HEARTBEAT_MS: std::ops::RangeInclusive<u64> = 50..=60_000;

/// Brings orders to services.
#[derive(Debug)]
pub struct Router {
    services: BTreeMap<GroupName, Service>,
    /// Orders older than these are of a peer that lags.
    revision: u64,
}

/// Why a session ended.
#[derive(Debug, thiserror::Error)]
enum SessionEnd {
    #[error("can't connect: {}", chain(.0))]
    Connect(#[source] tonic::transport::Error),
    #[error("{0}")]
    Status(#[from] Box<tonic::Status>),
    #[error("no welcome within {WELCOME_LIMIT:?}")]
    NoWelcome,
    #[error("refused ({}): {}", .0.reason, .0.message)]
    Refused(Refused),
    #[error("the peer has ended the session")]
    Ended,
    #[error("the first message was no welcome")]
    Protocol,
    #[error(
        "the peer belongs to cluster {found}, this node to {own}: correct `endpoints`, or empty the data folder to let it \
         join there as a new node"
    )]
    OtherCluster { own: String, found: String },
}

impl Router {
    /// Over these services.
    #[must_use]
    pub fn new(services: Vec<Service>) -> Self {
        let services = services.into_iter().map(|service| (service.group().clone(), service)).collect();
        Self { services, revision: 0 }
    }

    /// Waits until something can be said about every service, but not for ever: a health check may hang.
    async fn looked_at(&self) {
        let all = async {
            for service in self.services.values() {
                service.looked_at().await;
            }
        };
        let _ = timeout(FIRST_LOOK_LIMIT, all).await;
    }

    fn route(&mut self, orders: &Orders) {
        if orders.revision < self.revision {
            tracing::debug!(revision = orders.revision, newest = self.revision, "orders of a peer that lags");
            return;
        }
        self.revision = orders.revision;
        tracing::debug!(revision = orders.revision, "orders");
        let revision = Revision(orders.revision);
        let mut understood = BTreeMap::new();
        let mut garbled = Vec::new();
        for wire in &orders.groups {
            match convert::group_orders(wire) {
                Ok((group, orders)) => {
                    understood.insert(group, orders);
                }
                Err(error) => {
                    tracing::error!(group = wire.group, %error, "orders that make no sense are not followed");
                    garbled.push(wire.group.clone());
                }
            }
        }
        for (group, service) in &self.services {
            // What can't be understood is no reason to drop what was understood before.
            if !garbled.iter().any(|name| name == group.as_str()) {
                let orders = understood.remove(group).unwrap_or_else(GroupOrders::default);
                service.order(orders, revision);
            }
        }
        for group in understood.keys() {
            tracing::debug!(%group, "orders for a group that this agent's config doesn't list");
        }
    }
}

/// Keeps a session for ever, with one peer or another.
pub async fn run_session(
    node: Arc<NodeContext>,
    configured: Vec<String>,
    mut memory: SessionMemory,
    mut router: Router,
) {
    router.looked_at().await;
    let mut endpoints = Endpoints::new(&configured, memory.endpoints());
    loop {
        let endpoint = endpoints.current().to_owned();
        let mut session = Session { node: &node, memory: &mut memory, router: &mut router };
        let end = session.run(&endpoint, &configured, &mut endpoints).await;
        node.metrics.note_session(false);
        let pause = match &end {
            SessionEnd::Refused(refused) if !refused.retry => {
                tracing::error!(
                    endpoint, node_id = %node.node_id, name = %node.name, reason = refused.reason,
                    "the coordinator refuses this node: {}. Trying again every {REFUSED_PAUSE:?}", refused.message
                );
                endpoints.another();
                REFUSED_PAUSE
            }
            end => {
                let pause = endpoints.another();
                // Each peer once; after that it is no news.
                if endpoints.failure_count() <= endpoints.count() {
                    tracing::warn!(endpoint, %end, next = endpoints.current(), "no session");
                } else {
                    tracing::debug!(endpoint, %end, ?pause, next = endpoints.current(), "no session");
                }
                pause
            }
        };
        tokio::time::sleep(pause).await;
    }
}

struct Session<'a> {
    node: &'a Arc<NodeContext>,
    memory: &'a mut SessionMemory,
    router: &'a mut Router,
}

impl Session<'_> {
    async fn run(&mut self, endpoint: &str, configured: &[String], endpoints: &mut Endpoints) -> SessionEnd {
        let (outgoing, mut incoming) = match self.open(endpoint).await {
            Ok(streams) => streams,
            Err(end) => return end,
        };
        let welcome = match receive_welcome(&mut incoming).await {
            Ok(welcome) => welcome,
            Err(end) => return end,
        };
        let own = self.memory.cluster_id();
        // A cluster that was recovered from ours is ours. From then on this agent serves the old one no more.
        let is_ours =
            own.is_empty() || own == welcome.cluster_id || welcome.former_cluster_ids.iter().any(|it| it == own);
        if !is_ours {
            return SessionEnd::OtherCluster { own: own.to_owned(), found: welcome.cluster_id };
        }
        tracing::info!(endpoint, epoch = welcome.epoch, cluster = welcome.cluster_id, "session");
        self.node.metrics.note_session(true);
        self.memory.store(&welcome.cluster_id, welcome.epoch, &welcome.endpoints);
        endpoints.learn(configured, &welcome.endpoints);
        endpoints.worked();
        self.node.outbox.begin_session();
        self.serve(&outgoing, &mut incoming, welcome.heartbeat_interval_ms).await
    }

    async fn open(&self, endpoint: &str) -> Result<(mpsc::Sender<AgentMessage>, Streaming<PeerMessage>), SessionEnd> {
        let channel = connect(endpoint).await.map_err(SessionEnd::Connect)?;
        let mut client = AgentServiceClient::new(channel)
            .max_decoding_message_size(MESSAGE_BYTES)
            .max_encoding_message_size(MESSAGE_BYTES);
        let (outgoing, stream) = mpsc::channel(OUTGOING);
        let hello = AgentMessage { kind: Some(Out::Hello(self.hello())) };
        outgoing.try_send(hello).expect("the channel is new");
        let opening = client.session(ReceiverStream::new(stream));
        let response = timeout(WELCOME_LIMIT, opening).await.map_err(|_| SessionEnd::NoWelcome)?;
        Ok((outgoing, response.map_err(Box::new)?.into_inner()))
    }

    fn hello(&self) -> Hello {
        let node = self.node;
        Hello {
            node_id: node.node_id.to_string(),
            node_name: node.name.to_string(),
            machine_id: node.machine_id.clone(),
            identity_locus: node.identity_locus.clone(),
            boot_id: node.boot_id.to_string(),
            agent_version: env!("CARGO_PKG_VERSION").to_owned(),
            labels: node.labels.clone().into_iter().collect(),
            services: self.router.services.values().map(|s| convert::service_status(s.status())).collect(),
            highest_fence: node.fence.get().0,
            last_epoch: self.memory.epoch(),
            cluster_id: self.memory.cluster_id().to_owned(),
            hosts_peer: node.hosts_peer.clone().unwrap_or_default(),
        }
    }

    async fn serve(
        &mut self,
        outgoing: &mpsc::Sender<AgentMessage>,
        incoming: &mut Streaming<PeerMessage>,
        heartbeat_ms: u64,
    ) -> SessionEnd {
        let heartbeat_ms = heartbeat_ms.clamp(*HEARTBEAT_MS.start(), *HEARTBEAT_MS.end());
        let mut heartbeats = interval(Duration::from_millis(heartbeat_ms));
        heartbeats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let sent = tokio::select! {
                message = incoming.message() => match message.map_err(Box::new) {
                    Ok(Some(message)) => match self.receive(message) {
                        Some(end) => return end,
                        None => Ok(()),
                    },
                    Ok(None) => return SessionEnd::Ended,
                    Err(status) => return status.into(),
                },
                () = self.node.outbox.arrived() => self.send_reports(outgoing).await,
                _ = heartbeats.tick() => {
                    outgoing.send(AgentMessage { kind: Some(Out::Heartbeat(Heartbeat {})) }).await
                }
            };
            if sent.is_err() {
                return SessionEnd::Ended;
            }
        }
    }

    /// Before the orders themselves: what they say of a step is judged by it.
    fn hear_fence(&mut self, known: Fence) {
        let before = self.node.fence.get();
        if self.node.fence.hear(known) {
            tracing::error!(
                fence = %before, known = %known,
                "the cluster knows this node by a higher fence than its journals do: the data folder is an older one, or has \
                 lost what was synced. No step up to that fence is begun, or begun again"
            );
        }
        self.memory.confirm(&self.node.identity_locus, known);
    }

    async fn send_reports(
        &self,
        outgoing: &mpsc::Sender<AgentMessage>,
    ) -> Result<(), mpsc::error::SendError<AgentMessage>> {
        for (number, report) in self.node.outbox.take_unsent() {
            outgoing.send(convert::report(number, report)).await?;
        }
        Ok(())
    }

    fn receive(&mut self, message: PeerMessage) -> Option<SessionEnd> {
        match message.kind {
            Some(In::Orders(orders)) => {
                self.hear_fence(Fence(orders.highest_fence));
                self.router.route(&orders);
                if !self.node.is_confirmed.send_replace(true) {
                    tracing::warn!("the cluster takes this data folder for the node's: going on with it");
                }
            }
            Some(In::Answer(answer)) => {
                let heard = Answer { refusal: answer.refusal, message: answer.message };
                self.node.outbox.answer(answer.number, &heard);
            }
            Some(In::Refused(refused)) => return Some(SessionEnd::Refused(refused)),
            // A later version may say more.
            Some(In::Welcome(_)) | None => {}
        }
        None
    }
}

/// An error with its causes: the outermost alone says "transport error".
fn chain(error: &dyn std::error::Error) -> String {
    std::iter::successors(error.source(), |error| error.source())
        .fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

async fn connect(endpoint: &str) -> Result<Channel, tonic::transport::Error> {
    Endpoint::from_shared(format!("http://{endpoint}"))?
        .connect_timeout(CONNECT_LIMIT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(KEEPALIVE_INTERVAL)
        .keep_alive_timeout(KEEPALIVE_LIMIT)
        .keep_alive_while_idle(true)
        .connect()
        .await
}

async fn receive_welcome(incoming: &mut Streaming<PeerMessage>) -> Result<Welcome, SessionEnd> {
    let message = timeout(WELCOME_LIMIT, incoming.message()).await.map_err(|_| SessionEnd::NoWelcome)?;
    match message.map_err(Box::new)?.and_then(|message| message.kind) {
        Some(In::Welcome(welcome)) => Ok(welcome),
        Some(In::Refused(refused)) => Err(SessionEnd::Refused(refused)),
        Some(In::Orders(_) | In::Answer(_)) => Err(SessionEnd::Protocol),
        None => Err(SessionEnd::Ended),
    }
}
