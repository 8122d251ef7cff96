//! What this peer answers to the others.

use std::mem::{Discriminant, discriminant};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_stream::stream;
use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse, StreamAppendResult};
use rollcall_ident::PeerId;
use tonic::{Status, Streaming};

use super::api::{NotProposed, ReadError};
use super::consensus::Consensus;
use super::peer::{JoinError, Peer};
use super::read::confirm_here;
use super::wire::{
    self, AppendV1, AppendedV1, BodyV1, IdentityV1, ProposedV1, RefusalV1, ReplyV1, RequestHeadV1, RequestV1,
};
use crate::storage::types::TypeConfig;
use crate::storage::{LogIdV1, SnapshotReceiver};
use crate::world::off_the_runtime;

/// BOUND: whom refusals were logged for.
const LOGGED: usize = 64;

/// BOUND: how long this peer works on a write or a read of another; who asks is gone by then.
const LONGEST: Duration = Duration::from_secs(10);

/// Answers other peers.
#[derive(Clone)]
pub(super) struct Receiver {
    peer: Peer,
    /// Heartbeats would log the same refusal four times a second.
    logged: Arc<Mutex<Vec<Logged>>>,
}

/// Who was refused, and for which kind of reason.
type Logged = (PeerId, Discriminant<RefusalV1>);

impl Receiver {
    pub(super) fn new(peer: Peer) -> Self {
        Self { peer, logged: Arc::default() }
    }

    /// Answers one message.
    pub(super) async fn answer(&self, frame: &[u8]) -> Result<ReplyV1, Status> {
        let request = open(frame)?;
        match request.body {
            BodyV1::Identify => Ok(ReplyV1::Identity(IdentityV1 {
                known_as: self.peer.consensus().map(|consensus| (consensus.cluster_id(), consensus.peer_id())),
                feature_level: rollcall_rollout::LEVEL,
            })),
            BodyV1::Join => Ok(match self.peer.join(request.cluster, request.to).await {
                Ok(()) => ReplyV1::Joined,
                Err(JoinError::Refused(refusal)) => self.refuse(&request, refusal),
                Err(JoinError::Start(error)) => ReplyV1::Failed(error.to_string()),
            }),
            _ => match self.admit(&request) {
                Ok(consensus) => Ok(answer_admitted(&consensus, request.body).await),
                Err(refusal) => Ok(self.refuse(&request, refusal)),
            },
        }
    }

    /// Checks that a message is from one of ours, for this peer.
    fn admit(&self, request: &RequestV1) -> Result<Consensus, RefusalV1> {
        let addressed = request.to;
        let consensus = self.peer.consensus().ok_or(RefusalV1::Blank { addressed })?;
        if consensus.inner.stopping.load(Ordering::Relaxed) {
            return Err(RefusalV1::Stopping);
        }
        let (cluster, ours) = (consensus.cluster_id(), consensus.peer_id());
        if request.cluster != cluster {
            return Err(RefusalV1::WrongCluster { ours: cluster, peer: ours, theirs: request.cluster });
        }
        if addressed != ours {
            return Err(RefusalV1::WrongPeer { cluster, ours, addressed });
        }
        if consensus.was_removed(request.from) {
            return Err(RefusalV1::Removed { cluster, peer: request.from });
        }
        Ok(consensus)
    }

    fn refuse(&self, request: &RequestV1, refusal: RefusalV1) -> ReplyV1 {
        if matches!(refusal, RefusalV1::Stopping | RefusalV1::Busy { .. }) {
            return ReplyV1::Refused(refusal);
        }
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (request.from, discriminant(&refusal));
        if !logged.contains(&key) {
            tracing::error!(from = request.from.0, cluster = %request.cluster, "refused a peer's message: {refusal}");
            if logged.len() == LOGGED {
                logged.remove(0);
            }
            logged.push(key);
        }
        ReplyV1::Refused(refusal)
    }

