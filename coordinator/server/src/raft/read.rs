//! Linearizable reads: the leader's committed index, confirmed by a majority after the read began.
//!
//! Reads that wait share one confirmation. One that arrives while a confirmation is under way waits for the next, since
//! that one may have begun before something the reader has already heard of.

use std::time::Duration;

use openraft::LinearizerOption;
use openraft::errors::{LinearizableReadError, RaftError};
use rollcall_ident::{PeerId, Revision};
use rollcall_rollout::{Planted, is_planted};
use tokio::sync::{mpsc, oneshot, watch};

use super::api::{Leadership, ReadError};
use super::client::Lane;
use super::consensus::Raft;
use super::members::Addresses;
use super::wire::{BodyV1, ReplyV1};

/// BOUND: one confirmation. A majority answers within a round trip or not at all; who waits longer asks again.
pub(super) const ROUND: Duration = Duration::from_secs(1);

/// BOUND: reads that wait for the same confirmation.
pub(super) const QUEUE: usize = 16_384;

pub(super) type Waiting = oneshot::Sender<Result<Revision, ReadError>>;

/// Confirms read indexes for everybody on this peer.
pub(super) struct Confirmer {
    pub raft: Raft,
    pub me: PeerId,
    pub leadership: watch::Receiver<Option<Leadership>>,
    pub addresses: Addresses,
}

impl Confirmer {
    pub(super) async fn run(self, mut queue: mpsc::Receiver<Waiting>) {
        let mut waiting = Vec::new();
        while queue.recv_many(&mut waiting, QUEUE).await > 0 {
            waiting.retain(|waiting| !waiting.is_closed());
            if waiting.is_empty() {
                continue;
            }
            let index = self.confirm().await;
            for waiting in waiting.drain(..) {
                // Whoever asked may have given up.
                let _ = waiting.send(index.clone());
            }
        }
    }

    async fn confirm(&self) -> Result<Revision, ReadError> {
        let Some(leadership) = *self.leadership.borrow() else { return Err(ReadError::NoLeader) };
        if is_planted(Planted::StaleRead) {
            return Ok(Revision(0));
        }
        if leadership.is_me {
            return confirm_here(&self.raft, self.me, ROUND).await;
        }
        let leader = leadership.peer;
        let not_confirmed = |what| ReadError::NotConfirmed { leader, what };
        let client = self.addresses.client(leader).map_err(not_confirmed)?;
        let timeout_ms = u64::try_from(ROUND.as_millis()).unwrap_or(u64::MAX);
        match client.call(Lane::Control, BodyV1::ReadIndex { timeout_ms }, ROUND).await {
            Ok(ReplyV1::ReadIndex(index)) => index,
            Ok(other) => Err(not_confirmed(client.unexpected(&other).to_string())),
            Err(error) => Err(not_confirmed(error.to_string())),
        }
    }
}

/// Confirms on the leader.
pub(super) async fn confirm_here(raft: &Raft, me: PeerId, timeout: Duration) -> Result<Revision, ReadError> {
    // An age of zero: only acknowledgements of what is sent from now on count.
    let option = LinearizerOption::new(Some(Duration::ZERO), true).with_wait_timeout(timeout);
    let not_confirmed = |what| ReadError::NotConfirmed { leader: me, what };
    match raft.get_read_log_id(option).await {
        Ok((read, _)) => Ok(Revision(read.index())),
        Err(RaftError::APIError(LinearizableReadError::ForwardToLeader(_))) => {
            Err(not_confirmed(String::from("it doesn't lead any more")))
        }
        Err(RaftError::APIError(LinearizableReadError::QuorumNotEnough(_))) => {
            Err(not_confirmed(String::from("it doesn't reach a majority of the peers")))
        }
        Err(RaftError::Fatal(_)) => Err(ReadError::Stopping),
    }
}
