//! Sessions of agents that are connected to this peer.
//!
//! A session is a stream: hello and welcome, then orders one way, reports and heartbeats the other. The log knows that it
//! is open, who hosts it and its epoch; everything else about it is in the memory of its host.
//!
//! # Invariants
//! - Orders are derived from what this peer has applied, whenever that changes, and pushed where they differ: nothing is
//!   fired, so a peer that takes a session over has nothing to recover.
//! - What the log says this peer hosts and what it hosts become the same again after any failure: a session whose stream
//!   is gone is closed in the log, and a stream whose session the log has given to another ends.
//! - Reports of one session enter the log in their order, and each is answered once its entry is applied.
//! - Heartbeats are never logged.
//!
//! # Deliberately absent
//! Judgement: whether a report fits is the state machine's to say, when a node counts as departed too.

mod close;
mod dispatch;
mod hub;
mod registry;
mod reports;
mod restart;
mod session;

use std::time::Duration;

use futures::Stream;
use rollcall_proto::v1;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tonic::{Status, Streaming};

use crate::convert;
use crate::raft::Consensus;
use hub::Hub;
use session::Outbox;

/// How often an agent is to say that it lives.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);

/// BOUND: silence after which a session counts as dead: four heartbeats may be lost.
const SILENCE: Duration = Duration::from_secs(5);

/// BOUND: reports of one session that wait for their answers; an agent that says more waits. A node has a handful of
/// services, and each says little more than one thing at a time.
const REPORTS_IN_FLIGHT: usize = 64;

/// BOUND: sessions of a peer. A cluster of 5 peers hosts 100,000 nodes, also when one peer is down.
pub const MAX_SESSIONS: usize = 40_000;

/// What an agent is sent.
type ToAgent = Result<v1::PeerMessage, Status>;

/// The sessions that this peer hosts. Clones are handles on the same ones.
#[derive(Clone)]
pub struct Sessions {
    /// None while the peer is blank, or its earlier sessions aren't put in order yet.
    hub: watch::Receiver<Option<Hub>>,
    stopping: CancellationToken,
}

impl Sessions {
    /// Hosts sessions as soon as the peer runs, until `stopping`.
    pub fn start(running: watch::Receiver<Option<Consensus>>, stopping: CancellationToken) -> Self {
        let (publish, hub) = watch::channel(None);
        tokio::spawn(restart::host_once_running(running, publish, stopping.clone()));
        Self { hub, stopping }
    }

    /// How many are open here.
    pub fn count(&self) -> usize {
        self.hub.borrow().as_ref().map_or(0, |hub| hub.registry.count())
    }

    /// Hosts the session of an agent that connected from `address`.
    ///
    /// # Errors
    /// This peer has too many.
    pub fn host(
        &self,
        address: String,
        inbound: Streaming<v1::AgentMessage>,
    ) -> Result<impl Stream<Item = ToAgent> + Send + use<>, Status> {
        if self.count() >= MAX_SESSIONS {
            let message = format!("this peer hosts {MAX_SESSIONS} sessions, the most it takes; connect to another");
            return Err(convert::retry_later("too_many_sessions", message));
        }
        let (messages, to_send) = mpsc::channel(REPORTS_IN_FLIGHT + 2);
        let (orders, latest) = watch::channel(None);
        let outbox = Outbox { messages, orders };
        tokio::spawn(session::run(self.hub.clone(), self.stopping.clone(), address, inbound, outbox));
        Ok(outbound(to_send, latest))
    }
}

/// What is to be sent, as the agent takes it: answers in their order, of orders only the latest.
fn outbound(
    mut messages: mpsc::Receiver<ToAgent>,
    mut orders: watch::Receiver<Option<v1::Orders>>,
) -> impl Stream<Item = ToAgent> + Send {
    async_stream::stream! {
        loop {
            tokio::select! {
                // ORDER: the welcome is sent before the first orders.
                biased;
                message = messages.recv() => match message {
                    Some(message) => yield message,
                    None => return,
                },
                Ok(()) = orders.changed() => {
                    let latest = orders.borrow_and_update().clone();
                    if let Some(latest) = latest {
                        yield Ok(session::message(v1::peer_message::Kind::Orders(latest)));
                    }
                }
            }
        }
    }
}