    /// Appends what comes, in order, and answers in the same order. A message that can't be admitted ends the stream with
    /// its refusal.
    pub(super) fn append(&self, frames: Streaming<Bytes>) -> impl Stream<Item = ReplyV1> + Send + 'static {
        let this = self.clone();
        stream! {
            let mut frames = frames;
            let Ok(Some(first)) = frames.message().await else { return };
            let (consensus, first) = match this.admit_append(&first) {
                Ok(admitted) => admitted,
                Err(reply) => {
                    yield reply;
                    return;
                }
            };
            let ending = Arc::new(Mutex::new(None));
            let requests = this.admit_rest(first, frames, ending.clone());
            let mut results = std::pin::pin!(consensus.inner.raft.stream_append(requests));
            while let Some(result) = results.next().await {
                match result {
                    Ok(result) => yield ReplyV1::Appended(result.into()),
                    Err(fatal) => {
                        yield ReplyV1::Failed(fatal.to_string());
                        return;
                    }
                }
            }
            let last = ending.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(reply) = last {
                yield reply;
            }
        }
    }

    fn admit_rest(
        &self,
        first: AppendEntriesRequest<TypeConfig>,
        mut frames: Streaming<Bytes>,
        ending: Arc<Mutex<Option<ReplyV1>>>,
    ) -> impl Stream<Item = AppendEntriesRequest<TypeConfig>> + Send + 'static {
        let this = self.clone();
        stream! {
            yield first;
            while let Ok(Some(frame)) = frames.message().await {
                match this.admit_append(&frame) {
                    Ok((_, request)) => yield request,
                    Err(reply) => {
                        *ending.lock().unwrap_or_else(PoisonError::into_inner) = Some(reply);
                        return;
                    }
                }
            }
        }
    }

    fn admit_append(&self, frame: &[u8]) -> Result<(Consensus, AppendEntriesRequest<TypeConfig>), ReplyV1> {
        let request = open(frame).map_err(|status| {
            self.give_up_if_too_old(frame);
            ReplyV1::Failed(status.message().to_owned())
        })?;
        let consensus = self.admit(&request).map_err(|refusal| self.refuse(&request, refusal))?;
        match request.body {
            BodyV1::Append(append) => append.try_into().map(|append| (consensus, append)).map_err(ReplyV1::Failed),
            _ => Err(ReplyV1::Failed(String::from("only appends go into a stream of appends"))),
        }
    }

    /// INVARIANT: an entry that this build doesn't know ends it, and isn't skipped. Its leader has checked who knows what
    /// before it was written, so this peer was put back to an older release while it was away.
    fn give_up_if_too_old(&self, frame: &[u8]) {
        let Some(RequestHeadV1 { cluster, from, to }) = wire::not_understood(frame) else { return };
        let Ok(consensus) = self.admit(&RequestV1 { cluster, from, to, body: BodyV1::Members }) else { return };
        let why = format!(
            "peer {from} sends entries that this binary ({}, feature level {}) doesn't know: the cluster runs a newer \
             release. Start this peer with it; its data is as it was",
            env!("CARGO_PKG_VERSION"),
            rollcall_rollout::LEVEL,
        );
        consensus.inner.fatal.send_replace(Some(why));
    }

    /// Receives a snapshot and installs it.
    pub(super) async fn snapshot(&self, mut frames: Streaming<Bytes>) -> Result<ReplyV1, Status> {
        let Some(first) = frames.message().await? else { return Err(Status::invalid_argument("no snapshot came")) };
        let request = open(&first)?;
        let consensus = match self.admit(&request) {
            Ok(consensus) => consensus,
            Err(refusal) => return Ok(self.refuse(&request, refusal)),
        };
        let BodyV1::SnapshotHead(head) = request.body else {
            return Err(Status::invalid_argument("a snapshot begins with its head"));
        };
        let Ok(_one_at_a_time) = consensus.inner.receiving.clone().try_lock_owned() else {
            let what = String::from("this peer receives another snapshot already");
            return Ok(ReplyV1::Refused(RefusalV1::Busy { what }));
        };
        tracing::info!(from = request.from.0, bytes = head.bytes, "receiving a snapshot");
        let store = consensus.inner.snapshots.clone();
        let mut receiver = blocking(move || store.receive()).await?;
        while let Some(frame) = frames.message().await? {
            let BodyV1::SnapshotChunk(chunk) = open(&frame)?.body else {
                return Err(Status::invalid_argument("chunks follow the head of a snapshot, and nothing else"));
            };
            if receiver.bytes() + chunk.len() as u64 > head.bytes {
                return Err(Status::invalid_argument("more came than the head of the snapshot says"));
            }
            receiver = blocking(move || receiver.write_chunk(&chunk).map(|()| receiver)).await?;
        }
        if receiver.bytes() != head.bytes {
            let came = receiver.bytes();
            return Err(Status::data_loss(format!("{came} of {} bytes of the snapshot came", head.bytes)));
        }
        install(&consensus, &head, receiver).await
    }
}

async fn install(
    consensus: &Consensus,
    head: &wire::SnapshotHeadV1,
    receiver: SnapshotReceiver,
) -> Result<ReplyV1, Status> {
    let snapshot = blocking(move || receiver.finish()).await?;
    let covers = snapshot.meta.last_log_id.as_ref().map(LogIdV1::from);
    let newer_than_its_leader = covers.is_some_and(|covers| covers.term > head.vote.term);
    if covers != head.last_log_id || newer_than_its_leader {
        return Err(Status::data_loss(format!("the snapshot covers {covers:?}, and its head says otherwise")));
    }
    match consensus.inner.raft.install_full_snapshot(head.vote.into(), snapshot).await {
        Ok(installed) => Ok(ReplyV1::SnapshotInstalled { vote: (&installed.vote).into() }),
        Err(fatal) => Ok(ReplyV1::Failed(fatal.to_string())),
    }
}

