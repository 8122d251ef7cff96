//! Writes: proposed by the leader, forwarded to it by the others.
//!
//! Writes that wait are proposed together: one stamp, one message to openraft's core, one sync of the log.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use openraft::errors::{ClientWriteError, Fatal, ForwardReason};
use openraft::raft::WriteResult;
use rollcall_ident::PeerId;
use rollcall_rollout::{Applied, LogEntry, Proposal};
use tokio::sync::{mpsc, oneshot, watch};

use super::api::{Leadership, NotProposed, ProposeError, Unknown};
use super::client::{CallError, Lane, PeerClient};
use super::clock::ClusterClock;
use super::consensus::{CommitObserver, Raft};
use super::wire::{self, BodyV1, ProposedV1, ReplyV1};
use crate::storage::AppliedState;
use crate::storage::types::TypeConfig;

/// BOUND: writes that wait to be proposed. Behind a disk that syncs a hundred times a second, batches of 256 empty it
/// at once; what doesn't fit is refused, not queued.
pub(super) const QUEUE: usize = 4_096;

/// BOUND: writes proposed together: they become visible together, and wait for each other.
const BATCH: usize = 256;

/// BOUND: one write. Entries of the log and messages between peers are bounded above it.
pub(super) const MAX_PROPOSAL_BYTES: usize = 1 << 20;

type Answer = Result<Applied, ProposeError>;

/// A write that waits.
pub(super) struct Queued {
    proposal: Proposal,
    queued_at: Instant,
    done: oneshot::Sender<Answer>,
}

impl Queued {
    fn answer(self, answer: Answer) {
        // Whoever asked may have given up.
        let _ = self.done.send(answer);
    }
}

/// Refuses what can't be an entry.
pub(super) fn check_size(proposal: &Proposal) -> Result<(), NotProposed> {
    let bytes = wire::seal(proposal).len();
    if bytes > MAX_PROPOSAL_BYTES {
        return Err(NotProposed::TooLarge { bytes: bytes as u64, limit: MAX_PROPOSAL_BYTES as u64 });
    }
    Ok(())
}

/// Proposes on this peer.
pub(super) async fn propose_here(
    queue: &mpsc::Sender<Queued>,
    proposal: Proposal,
    timeout: Duration,
) -> Result<Applied, ProposeError> {
    let (done, answer) = oneshot::channel();
    let queued = Queued { proposal, queued_at: Instant::now(), done };
    queue.try_send(queued).map_err(|error| match error {
        mpsc::error::TrySendError::Full(_) => NotProposed::Overloaded { waiting: QUEUE as u64 },
        mpsc::error::TrySendError::Closed(_) => NotProposed::Stopping,
    })?;
    match tokio::time::timeout(timeout, answer).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) => Err(Unknown::Stopped.into()),
        Err(_) => Err(Unknown::TimedOut.into()),
    }
}

/// Has the leader propose it.
pub(super) async fn propose_there(leader: &PeerClient, proposal: Proposal, timeout: Duration) -> Answer {
    let timeout_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
    // The leader answers within the time-out, if only that it doesn't know; its answer needs time to get here.
    let patience = timeout + Duration::from_millis(100);
    match leader.call(Lane::Control, BodyV1::Propose { proposal: Box::new(proposal), timeout_ms }, patience).await {
        Ok(ReplyV1::Proposed(ProposedV1::Applied(applied))) => Ok(*applied),
        Ok(ReplyV1::Proposed(ProposedV1::NotProposed(reason))) => Err(reason.into()),
        Ok(ReplyV1::Proposed(ProposedV1::Unknown(reason))) => Err(reason.into()),
        Ok(other) => Err(lost(leader.peer(), &leader.unexpected(&other))),
        Err(error) => Err(lost(leader.peer(), &error)),
    }
}

