//! Orders: after each applied revision, derives what the hosted nodes should do and pushes what is new; ends sessions
//! that the log has ended, and has those closed in the log whose streams are gone.

use std::sync::Arc;

use rollcall_ident::{NodeId, PeerId, SessionEpoch};
use rollcall_rollout::{State, orders_for};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::close::Closer;
use super::registry::{EndedBy, Hosted, Inner, Registry};
use crate::convert;
use crate::raft::{StateWatch, View};

/// Keeps the hosted sessions and the log in step.
#[derive(Clone)]
pub(super) struct Dispatcher {
    me: PeerId,
    registry: Arc<Registry>,
    closer: Closer,
}

impl Dispatcher {
    pub fn new(me: PeerId, registry: Arc<Registry>, closer: Closer) -> Self {
        Self { me, registry, closer }
    }

    /// Looks at each applied state, for as long as the peer runs.
    pub async fn run(self, mut applied: StateWatch, stopping: CancellationToken) {
        let mut view = applied.current();
        loop {
            self.look(&view);
            let next = tokio::select! {
                next = applied.changed() => next,
                () = stopping.cancelled() => None,
            };
            match next {
                Some(next) => view = next,
                None => return,
            }
        }
    }

    /// Looks at all hosted nodes. What follows is for one node each: once the state machine says which nodes an entry
    /// has touched, only those need a look.
    fn look(&self, view: &View) {
        let mut inner = self.registry.lock();
        let nodes: Vec<NodeId> = inner.hosted.keys().copied().collect();
        for node in nodes {
            look_at(&mut inner, self.me, view, node);
        }
        for (epoch, node) in view.state.sessions_of(self.me) {
            if is_orphan(&inner, node, epoch) {
                // When it was heard of last isn't known; counting from now makes its deadlines late, never early.
                self.closer.close(node, epoch, Instant::now());
            }
        }
    }

    /// Looks at one node: its session has just begun.
    pub fn look_at(&self, view: &View, node: NodeId) {
        look_at(&mut self.registry.lock(), self.me, view, node);
    }
}

fn look_at(inner: &mut Inner, me: PeerId, view: &View, node: NodeId) {
    let Some(hosted) = inner.hosted.get_mut(&node) else { return };
    if view.revision.0 < hosted.epoch.0 {
        // This peer hasn't applied its beginning yet.
        return;
    }
    match ended_by(&view.state, me, node, hosted.epoch) {
        None => push(hosted, &view.state, node),
        Some(ended_by) => {
            if let Some(hosted) = inner.hosted.remove(&node) {
                // Its stream may have ended by itself.
                let _ = hosted.end.send(ended_by);
            }
        }
    }
}

fn ended_by(state: &State, me: PeerId, node: NodeId, epoch: SessionEpoch) -> Option<EndedBy> {
    match state.nodes().get(&node).and_then(|node| node.session()) {
        Some(session) if session.epoch == epoch && session.host == me => None,
        Some(session) => Some(EndedBy::Replaced(session.epoch)),
        None => Some(EndedBy::Closed),
    }
}

fn push(hosted: &mut Hosted, state: &State, node: NodeId) {
    let Some(orders) = orders_for(state, node) else { return };
    if hosted.last.as_ref() == Some(&orders.groups) {
        return;
    }
    hosted.orders.send_replace(Some(convert::orders(&orders)));
    hosted.last = Some(orders.groups);
}

fn is_orphan(inner: &Inner, node: NodeId, epoch: SessionEpoch) -> bool {
    let is_hosted = inner.hosted.get(&node).is_some_and(|hosted| hosted.epoch == epoch);
    !is_hosted && !inner.opening.contains_key(&node)
}