async fn answer_admitted(consensus: &Consensus, body: BodyV1) -> ReplyV1 {
    let raft = &consensus.inner.raft;
    match body {
        BodyV1::Vote(request) => reply(raft.vote(request.into()).await, |vote| ReplyV1::Vote(vote.into())),
        BodyV1::PreVote(request) => reply(raft.pre_vote(request.into()).await, |vote| ReplyV1::Vote(vote.into())),
        BodyV1::Append(request) => append_once(consensus, request).await,
        BodyV1::TransferLeader(request) => {
            reply(raft.handle_transfer_leader(request.into()).await, |answer| ReplyV1::TransferLeader(answer.into()))
        }
        BodyV1::Propose { proposal, timeout_ms } => {
            let timeout = Duration::from_millis(timeout_ms).min(LONGEST);
            ReplyV1::Proposed(match consensus.propose_for_another(*proposal, timeout).await {
                Ok(applied) => ProposedV1::Applied(Box::new(applied)),
                Err(super::api::ProposeError::NotProposed { reason }) => ProposedV1::NotProposed(reason),
                Err(super::api::ProposeError::Unknown { reason }) => ProposedV1::Unknown(reason),
            })
        }
        BodyV1::ReadIndex { timeout_ms } => {
            let timeout = Duration::from_millis(timeout_ms).min(LONGEST);
            ReplyV1::ReadIndex(match consensus.leads() {
                true => confirm_here(raft, consensus.peer_id(), timeout).await,
                false => Err(ReadError::NotConfirmed {
                    leader: consensus.peer_id(),
                    what: String::from("it doesn't lead, or not yet"),
                }),
            })
        }
        BodyV1::Change(change) => ReplyV1::Changed(consensus.change_here(change).await),
        BodyV1::Members => ReplyV1::Members(consensus.check_leads().map(|()| consensus.members_here())),
        BodyV1::Checkup => ReplyV1::Checkup(Box::new(consensus.checkup().await)),
        BodyV1::WhichProcess => ReplyV1::Process(consensus.inner.process),
        BodyV1::SnapshotHead(_) | BodyV1::SnapshotChunk(_) => {
            ReplyV1::Failed(String::from("a snapshot has a stream of its own"))
        }
        BodyV1::Identify | BodyV1::Join => ReplyV1::Failed(String::from("answered before")),
    }
}

/// A heartbeat, or a batch outside a stream.
async fn append_once(consensus: &Consensus, request: AppendV1) -> ReplyV1 {
    let last = request.entries.last().map(|entry| entry.log_id).or(request.prev_log_id);
    let prev = request.prev_log_id;
    let request = match AppendEntriesRequest::<TypeConfig>::try_from(request) {
        Ok(request) => request,
        Err(what) => return ReplyV1::Failed(what),
    };
    reply(consensus.inner.raft.append_entries(request).await, |response| match response {
        AppendEntriesResponse::Success => ReplyV1::Appended(AppendedV1::Upto(last)),
        AppendEntriesResponse::PartialSuccess(upto) => {
            ReplyV1::Appended(StreamAppendResult::<TypeConfig>::Ok(upto).into())
        }
        AppendEntriesResponse::HigherVote(vote) => ReplyV1::Appended(AppendedV1::HigherVote((&vote).into())),
        AppendEntriesResponse::Conflict => match prev {
            Some(prev) => ReplyV1::Appended(AppendedV1::Conflict(prev)),
            None => ReplyV1::Failed(String::from("a conflict with the beginning of the log")),
        },
    })
}

fn reply<T, E: std::fmt::Display>(result: Result<T, E>, convert: impl FnOnce(T) -> ReplyV1) -> ReplyV1 {
    result.map_or_else(|error| ReplyV1::Failed(error.to_string()), convert)
}

fn open(frame: &[u8]) -> Result<RequestV1, Status> {
    wire::open(frame).map_err(|error| Status::invalid_argument(format!("a message that can't be read: {error}")))
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, crate::storage::StorageError> + Send + 'static,
) -> Result<T, Status> {
    let result = off_the_runtime(work).await.map_err(|error| Status::internal(error.to_string()))?;
    result.map_err(|error| Status::internal(error.to_string()))
}

impl Consensus {
    /// The peer had an id of this cluster and has it no more. Ids come from indexes of the log, so one that is not above
    /// what is applied here, and isn't registered, can't be one that is still to come.
    fn was_removed(&self, peer: PeerId) -> bool {
        let applied = self.inner.applied.borrow().clone();
        peer.0 <= applied.revision().0
            && !applied.state.peers().contains_key(&peer)
            && self.inner.addresses.membership().get_node(&peer.0).is_none()
    }

    async fn propose_for_another(
        &self,
        proposal: rollcall_rollout::Proposal,
        timeout: Duration,
    ) -> Result<rollcall_rollout::Applied, super::api::ProposeError> {
        if !self.leads() {
            return Err(NotProposed::NotLeader { asked: self.peer_id() }.into());
        }
        super::propose::check_size(&proposal)?;
        self.propose_here(proposal, timeout).await
    }
}
