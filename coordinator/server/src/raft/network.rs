//! openraft's network, on top of the peer service.
//!
//! Single calls obey openraft's soft deadline. Two things last longer by design and have deadlines of their own: the
//! stream of appends, which is given up when nothing that is on its way is acknowledged for [`APPEND_STALL`], and a
//! snapshot, which is given up when a chunk isn't taken for [`SNAPSHOT_STALL`].

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::{FutureExt as _, Stream, StreamExt as _};
use openraft::base::{BoxFuture, BoxStream};
use openraft::errors::{NetworkError, RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::{Backoff, RPCOption, RaftNetworkFactory, RaftNetworkV2};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, StreamAppendError, StreamAppendResult,
    TransferLeaderRequest, TransferLeaderResponse, VoteRequest, VoteResponse,
};
use openraft::{OptionalSend, RPCTypes};
use rollcall_ident::PeerId;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::client::{CallError, Clients, Lane, PeerClient};
use super::wire::{self, AppendedV1, BodyV1, CHUNK_BYTES, ReplyV1, SnapshotHeadV1};
use crate::storage::types::{PeerNode, Snapshot, TypeConfig, Vote};
use crate::storage::{LogIdV1, SnapshotFile, VoteV1, watch_purged_reads};

type RpcError = RPCError<TypeConfig>;

/// BOUND: a slow disk under a follower is waited for for so long; a connection that swallows everything isn't any longer.
const APPEND_STALL: Duration = Duration::from_secs(1);

/// BOUND: for one chunk of a snapshot to be taken: a disk that needs longer for 1 MiB is broken.
const SNAPSHOT_STALL: Duration = Duration::from_secs(10);

/// BOUND: chunks of a snapshot that are read ahead of the socket.
const CHUNKS_AHEAD: usize = 2;

/// How long to leave a peer alone that can't be reached: the first three, then the last of them for ever. A peer that
/// comes back is noticed within it.
const BACKOFF_MS: [u64; 4] = [50, 100, 200, 500];

/// Makes connections for openraft.
#[derive(Debug, Clone)]
pub(super) struct Network {
    clients: Clients,
}

impl Network {
    pub(super) fn new(clients: Clients) -> Self {
        Self { clients }
    }

    fn connection(&self, target: u64, node: &PeerNode, lane: Lane) -> Connection {
        Connection { clients: self.clients.clone(), target: PeerId(target), address: node.grpc_addr.clone(), lane }
    }
}

impl RaftNetworkFactory<TypeConfig> for Network {
    type Network = Connection;

    async fn new_client(&mut self, target: u64, node: &PeerNode) -> Connection {
        self.connection(target, node, Lane::Bulk)
    }

    async fn new_heartbeat_client(&mut self, target: u64, node: &PeerNode) -> Connection {
        self.connection(target, node, Lane::Control)
    }
}

/// What openraft says to one peer. openraft keeps it when the peer's address changes, so where the peer is is looked up
/// at each call.
pub(super) struct Connection {
    clients: Clients,
    target: PeerId,
    /// Where the peer was when this was made.
    address: String,
    /// Where appends go; votes and the like are always urgent.
    lane: Lane,
}

impl Connection {
    fn client(&self) -> Result<PeerClient, RpcError> {
        let client = self.clients.to_member(self.target, &self.address);
        client.map_err(|expected| {
            RPCError::Unreachable(Unreachable::from_string(format!("peer {} has no address: {expected}", self.target)))
        })
    }

    async fn call(&self, lane: Lane, body: BodyV1, option: &RPCOption) -> Result<ReplyV1, RpcError> {
        let client = self.client()?;
        client.call(lane, body, option.soft_ttl()).await.map_err(|error| rpc_error(&client, &error))
    }
}

impl RaftNetworkV2<TypeConfig> for Connection {
    type SnapshotData = SnapshotFile;

    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<TypeConfig>, RpcError> {
        match self.call(self.lane, BodyV1::Append(request.into()), &option).await? {
            ReplyV1::Appended(appended) => Ok(append_response(appended)),
            other => Err(unexpected(&self.client()?, &other)),
        }
    }

