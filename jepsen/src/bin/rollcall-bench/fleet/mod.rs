//! Many nodes in one process: each with a connection and a session of its own, as an agent has it, and hooks that end at
//! once.
//!
//! What a peer sees of such a node is what it sees of an agent: the same messages, heartbeats, keep-alives and pauses
//! between tries. Deliberately absent: a disk and processes, since what is measured is the cluster.

mod node;
mod step;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::times::Times;

pub use node::Order;

/// The package that all nodes run.
pub const PACKAGE: &str = "acme/bench";

/// What they run first.
pub const FIRST: &str = "acme/bench/1.0.0/20260101000000";

/// What they are moved to.
pub const SECOND: &str = "acme/bench/2.0.0/20260201000000";

/// BOUND: for all sessions to be open.
const OPEN_WITHIN: Duration = Duration::from_secs(300);

/// So many connect at once; more would only wait for each other in the peers' queues.
const CONNECT_AT_ONCE: usize = 256;

/// The nodes. Dropping it ends their sessions.
pub struct Fleet {
    shared: Arc<Shared>,
    nodes: Vec<(mpsc::UnboundedSender<Order>, JoinHandle<()>)>,
}

/// What all nodes count together.
#[derive(Default)]
struct Shared {
    open: watch::Sender<usize>,
    answered: AtomicU64,
    refused: AtomicU64,
    /// Steps that were finished and accepted, and the revision of the latest.
    finished: watch::Sender<usize>,
    finished_at: AtomicU64,
    refusals: Mutex<HashMap<String, u64>>,
}

impl Fleet {
    /// So many nodes of a group, each with an open session.
    pub async fn start(count: usize, group: &str, endpoints: &[String]) -> Result<Self> {
        let shared = Arc::new(Shared::default());
        let gate = Arc::new(tokio::sync::Semaphore::new(CONNECT_AT_ONCE));
        let nodes = (0..count)
            .map(|number| {
                let (order, orders) = mpsc::unbounded_channel();
                let node = node::Node::new(number, group, endpoints, shared.clone(), gate.clone());
                (order, tokio::spawn(node.run(orders)))
            })
            .collect();
        let fleet = Self { shared, nodes };
        fleet.await_open(OPEN_WITHIN).await?;
        Ok(fleet)
    }

    /// How many nodes.
    pub fn count(&self) -> usize {
        self.nodes.len()
    }

    /// Waits until all have a session.
    pub async fn await_open(&self, within: Duration) -> Result<()> {
        let (mut open, count) = (self.shared.open.subscribe(), self.count());
        let all = open.wait_for(|open| *open == count);
        if tokio::time::timeout(within, all).await.is_err() {
            bail!("{} of {count} sessions are open after {within:?}", *self.shared.open.borrow());
        }
        Ok(())
    }

    /// Has one node do something.
    pub fn order(&self, number: usize, order: Order) {
        // Nodes end with the fleet only.
        let _ = self.nodes[number].0.send(order);
    }

    /// Has every node report a status; how long each answer took. All sessions may be on their way to another peer.
    pub async fn report_all(&self, detail: &str) -> Result<Times> {
        let began = Instant::now();
        let (told, mut answers) = mpsc::unbounded_channel();
        for (order, _) in &self.nodes {
            let _ = order.send(Order::Report { detail: detail.to_owned(), is_healthy: true, told: Some(told.clone()) });
        }
        drop(told);
        let mut times = Vec::with_capacity(self.count());
        let all = async {
            while let Some(at) = answers.recv().await {
                times.push(at - began);
            }
        };
        if tokio::time::timeout(OPEN_WITHIN, all).await.is_err() || times.len() != self.count() {
            bail!("{} of {} reports are answered after {OPEN_WITHIN:?}", times.len(), self.count());
        }
        Ok(Times::new(times))
    }

    /// Waits until so many steps were finished; the revision of the last one.
    pub async fn await_finished(&self, count: usize, within: Duration) -> Result<u64> {
        let mut finished = self.shared.finished.subscribe();
        let all = finished.wait_for(|finished| *finished >= count);
        if tokio::time::timeout(within, all).await.is_err() {
            bail!(
                "{} of {count} steps are finished after {within:?}{}",
                *self.shared.finished.borrow(),
                self.refusals()
            );
        }
        Ok(self.shared.finished_at.load(Ordering::SeqCst))
    }

    /// Reports that were answered so far.
    pub fn answered(&self) -> u64 {
        self.shared.answered.load(Ordering::SeqCst)
    }

    /// An error where a report was refused.
    pub fn ensure_nothing_refused(&self) -> Result<()> {
        match self.shared.refused.load(Ordering::SeqCst) {
            0 => Ok(()),
            count => bail!("{count} reports were refused{}", self.refusals()),
        }
    }

    fn refusals(&self) -> String {
        let refusals = self.shared.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        if refusals.is_empty() { String::new() } else { format!(": {refusals:?}") }
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for (_, node) in &self.nodes {
            node.abort();
        }
    }
}

impl Shared {
    fn note_refusal(&self, refusal: &str) {
        self.refused.fetch_add(1, Ordering::SeqCst);
        *self.refusals.lock().unwrap_or_else(PoisonError::into_inner).entry(refusal.to_owned()).or_default() += 1;
    }

    fn note_finished(&self, revision: u64) {
        self.finished_at.fetch_max(revision, Ordering::SeqCst);
        self.finished.send_modify(|count| *count += 1);
    }
}