fn lost(leader: PeerId, error: &CallError) -> ProposeError {
    let what = error.to_string();
    match error {
        error if error.is_unsent() => NotProposed::LeaderUnreachable { leader, what }.into(),
        CallError::TimedOut { .. } => Unknown::TimedOut.into(),
        _ => Unknown::ConnectionLost { leader, what }.into(),
    }
}

/// Takes writes off the queue and proposes them, for as long as somebody holds its other end.
pub(super) struct Proposer {
    pub raft: Raft,
    pub me: PeerId,
    pub leadership: watch::Receiver<Option<Leadership>>,
    pub applied: watch::Receiver<AppliedState>,
    pub clock: Arc<ClusterClock>,
    pub observer: Option<CommitObserver>,
}

impl Proposer {
    pub(super) async fn run(self, mut queue: mpsc::Receiver<Queued>) {
        let mut batch = Vec::with_capacity(BATCH);
        while queue.recv_many(&mut batch, BATCH).await > 0 {
            self.propose(std::mem::take(&mut batch)).await;
        }
    }

    async fn propose(&self, mut batch: Vec<Queued>) {
        // Nobody is told any more what became of these, and they were not proposed yet.
        batch.retain(|queued| !queued.done.is_closed());
        let leads = self.leadership.borrow().is_some_and(|leadership| leadership.is_me);
        if !leads {
            let reason = NotProposed::NotLeader { asked: self.me };
            return batch.into_iter().for_each(|queued| queued.answer(Err(reason.clone().into())));
        }
        let stamp = self.clock.stamp(self.applied.borrow().state.clock());
        let entries: Vec<_> =
            batch.iter().map(|queued| LogEntry { stamp, proposal: queued.proposal.clone() }.into()).collect();
        let results = match self.raft.client_write_many(entries).await {
            Ok(results) => results,
            // The core is gone and took nothing in.
            Err(_) => return batch.into_iter().for_each(|queued| queued.answer(Err(NotProposed::Stopping.into()))),
        };
        // The next batch doesn't wait for this one to be committed.
        tokio::spawn(answer_all(batch.into(), results, self.observer.clone()));
    }
}

async fn answer_all(
    mut batch: VecDeque<Queued>,
    mut results: openraft::base::BoxStream<'static, Result<WriteResult<TypeConfig>, Fatal<TypeConfig>>>,
    observer: Option<CommitObserver>,
) {
    while let Some(result) = results.next().await {
        let Some(queued) = batch.pop_front() else { return };
        let answer = outcome(result);
        if let (Ok(_), Some(observer)) = (&answer, &observer) {
            observer(queued.queued_at.elapsed());
        }
        queued.answer(answer);
    }
    for queued in batch {
        queued.answer(Err(Unknown::Stopped.into()));
    }
}

/// openraft says `ForwardToLeader` only before it appends (`docs/adr/0002-openraft-alpha.md`); whatever it appended and
/// lost sight of is `LogEntryDiscarded`.
fn outcome(result: Result<WriteResult<TypeConfig>, Fatal<TypeConfig>>) -> Answer {
    match result {
        Ok(Ok(written)) => written.response.ok_or_else(|| {
            tracing::error!(index = written.log_id.index, "a command was applied without an outcome");
            Unknown::LeaderChanged.into()
        }),
        Ok(Err(ClientWriteError::ForwardToLeader(forward))) => Err(match forward.reason {
            ForwardReason::NotLeader => NotProposed::NoLeader,
            ForwardReason::LeadershipTransfer => NotProposed::HandingOver,
            ForwardReason::LeaseExpired => NotProposed::QuorumLost,
        }
        .into()),
        Ok(Err(ClientWriteError::LogEntryDiscarded(_))) => Err(Unknown::LeaderChanged.into()),
        Ok(Err(error @ (ClientWriteError::ChangeMembershipError(_) | ClientWriteError::PreconditionFailed(_)))) => {
            tracing::error!(%error, "openraft answers a write with an error of another request");
            Err(Unknown::LeaderChanged.into())
        }
        Err(_) => Err(Unknown::Stopped.into()),
    }
}
