//! Calls to other peers.
//!
//! Each peer is reached over two connections, so that a snapshot or a long batch never stands in front of a heartbeat
//! or a vote. Both are opened when they are needed, again and again, and kept alive.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, TryFutureExt as _};
use hyper_util::rt::TokioIo;
use rollcall_ident::PeerId;
use tonic::client::Grpc;
use tonic::codegen::http::Uri;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status, Streaming};
use tower::service_fn;

use super::api::PeerProblem;
use super::codec::{FrameCodec, MAX_FRAME_BYTES};
use super::wire::{self, BodyV1, RefusalV1, ReplyV1, RequestV1};
use crate::storage::Identity;
use crate::world::simulated;

/// BOUND: a machine that is off doesn't answer at all; on a network where a handshake takes longer Raft's own deadlines
/// don't hold either.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// A connection that went dead without a word is given up after both of these.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(3);

/// BOUND: what may be in flight to a peer on one stream, and on all of a connection.
const STREAM_WINDOW_BYTES: u32 = 4 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 8 << 20;

/// How much longer than its caller the receiver of a call works on it.
const RECEIVER_GRACE: Duration = Duration::from_millis(50);

/// Which of the two connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane {
    /// Small and urgent: heartbeats, votes, questions, forwarded writes.
    Control,
    /// Entries and snapshots.
    Bulk,
}

/// Why a call brought no reply.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum CallError {
    /// No connection: nothing was sent.
    #[error("no connection to {address}: {what}")]
    NotConnected { address: String, what: String },
    /// The connection broke, or the peer's server failed: the request may have arrived.
    #[error("{address} gave no answer: {what}")]
    Broken { address: String, what: String },
    /// The time was over: the request may have arrived.
    #[error("{address} didn't answer within {timeout:?}")]
    TimedOut { address: String, timeout: Duration },
    /// The peer looked at the envelope only, and refused.
    #[error("{address} refuses: {refusal}")]
    Refused { address: String, refusal: RefusalV1 },
    /// The answer makes no sense.
    #[error("{address} gave an answer that can't be read: {what}")]
    Malformed { address: String, what: String },
}

impl CallError {
    /// The request was certainly never looked at.
    pub(super) fn is_unsent(&self) -> bool {
        match self {
            Self::NotConnected { .. } | Self::Refused { .. } => true,
            Self::Broken { .. } | Self::TimedOut { .. } | Self::Malformed { .. } => false,
        }
    }
}

/// Connections to the other peers, and what is wrong with them. Clones share both.
#[derive(Debug, Clone)]
pub(super) struct Clients {
    me: Identity,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    connections: Mutex<BTreeMap<String, Connections>>,
    problems: Mutex<BTreeMap<PeerId, PeerProblem>>,
    /// Where the peers are by the membership in force.
    addresses: Mutex<BTreeMap<PeerId, String>>,
}

#[derive(Debug, Clone)]
struct Connections {
    control: Channel,
    bulk: Channel,
}

/// Checks that `address` is `host:port`, and nothing else.
///
/// # Errors
/// What is expected.
pub fn check_address(address: &str) -> Result<(), String> {
    let expected = || String::from("host:port, as the other peers resolve it");
    let (host, port) = address.rsplit_once(':').ok_or_else(expected)?;
    let port_is_good = port.parse::<u16>().is_ok_and(|port| port != 0);
    let uri = format!("http://{address}").parse::<Uri>().map_err(|_| expected())?;
    let plain =
        uri.path() == "/" && uri.query().is_none() && uri.authority().is_some_and(|a| !a.as_str().contains('@'));
    if host.is_empty() || !port_is_good || !plain { Err(expected()) } else { Ok(()) }
}

impl Clients {
    pub(super) fn new(me: Identity) -> Self {
        Self { me, shared: Arc::default() }
    }

    /// A client for one peer. Nothing is connected yet.
    ///
    /// # Errors
    /// The address isn't one.
    pub(super) fn to(&self, peer: PeerId, address: &str) -> Result<PeerClient, String> {
        check_address(address)?;
        let mut connections = self.shared.connections.lock().unwrap_or_else(PoisonError::into_inner);
        let connections = match connections.get(address) {
            Some(known) => known.clone(),
            None => {
                let endpoint = endpoint(address)?;
                let new = Connections { control: connect(&endpoint), bulk: connect(&endpoint) };
                connections.insert(address.to_owned(), new.clone());
                new
            }
        };
        Ok(PeerClient { clients: self.clone(), to: peer, address: address.to_owned(), connections })
    }

    /// A client for a peer where the membership in force says that it is; at `address` where it says nothing.
    ///
    /// # Errors
    /// The address isn't one.
    pub(super) fn to_member(&self, peer: PeerId, address: &str) -> Result<PeerClient, String> {
        let known = self.shared.addresses.lock().unwrap_or_else(PoisonError::into_inner).get(&peer).cloned();
        self.to(peer, known.as_deref().unwrap_or(address))
    }