    fn stream_append<'s, S>(
        &'s mut self,
        input: S,
        option: RPCOption,
    ) -> BoxFuture<'s, Result<BoxStream<'s, Result<StreamAppendResult<TypeConfig>, RpcError>>, RpcError>>
    where
        S: Stream<Item = AppendEntriesRequest<TypeConfig>> + OptionalSend + Unpin + 'static,
    {
        match self.lane {
            // A heartbeat is one request: a call is cheaper than a stream.
            Lane::Control => openraft::network::stream_append_sequential(self, input, option),
            Lane::Bulk => Box::pin(async move { pipeline(self.client()?, input, &option).await }),
        }
    }

    async fn vote(
        &mut self,
        request: VoteRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, RpcError> {
        match self.call(Lane::Control, BodyV1::Vote(request.into()), &option).await? {
            ReplyV1::Vote(vote) => Ok(vote.into()),
            other => Err(unexpected(&self.client()?, &other)),
        }
    }

    async fn pre_vote(
        &mut self,
        request: VoteRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, RpcError> {
        match self.call(Lane::Control, BodyV1::PreVote(request.into()), &option).await? {
            ReplyV1::Vote(vote) => Ok(vote.into()),
            other => Err(unexpected(&self.client()?, &other)),
        }
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: Snapshot,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        option: RPCOption,
    ) -> Result<SnapshotResponse<TypeConfig>, StreamingError<TypeConfig>> {
        let client = self.client()?;
        let transfer = send_snapshot(client, vote, snapshot, option);
        futures::select_biased! {
            closed = Box::pin(cancel.fuse()) => Err(StreamingError::Closed(closed)),
            result = Box::pin(transfer.fuse()) => result,
        }
    }

    async fn transfer_leader(
        &mut self,
        request: TransferLeaderRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<TypeConfig>, RpcError> {
        match self.call(Lane::Control, BodyV1::TransferLeader((&request).into()), &option).await? {
            ReplyV1::TransferLeader(reply) => Ok(reply.into()),
            other => Err(unexpected(&self.client()?, &other)),
        }
    }

    fn backoff(&self) -> Option<Backoff> {
        let last = BACKOFF_MS[BACKOFF_MS.len() - 1];
        let pauses = BACKOFF_MS.into_iter().chain(std::iter::repeat(last));
        Some(Backoff::new(pauses.map(Duration::from_millis)))
    }
}

/// Sends appends as they come, without waiting for the answers to those before; answers come in the same order.
async fn pipeline<S>(
    client: PeerClient,
    input: S,
    option: &RPCOption,
) -> Result<BoxStream<'static, Result<StreamAppendResult<TypeConfig>, RpcError>>, RpcError>
where
    S: Stream<Item = AppendEntriesRequest<TypeConfig>> + Send + Unpin + 'static,
{
    // openraft waits out its back-off in front of the first request. Nobody is dialled before: a peer that refuses at once would
    // be dialled again at once, for as long as it is down.
    let purged = Arc::new(AtomicBool::new(false));
    let mut input = UntilPurged { requests: input, purged: purged.clone() }.peekable();
    if Pin::new(&mut input).peek().await.is_none() {
        return if purged.load(Ordering::Relaxed) {
            Err(purged_error())
        } else {
            Ok(Box::pin(futures::stream::empty()))
        };
    }
    let sent = Arc::new(AtomicU64::new(0));
    let frames = {
        let (client, sent) = (client.clone(), sent.clone());
        input.map(move |request| {
            sent.fetch_add(1, Ordering::Relaxed);
            client.frame(BodyV1::Append(request.into()))
        })
    };
    let opened = client.open_stream(wire::APPEND, frames, option.soft_ttl()).await;
    let mut replies = opened.map_err(|error| rpc_error(&client, &error))?;
    Ok(Box::pin(async_stream::stream! {
        let mut received = 0;
        loop {
            let reply = match tokio::time::timeout(APPEND_STALL, replies.message()).await {
                // Nothing is on its way: an idle stream is a good stream.
                Err(_) if sent.load(Ordering::Relaxed) == received => continue,
                Err(_) => Err(client.timed_out(APPEND_STALL)),
                Ok(Ok(None)) => {
                    if purged.load(Ordering::Relaxed) {
                        yield Err(purged_error());
                    }
                    return;
                }
                Ok(Ok(Some(frame))) => Ok(frame),
                Ok(Err(status)) => Err(client.failed(&status)),
            };
            received += 1;
            let result = match client.settle(reply) {
                Ok(ReplyV1::Appended(appended)) => Ok(StreamAppendResult::<TypeConfig>::from(appended)),
                Ok(other) => Err(unexpected(&client, &other)),
                Err(error) => Err(rpc_error(&client, &error)),
            };
            let ended = !matches!(result, Ok(Ok(_)));
            yield result;
            if ended {
                return;
            }
        }
    }))
}

/// Requests up to the one whose entries are purged; see [`watch_purged_reads`].
struct UntilPurged<S> {
    requests: S,
    purged: Arc<AtomicBool>,
}

impl<S: Stream + Unpin> Stream for UntilPurged<S> {
    type Item = S::Item;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<S::Item>> {
        let Self { requests, purged } = self.get_mut();
        if purged.load(Ordering::Relaxed) {
            return Poll::Ready(None);
        }
        let next = ready!(watch_purged_reads(purged, || requests.poll_next_unpin(context)));
        Poll::Ready(next.filter(|_| !purged.load(Ordering::Relaxed)))
    }
}

/// openraft thinks again what that peer needs: a snapshot.
fn purged_error() -> RpcError {
    RPCError::Network(NetworkError::from_string("what the peer needs next is purged"))
}

/// Sends a snapshot in chunks, and waits until it is installed.
async fn send_snapshot(
    client: PeerClient,
    vote: Vote,
    snapshot: Snapshot,
    option: RPCOption,
) -> Result<SnapshotResponse<TypeConfig>, StreamingError<TypeConfig>> {
    let (chunks, frames) = mpsc::channel(CHUNKS_AHEAD);
    let file = snapshot.snapshot;
    let head = SnapshotHeadV1 {
        vote: VoteV1::from(&vote),
        last_log_id: snapshot.meta.last_log_id.as_ref().map(LogIdV1::from),
        membership: (&snapshot.meta.last_membership).into(),
        bytes: file.bytes(),
    };
    tracing::info!(peer = client.peer().0, bytes = file.bytes(), "sending a snapshot");
    let feed = async {
        let mut next = BodyV1::SnapshotHead(head);
        let mut offset = 0;
        loop {
            let frame = client.frame(next);
            match tokio::time::timeout(SNAPSHOT_STALL, chunks.send(frame)).await {
                Ok(Ok(())) => {}
                // The call has ended; it says why.
                Ok(Err(_)) => return Ok(()),
                Err(_) => return Err(client.timed_out(SNAPSHOT_STALL)),
            }
            let chunk = file.read_chunk(offset, CHUNK_BYTES).await;
            let chunk = chunk.map_err(|error| CallError::Broken {
                address: file.path().display().to_string(),
                what: format!("the snapshot can't be read: {error}"),
            })?;
            if chunk.is_empty() {
                drop(chunks);
                return Ok(());
            }
            offset += chunk.len() as u64;
            next = BodyV1::SnapshotChunk(chunk.into());
        }
    };
    let call = client.send_stream(wire::SNAPSHOT, ReceiverStream::new(frames));
    let work = async {
        let mut call = std::pin::pin!(call);
        let mut feed = std::pin::pin!(feed);
        tokio::select! {
            reply = &mut call => return reply,
            fed = &mut feed => fed?,
        }
        // What is left is to take the last chunks, sync, check and install.
        tokio::time::timeout(option.soft_ttl(), call).await.unwrap_or_else(|_| Err(client.timed_out(option.soft_ttl())))
    };
    match work.await.map_err(|error| rpc_error(&client, &error))? {
        ReplyV1::SnapshotInstalled { vote } => Ok(SnapshotResponse::new(vote.into())),
        other => Err(unexpected(&client, &other).into()),
    }
}

fn append_response(appended: AppendedV1) -> AppendEntriesResponse<TypeConfig> {
    match StreamAppendResult::<TypeConfig>::from(appended) {
        Ok(upto) => AppendEntriesResponse::PartialSuccess(upto),
        Err(StreamAppendError::Conflict(_)) => AppendEntriesResponse::Conflict,
        Err(StreamAppendError::HigherVote(vote)) => AppendEntriesResponse::HigherVote(vote),
    }
}

/// A peer that can't be reached, or refuses, is left alone for a while; after a slow answer it is asked again at once.
fn rpc_error(client: &PeerClient, error: &CallError) -> RpcError {
    match error {
        CallError::NotConnected { .. } | CallError::Broken { .. } | CallError::Refused { .. } => {
            RPCError::Unreachable(Unreachable::from_string(error))
        }
        CallError::TimedOut { timeout, .. } => RPCError::Timeout(openraft::errors::Timeout {
            action: RPCTypes::AppendEntries,
            id: client.me().0,
            target: client.peer().0,
            timeout: *timeout,
        }),
        CallError::Malformed { .. } => RPCError::Network(NetworkError::from_string(error)),
    }
}

fn unexpected(client: &PeerClient, reply: &ReplyV1) -> RpcError {
    rpc_error(client, &client.unexpected(reply))
}
