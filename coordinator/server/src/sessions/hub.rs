//! What the sessions of a running peer share.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::close::Closer;
use super::dispatch::Dispatcher;
use super::registry::Registry;
use super::reports::{self, Batcher, Queued};
use crate::raft::Consensus;

/// What the sessions of a running peer share. Clones are handles on the same.
#[derive(Clone)]
pub(super) struct Hub {
    pub consensus: Consensus,
    pub registry: Arc<Registry>,
    pub reports: mpsc::Sender<Queued>,
    pub closer: Closer,
    pub dispatcher: Dispatcher,
}

impl Hub {
    /// Begins to host: from now on the log's word on this peer's sessions and the sessions themselves are kept the same.
    pub fn start(consensus: Consensus, stopping: &CancellationToken) -> Self {
        let registry = Arc::new(Registry::default());
        let (reports, queue) = mpsc::channel(reports::QUEUE);
        let closer = Closer::new(consensus.clone(), stopping.clone());
        let dispatcher = Dispatcher::new(consensus.peer_id(), registry.clone(), closer.clone());
        tokio::spawn(Batcher::new(consensus.clone(), stopping.clone()).run(queue));
        tokio::spawn(dispatcher.clone().run(consensus.applied(), stopping.clone()));
        Self { consensus, registry, reports, closer, dispatcher }
    }
}
