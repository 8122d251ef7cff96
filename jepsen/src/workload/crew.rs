//! All clients of a run: started together, and brought to their end one kind after the other.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::depot::Depot;
use crate::hosts::Hosts;
use crate::ops::Kind;
use crate::ops::book::Book;
use crate::stored::Settings;
use crate::workload::Workload;
use crate::workload::register::Client;
use crate::workload::rollout::{self, Operator};
use crate::workload::watch::{FOLLOWERS, Follower};

/// BOUND: until each register is written once.
const BEGINS_WITHIN: Duration = Duration::from_secs(30);

/// BOUND: until clients that were told to stop have done so: three tries of an operation.
const STOPS_WITHIN: Duration = Duration::from_secs(10);

/// BOUND: until followers that were told where the end is are there.
const CONVERGES_WITHIN: Duration = Duration::from_secs(40);

/// Clients at work.
pub struct Crew {
    settings: Settings,
    book: Book,
    writers: Gang<()>,
    followers: Gang<()>,
    operators: Gang<Operator>,
    goal: Arc<AtomicU64>,
}

/// Clients of one kind.
struct Gang<T> {
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<T>>,
}

impl<T: Send + 'static> Gang<T> {
    fn new() -> Self {
        Self { stop: watch::channel(false).0, tasks: Vec::new() }
    }

    fn start<W: Future<Output = T> + Send + 'static>(&mut self, work: impl FnOnce(watch::Receiver<bool>) -> W) {
        self.tasks.push(tokio::spawn(work(self.stop.subscribe())));
    }

    async fn stop(&mut self, within: Duration) -> Result<Vec<T>> {
        self.stop.send_replace(true);
        let tasks = std::mem::take(&mut self.tasks);
        let all = async {
            let mut ended = Vec::new();
            for task in tasks {
                ended.push(task.await?);
            }
            anyhow::Ok(ended)
        };
        tokio::time::timeout(within, all).await.context("a client doesn't come to its end")?
    }
}

impl Crew {
    /// Starts all that a run's workloads need.
    pub async fn start(settings: &Settings, hosts: &Hosts, book: &Book, depot: Depot) -> Result<Self> {
        let mut crew = Self {
            settings: settings.clone(),
            book: book.clone(),
            writers: Gang::new(),
            followers: Gang::new(),
            operators: Gang::new(),
            goal: Arc::default(),
        };
        let asked = |workload| settings.workloads.contains(&workload);
        let rest = Duration::from_micros(1_000_000 / settings.rate.max(1));
        let client =
            |number| Client::new(number, &hosts.doors, book, settings.keys, settings.seed, rest).with(settings.plant);
        if asked(Workload::Rollout) {
            let mut operator = Operator::new(&hosts.doors, book, depot, settings.seed);
            operator.prepare(settings.nodes).await?;
            crew.operators.start(|stop| operator.work(stop));
        }
        let mut first = client(0);
        tokio::time::timeout(BEGINS_WITHIN, first.write_all()).await.context("the registers can't be written")?;
        crew.writers.start(|stop| first.work(stop));
        for number in 1..settings.clients {
            crew.writers.start(|stop| client(number).work(stop));
        }
        if asked(Workload::Watch) {
            for number in 0..FOLLOWERS {
                let (follower, goal) = (Follower::new(number, &hosts.doors, book, settings.seed), crew.goal.clone());
                crew.followers.start(|stop| follower.work(stop, goal));
            }
        }
        Ok(crew)
    }

    /// Once everything is healed: rollouts come to their end, everything is read and written a last time, and the
    /// followers get to the end. What each node runs then, and what didn't succeed; an error is the clients' own.
    pub async fn end(mut self, hosts: &Hosts) -> Result<(BTreeMap<String, String>, Option<String>)> {
        let mut runs = BTreeMap::new();
        let mut failed = None;
        for mut operator in self.operators.stop(STOPS_WITHIN).await? {
            failed = operator.finish().await.err();
            for node in &hosts.nodes {
                let release = rollout::runs(node).unwrap_or_else(|error| format!("{error:#}"));
                runs.insert(node.name().to_owned(), release);
            }
        }
        self.writers.stop(STOPS_WITHIN).await?;
        let Settings { clients, keys, seed, .. } = self.settings;
        let mut last = Client::new(clients, &hosts.doors, &self.book, keys, seed, Duration::ZERO);
        failed = failed.or(last.last_look().await.err());
        self.goal.store(last_revision(&self.book), Ordering::SeqCst);
        self.followers.stop(CONVERGES_WITHIN).await?;
        Ok((runs, failed.map(|error| format!("{error:#}"))))
    }
}

/// The last revision that a client was told of.
fn last_revision(book: &Book) -> u64 {
    last_revision_of(&book.ops())
}

/// The same of a history.
pub fn last_revision_of(history: &[crate::ops::Op]) -> u64 {
    let writes = history.iter().filter(|op| op.kind == Kind::Ok && matches!(op.f.as_str(), "write" | "cas"));
    writes.filter_map(|op| op.value.get("revision")?.as_u64()).max().unwrap_or(0)
}