    /// Takes in where the peers are: drops the connections to others, and what was noted about them.
    pub(super) fn keep_to(&self, peers: BTreeMap<PeerId, String>) {
        let mut connections = self.shared.connections.lock().unwrap_or_else(PoisonError::into_inner);
        connections.retain(|address, _| peers.values().any(|known| known == address));
        let mut problems = self.shared.problems.lock().unwrap_or_else(PoisonError::into_inner);
        problems.retain(|peer, _| peers.contains_key(peer));
        *self.shared.addresses.lock().unwrap_or_else(PoisonError::into_inner) = peers;
    }

    /// What is wrong with a peer, as its last call showed.
    pub(super) fn problem(&self, peer: PeerId) -> Option<PeerProblem> {
        self.shared.problems.lock().unwrap_or_else(PoisonError::into_inner).get(&peer).cloned()
    }

    /// Notes what a call showed, and logs it when it is news: heartbeats would say it four times a second.
    fn note(&self, peer: PeerId, address: &str, problem: Option<PeerProblem>) {
        let mut problems = self.shared.problems.lock().unwrap_or_else(PoisonError::into_inner);
        match (problems.get(&peer), problem) {
            (None, None) => {}
            (Some(_), None) => {
                problems.remove(&peer);
                tracing::info!(peer = peer.0, address, "peer takes part again");
            }
            (known, Some(problem)) => {
                let news = known.is_none_or(|known| std::mem::discriminant(known) != std::mem::discriminant(&problem));
                if news {
                    match &problem {
                        PeerProblem::Unreachable { .. } => tracing::warn!(peer = peer.0, address, "peer: {problem}"),
                        PeerProblem::Blank { .. } | PeerProblem::SomebodyElse { .. } | PeerProblem::WeAreRemoved => {
                            tracing::error!(peer = peer.0, address, "peer: {problem}");
                        }
                    }
                }
                problems.insert(peer, problem);
            }
        }
    }
}

fn endpoint(address: &str) -> Result<Endpoint, String> {
    Ok(Endpoint::from_shared(format!("http://{address}"))
        .map_err(|error| error.to_string())?
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(KEEP_ALIVE_INTERVAL)
        .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES))
}

/// A connection that is made when it is needed, again and again.
fn connect(endpoint: &Endpoint) -> Channel {
    match simulated() {
        Some(world) => endpoint.connect_with_connector_lazy(service_fn(move |to: Uri| {
            let address = to.authority().map(ToString::to_string).unwrap_or_default();
            world.connect(address).map_ok(TokioIo::new)
        })),
        None => endpoint.connect_lazy(),
    }
}

/// Calls to one peer.
#[derive(Debug, Clone)]
pub(super) struct PeerClient {
    clients: Clients,
    to: PeerId,
    address: String,
    connections: Connections,
}

impl PeerClient {
    pub(super) fn me(&self) -> PeerId {
        self.clients.me.peer
    }

    /// The peer that is called.
    pub(super) fn peer(&self) -> PeerId {
        self.to
    }

    /// A message for this peer, ready to be sent.
    pub(super) fn frame(&self, body: BodyV1) -> Bytes {
        let Identity { cluster, peer } = self.clients.me;
        wire::seal(&RequestV1 { cluster, from: peer, to: self.to, body })
    }

    /// One request, one reply.
    pub(super) async fn call(&self, lane: Lane, body: BodyV1, timeout: Duration) -> Result<ReplyV1, CallError> {
        let mut request = Request::new(self.frame(body));
        // The receiver gives up when we do, but not before.
        request.set_timeout(timeout + RECEIVER_GRACE);
        let mut grpc = self.grpc(lane);
        let work = async {
            grpc.ready().await.map_err(|error| self.not_connected(&error))?;
            let reply = grpc.unary(request, PathAndQuery::from_static(wire::CALL), FrameCodec).await;
            reply.map(tonic::Response::into_inner).map_err(|status| self.failed(&status))
        };
        let reply = self.within(timeout, work).await;
        self.settle(reply)
    }

    /// Sends a stream of messages, and gets one reply when it has ended.
    pub(super) async fn send_stream(
        &self,
        path: &'static str,
        frames: impl Stream<Item = Bytes> + Send + 'static,
    ) -> Result<ReplyV1, CallError> {
        let mut grpc = self.grpc(Lane::Bulk);
        let work = async {
            grpc.ready().await.map_err(|error| self.not_connected(&error))?;
            let reply = grpc.client_streaming(Request::new(frames), PathAndQuery::from_static(path), FrameCodec).await;
            reply.map(tonic::Response::into_inner).map_err(|status| self.failed(&status))
        };
        let reply = work.await;
        self.settle(reply)
    }

