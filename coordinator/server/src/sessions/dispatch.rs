//! Orders: after each applied revision, derives what the hosted nodes that it touched should do and pushes what is new;
//! ends sessions that the log has ended, and has those closed in the log whose streams are gone.

use std::collections::BTreeSet;
use std::sync::Arc;

use rollcall_ident::{NodeId, PeerId, SessionEpoch};
use rollcall_rollout::{State, orders_changed, orders_for, sessions_opened};
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
        let mut unhosted: BTreeSet<_> = view.state.sessions_of(self.me).collect();
        let all = self.registry.lock().hosted.keys().copied().collect();
        self.look(&view, &all, &mut unhosted);
        loop {
            let next = tokio::select! {
                next = applied.changed() => next,
                () = stopping.cancelled() => None,
            };
            let Some(next) = next else { return };
            unhosted.extend(sessions_opened(&view.state, &next.state, self.me));
            self.look(&next, &orders_changed(&view.state, &next.state), &mut unhosted);
            view = next;
        }
    }

    /// Looks at `nodes`, and at the sessions that the log says are here and that weren't seen to be so yet.
    fn look(&self, view: &View, nodes: &BTreeSet<NodeId>, unhosted: &mut BTreeSet<(SessionEpoch, NodeId)>) {
        let mut inner = self.registry.lock();
        for node in nodes {
            look_at(&mut inner, self.me, view, *node);
        }
        unhosted.retain(|(epoch, node)| match whereabouts(&inner, *node, *epoch) {
            Whereabouts::Opening => ended_by(&view.state, self.me, *node, *epoch).is_none(),
            Whereabouts::Here => false,
            Whereabouts::Gone => {
                // When it was heard of last isn't known; counting from now makes its deadlines late, never early.
                self.closer.close(*node, *epoch, Instant::now());
                false
            }
        });
    }

    /// Looks at one node: its session has just begun.
    pub fn look_at(&self, view: &View, node: NodeId) {
        look_at(&mut self.registry.lock(), self.me, view, node);
    }
}

fn look_at(inner: &mut Inner, me: PeerId, view: &View, node: NodeId) {
    let Some(hosted) = inner.hosted.get_mut(&node) else { return };
    // Its beginning may not be applied here yet; and who looks when it has begun may be overtaken by who looks at what
    // is applied next.
    if view.revision.0 < hosted.epoch.0 || view.revision < hosted.looked_at {
        return;
    }
    hosted.looked_at = view.revision;
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

/// Where the stream of a session is that the log says is here.
enum Whereabouts {
    Here,
    /// Its hello is on its way to the log, or was the last that was known of it.
    Opening,
    Gone,
}

fn whereabouts(inner: &Inner, node: NodeId, epoch: SessionEpoch) -> Whereabouts {
    if inner.hosted.get(&node).is_some_and(|hosted| hosted.epoch == epoch) {
        Whereabouts::Here
    } else if inner.opening.contains_key(&node) {
        Whereabouts::Opening
    } else {
        Whereabouts::Gone
    }
}
