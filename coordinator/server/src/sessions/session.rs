//! One session, from the hello to its end.

use std::time::Duration;

use rollcall_ident::{ClusterId, NodeId, Revision, SessionEpoch};
use rollcall_proto::v1;
use rollcall_proto::v1::{agent_message, peer_message};
use rollcall_rollout::{Command, Hello, Proposal, Rejection, Reply};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tonic::{Status, Streaming};

use super::hub::Hub;
use super::registry::{EndedBy, Hosted};
use super::reports::Queued;
use super::{HEARTBEAT_INTERVAL, SILENCE, ToAgent};
use crate::convert;
use crate::raft::ProposeError;

/// BOUND: for the hello to come, and for this peer to be ready to host.
const HELLO: Duration = Duration::from_secs(5);

/// BOUND: for the session to be in the log: an election fits.
const OPEN: Duration = Duration::from_secs(10);
const OPEN_RETRY: Duration = Duration::from_millis(100);

/// Where everything for the agent goes.
pub(super) struct Outbox {
    pub messages: mpsc::Sender<ToAgent>,
    pub orders: watch::Sender<Option<v1::Orders>>,
}

/// A message to the agent.
pub(super) fn message(kind: peer_message::Kind) -> v1::PeerMessage {
    v1::PeerMessage { kind: Some(kind) }
}

/// Why there is no session.
enum NoSession {
    /// The agent is told, in its own words.
    Refused(v1::Refused),
    /// The call fails.
    Failed(Status),
}

impl From<Status> for NoSession {
    fn from(status: Status) -> Self {
        Self::Failed(status)
    }
}

/// Hosts one session, to its end.
pub(super) async fn run(
    hub: watch::Receiver<Option<Hub>>,
    stopping: CancellationToken,
    address: String,
    mut inbound: Streaming<v1::AgentMessage>,
    outbox: Outbox,
) {
    let Outbox { messages, orders } = outbox;
    // Boxed, so that what opening takes isn't part of the session for as long as it lasts.
    let opening = Box::pin(open(hub, &address, &mut inbound, orders));
    let opened = tokio::select! {
        opened = opening => opened,
        () = stopping.cancelled() => Err(stopping_status().into()),
    };
    let session = match opened {
        Ok(session) => session,
        Err(NoSession::Refused(refused)) => {
            tracing::info!(address, reason = refused.reason, message = refused.message, "an agent was refused");
            // It may have gone.
            let _ = messages.send(Ok(message(peer_message::Kind::Refused(refused)))).await;
            return;
        }
        Err(NoSession::Failed(status)) => {
            let _ = messages.send(Err(status)).await;
            return;
        }
    };
    session.serve(inbound, messages, stopping).await;
}

/// Hello, and what the log says to it.
async fn open(
    mut hub: watch::Receiver<Option<Hub>>,
    address: &str,
    inbound: &mut Streaming<v1::AgentMessage>,
    orders: watch::Sender<Option<v1::Orders>>,
) -> Result<Session, NoSession> {
    let hello = match timeout(HELLO, inbound.message()).await {
        Ok(Ok(Some(v1::AgentMessage { kind: Some(agent_message::Kind::Hello(hello)) }))) => hello,
        Ok(Ok(Some(_))) => return Err(refused("invalid_hello", "the first message must be a hello", false)),
        Ok(Ok(None)) => return Err(Status::cancelled("the agent has gone").into()),
        Ok(Err(status)) => return Err(status.into()),
        Err(_) => return Err(Status::deadline_exceeded("no hello came").into()),
    };
    let hub = match timeout(HELLO, hub.wait_for(Option::is_some)).await {
        Ok(Ok(ready)) => ready.clone(),
        _ => None,
    };
    let hub =
        hub.ok_or_else(|| convert::retry_later("no_leader", "this peer has no leader yet; connect to another"))?;
    let greeting = convert::greeting(hello, address.to_owned())
        .map_err(|error| refused("invalid_hello", &error.to_string(), false))?;
    let ours = hub.consensus.cluster_id();
    let view = hub.consensus.state();
    let is_ours = |theirs: &ClusterId| *theirs == ours || view.state.former_clusters().contains(theirs);
    if let Some(theirs) = greeting.cluster.filter(|theirs| !is_ours(theirs)) {
        let text = format!(
            "this agent belongs to cluster {theirs}, and this peer to {ours}; correct its endpoints, or empty its data \
             folder to let it join here as a new node"
        );
        return Err(refused("other_cluster", &text, false));
    }
    let node = greeting.hello.node;
    // Until it is hosted, so that it isn't taken for an orphan.
    let registry = hub.registry.clone();
    let _opening = registry.opening(node);
    let epoch = open_in_log(&hub, greeting.hello).await?;
    let (end, ended) = oneshot::channel();
    registry.host(node, Hosted { epoch, orders, last: None, looked_at: Revision(0), end });
    Ok(Session { hub, node, epoch, ended })
}

/// In doubt it is opened again: the later session of the same disk takes the place of the earlier.
async fn open_in_log(hub: &Hub, hello: Hello) -> Result<SessionEpoch, NoSession> {
    let deadline = Instant::now() + OPEN;
    let command = Command::OpenSession { host: hub.consensus.peer_id(), hello };
    loop {
        let proposal = Proposal::internal(command.clone());
        let error = match hub.consensus.propose_until(proposal, deadline).await {
            Ok(applied) => match applied.outcome {
                Ok(Reply::SessionOpened(epoch)) => return Ok(epoch),
                Ok(other) => return Err(Status::internal(format!("the log answers a hello with {other:?}")).into()),
                Err(rejection) => return Err(refused_by_log(&rejection)),
            },
            Err(error) => error,
        };
        if matches!(error, ProposeError::NotProposed { .. }) || Instant::now() + OPEN_RETRY >= deadline {
            return Err(convert::not_proposed(&error).into());
        }
        sleep(OPEN_RETRY).await;
    }
}