    /// Opens a stream in both directions.
    pub(super) async fn open_stream(
        &self,
        path: &'static str,
        frames: impl Stream<Item = Bytes> + Send + 'static,
        timeout: Duration,
    ) -> Result<Streaming<Bytes>, CallError> {
        let mut grpc = self.grpc(Lane::Bulk);
        let work = async {
            grpc.ready().await.map_err(|error| self.not_connected(&error))?;
            let replies = grpc.streaming(Request::new(frames), PathAndQuery::from_static(path), FrameCodec).await;
            replies.map(tonic::Response::into_inner).map_err(|status| self.failed(&status))
        };
        let opened = self.within(timeout, work).await;
        if let Err(error) = &opened {
            self.note_error(error);
        }
        opened
    }

    /// Takes what came as a reply; refusals become errors, and either is noted.
    pub(super) fn settle(&self, reply: Result<Bytes, CallError>) -> Result<ReplyV1, CallError> {
        let address = self.address.clone();
        let reply = reply.and_then(|frame| match wire::open(&frame) {
            Ok(ReplyV1::Refused(refusal)) => Err(CallError::Refused { address, refusal }),
            Ok(reply) => Ok(reply),
            Err(error) => Err(CallError::Malformed { address, what: error.to_string() }),
        });
        match &reply {
            Ok(_) => self.clients.note(self.to, &self.address, None),
            Err(error) => self.note_error(error),
        }
        reply
    }

    /// What a broken stream, or a failed call, means.
    pub(super) fn failed(&self, status: &Status) -> CallError {
        let address = self.address.clone();
        if let Some(connect) = find_source::<tonic::ConnectError>(status) {
            return CallError::NotConnected { address, what: innermost(connect) };
        }
        CallError::Broken { address, what: describe(status) }
    }

    /// An answer of the wrong kind.
    pub(super) fn unexpected(&self, reply: &ReplyV1) -> CallError {
        let what = match reply {
            ReplyV1::Failed(what) => what.clone(),
            _ => String::from("a reply to another question"),
        };
        CallError::Malformed { address: self.address.clone(), what }
    }

    /// The time for something on this connection is over.
    pub(super) fn timed_out(&self, timeout: Duration) -> CallError {
        CallError::TimedOut { address: self.address.clone(), timeout }
    }

    async fn within<T>(
        &self,
        timeout: Duration,
        work: impl Future<Output = Result<T, CallError>>,
    ) -> Result<T, CallError> {
        match tokio::time::timeout(timeout, work).await {
            Ok(result) => result,
            Err(_) => Err(self.timed_out(timeout)),
        }
    }

    fn not_connected(&self, error: &tonic::transport::Error) -> CallError {
        CallError::NotConnected { address: self.address.clone(), what: innermost(error) }
    }

    /// Keeps what an error says about the peer.
    pub(super) fn note_error(&self, error: &CallError) {
        if self.to == wire::ANYBODY {
            return;
        }
        let problem = match error {
            CallError::Refused { refusal, .. } => match *refusal {
                RefusalV1::Blank { addressed } => PeerProblem::Blank { peer: addressed },
                RefusalV1::WrongCluster { ours, peer, .. } => PeerProblem::SomebodyElse { found: peer, cluster: ours },
                RefusalV1::WrongPeer { cluster, ours, .. } => PeerProblem::SomebodyElse { found: ours, cluster },
                RefusalV1::Removed { .. } => PeerProblem::WeAreRemoved,
                RefusalV1::AlreadyJoined { .. } | RefusalV1::Stopping | RefusalV1::Busy { .. } => return,
            },
            CallError::NotConnected { .. }
            | CallError::Broken { .. }
            | CallError::TimedOut { .. }
            | CallError::Malformed { .. } => PeerProblem::Unreachable { what: error.to_string() },
        };
        self.clients.note(self.to, &self.address, Some(problem));
    }

    fn grpc(&self, lane: Lane) -> Grpc<Channel> {
        let channel = match lane {
            Lane::Control => self.connections.control.clone(),
            Lane::Bulk => self.connections.bulk.clone(),
        };
        Grpc::new(channel).max_decoding_message_size(MAX_FRAME_BYTES).max_encoding_message_size(MAX_FRAME_BYTES)
    }
}

fn find_source<'a, T: std::error::Error + 'static>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a T> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        next = error.source();
    }
    None
}

/// The cause at the bottom: what is above it says only that something failed.
fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}

fn describe(status: &Status) -> String {
    match std::error::Error::source(status) {
        Some(source) => format!("{} ({})", status.message(), innermost(source)),
        None => format!("{}: {}", status.code().description(), status.message()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_host_and_port() {
        for good in ["127.0.0.1:7400", "peer-1.example:80", "[::1]:7400"] {
            assert_eq!(check_address(good), Ok(()), "{good}");
        }
        for bad in
            ["", "localhost", "localhost:", ":7400", "localhost:0", "localhost:70000", "http://a:1", "a:1/x", "u@a:1"]
        {
            assert!(check_address(bad).is_err(), "{bad}");
        }
    }
}
