//! The sessions that this peer hosts, by node.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rollcall_ident::{NodeId, Revision, SessionEpoch};
use rollcall_proto::v1;
use rollcall_rollout::GroupOrders;
use tokio::sync::{oneshot, watch};

/// Why the log ends a session whose stream is alive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum EndedBy {
    /// The node has a later session.
    Replaced(SessionEpoch),
    /// The log has closed it: this peer was out of touch, or the node was removed.
    Closed,
}

/// One hosted session.
pub(super) struct Hosted {
    pub epoch: SessionEpoch,
    /// Where its orders go.
    pub orders: watch::Sender<Option<v1::Orders>>,
    /// What it was ordered last.
    pub last: Option<Vec<GroupOrders>>,
    /// Up to which revision its orders are those of the log.
    pub looked_at: Revision,
    /// Ends it.
    pub end: oneshot::Sender<EndedBy>,
}

/// The sessions that this peer hosts.
#[derive(Default)]
pub(super) struct Registry {
    inner: Mutex<Inner>,
}

#[derive(Default)]
pub(super) struct Inner {
    pub hosted: BTreeMap<NodeId, Hosted>,
    /// How many hellos of a node are on their way to the log: a session of it that isn't hosted yet is no orphan.
    pub opening: BTreeMap<NodeId, usize>,
}

impl Registry {
    pub fn count(&self) -> usize {
        self.lock().hosted.len()
    }

    pub fn lock(&self) -> MutexGuard<'_, Inner> {
        // No holder leaves it half-changed.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A hello of `node` is on its way to the log, for as long as the guard lives.
    pub fn opening(&self, node: NodeId) -> Opening<'_> {
        *self.lock().opening.entry(node).or_default() += 1;
        Opening { registry: self, node }
    }

    /// Hosts a session. One of the same node that is older ends; where there is a newer one, this ends at once.
    pub fn host(&self, node: NodeId, session: Hosted) {
        let mut inner = self.lock();
        let (older, newer) = match inner.hosted.remove(&node) {
            None => (None, session),
            Some(other) if other.epoch < session.epoch => (Some(other), session),
            Some(other) => (Some(session), other),
        };
        if let Some(older) = older {
            // Its stream may have ended by itself.
            let _ = older.end.send(EndedBy::Replaced(newer.epoch));
        }
        inner.hosted.insert(node, newer);
    }

    /// The stream of a session has ended.
    pub fn forget(&self, node: NodeId, epoch: SessionEpoch) {
        let mut inner = self.lock();
        if inner.hosted.get(&node).is_some_and(|hosted| hosted.epoch == epoch) {
            inner.hosted.remove(&node);
        }
    }
}

/// See [`Registry::opening`].
pub(super) struct Opening<'a> {
    registry: &'a Registry,
    node: NodeId,
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        let mut inner = self.registry.lock();
        if let Some(count) = inner.opening.get_mut(&self.node) {
            *count -= 1;
            if *count == 0 {
                inner.opening.remove(&self.node);
            }
        }
    }
}