fn refused_by_log(rejection: &Rejection) -> NoSession {
    // The one who has the identity may be on its way out; everything else needs a person.
    let retry = matches!(rejection, Rejection::IdentityInUse { .. });
    refused(rejection.name(), &rejection.to_string(), retry)
}

fn refused(reason: &str, text: &str, retry: bool) -> NoSession {
    NoSession::Refused(v1::Refused { reason: reason.to_owned(), message: text.to_owned(), retry })
}

fn stopping_status() -> Status {
    convert::retry_later("stopping", "the peer is stopping; connect to another")
}

/// An open session.
struct Session {
    hub: Hub,
    node: NodeId,
    epoch: SessionEpoch,
    ended: oneshot::Receiver<EndedBy>,
}

/// How a session ends.
enum End {
    /// The stream is gone, or silent.
    Lost(Status),
    /// The log says so.
    ByLog(EndedBy),
    /// The peer stops.
    Stopping,
}

impl Session {
    async fn serve(
        mut self,
        inbound: Streaming<v1::AgentMessage>,
        messages: mpsc::Sender<ToAgent>,
        stopping: CancellationToken,
    ) {
        let over = CancellationToken::new();
        let _tells_the_batcher = over.clone().drop_guard();
        // It is the first, so there is room.
        let _ = messages.send(Ok(message(peer_message::Kind::Welcome(self.welcome())))).await;
        self.hub.dispatcher.look_at(&self.hub.consensus.state(), self.node);
        let mut reader = Reader { inbound, messages: messages.clone(), over, last_heard: Instant::now() };
        let end = tokio::select! {
            status = reader.read(&self.hub, self.node, self.epoch) => End::Lost(status),
            ended = &mut self.ended => End::ByLog(ended.unwrap_or(EndedBy::Closed)),
            () = stopping.cancelled() => End::Stopping,
        };
        self.hub.registry.forget(self.node, self.epoch);
        let (node, epoch) = (self.node, self.epoch);
        let status = match end {
            End::Lost(status) => {
                tracing::debug!(%node, %epoch, %status, "a session is lost");
                self.hub.closer.close(node, epoch, reader.last_heard);
                status
            }
            End::ByLog(EndedBy::Replaced(by)) => convert::problem(
                tonic::Code::Aborted,
                "stale_session",
                format!("session {by} has taken the place of {epoch}"),
            ),
            End::ByLog(EndedBy::Closed) => convert::problem(
                tonic::Code::Aborted,
                "stale_session",
                format!("session {epoch} is closed; say hello again"),
            ),
            End::Stopping => stopping_status(),
        };
        // Nobody may be there to hear it, or to make room for it.
        let _ = messages.try_send(Err(status));
    }

    fn welcome(&self) -> v1::Welcome {
        let view = self.hub.consensus.state();
        v1::Welcome {
            epoch: self.epoch.0,
            cluster_id: self.hub.consensus.cluster_id().to_string(),
            heartbeat_interval_ms: u64::try_from(HEARTBEAT_INTERVAL.as_millis()).unwrap_or(u64::MAX),
            former_cluster_ids: view.state.former_clusters().iter().map(ToString::to_string).collect(),
            endpoints: view.state.peers().values().map(|peer| peer.address.clone()).collect(),
        }
    }
}

/// What the agent says.
struct Reader {
    inbound: Streaming<v1::AgentMessage>,
    messages: mpsc::Sender<ToAgent>,
    over: CancellationToken,
    last_heard: Instant,
}

impl Reader {
    /// Reads until the stream ends or is silent for too long.
    async fn read(&mut self, hub: &Hub, node: NodeId, epoch: SessionEpoch) -> Status {
        loop {
            let next = match timeout_at(self.last_heard + SILENCE, self.inbound.message()).await {
                Ok(Ok(Some(next))) => next,
                Ok(Ok(None)) => return Status::cancelled("the agent has ended the session"),
                Ok(Err(status)) => return status,
                Err(_) => return Status::deadline_exceeded(format!("not heard of for {} s", SILENCE.as_secs())),
            };
            match next.kind {
                Some(agent_message::Kind::Report(report)) => {
                    if let Err(status) = self.take(hub, node, epoch, report).await {
                        return status;
                    }
                }
                Some(agent_message::Kind::Heartbeat(v1::Heartbeat {})) => {}
                Some(agent_message::Kind::Hello(_)) => return Status::invalid_argument("a session has one hello"),
                None => return Status::invalid_argument("a message of a newer version"),
            }
            // Afterwards: while a report waited for room, nothing was read.
            self.last_heard = Instant::now();
        }
    }

    /// Queues a report; waits while too many wait already.
    async fn take(&self, hub: &Hub, node: NodeId, epoch: SessionEpoch, report: v1::Report) -> Result<(), Status> {
        let gone = |_| Status::cancelled("the agent has gone");
        let answer = self.messages.clone().reserve_owned().await.map_err(gone)?;
        let v1::Report { number, kind } = report;
        match convert::node_report(node, epoch, kind) {
            Ok(report) => {
                let queued = Queued { number, report, answer, over: self.over.clone() };
                hub.reports.send(queued).await.map_err(|_| stopping_status())
            }
            Err(error) => {
                let refusal = v1::ReportAnswer {
                    number,
                    refusal: "invalid_report".to_owned(),
                    message: error.to_string(),
                    revision: 0,
                };
                answer.send(Ok(message(peer_message::Kind::Answer(refusal))));
                Ok(())
            }
        }
    }
}
