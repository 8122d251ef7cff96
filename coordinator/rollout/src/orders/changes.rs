//! Whose orders an entry may have changed: a peer with thousands of sessions looks at those alone.

use std::collections::BTreeSet;

use rollcall_ident::{NodeId, PeerId, SessionEpoch};

use crate::State;
use crate::state::{Group, Rollout};

/// The nodes whose orders in `after` may not be those in `before`, an earlier state: all others' are the same. It costs
/// what has changed, not what there is; where a whole group is ordered anew, its members.
#[must_use]
pub fn orders_changed(before: &State, after: &State) -> BTreeSet<NodeId> {
    let mut nodes: BTreeSet<NodeId> = before.nodes.changes(&after.nodes).map(|(node, ..)| *node).collect();
    nodes.extend(before.tokens.changes(&after.tokens).map(|(node, ..)| *node));
    for (_, was, is) in before.groups.changes(&after.groups) {
        if !was.zip(is).is_some_and(|(was, is)| asks_the_same_of_all(was, is)) {
            nodes.extend(was.into_iter().chain(is).flat_map(|group| group.members.keys()));
        }
    }
    for (_, was, is) in before.rollouts.changes(&after.rollouts) {
        match was.zip(is) {
            Some((was, is)) if leads_where_it_led(was, is) => {
                nodes.extend(was.steps.changes(&is.steps).map(|(node, ..)| *node));
            }
            _ => nodes.extend(was.into_iter().chain(is).flat_map(|rollout| rollout.steps.keys())),
        }
    }
    if before.channels.changes(&after.channels).next().is_some() {
        // The digests of what is gone back to are those on record.
        let ordered = after.tokens.values().map(|token| token.rollout);
        let rollouts: BTreeSet<_> = after.groups.values().filter_map(|it| it.active_rollout).chain(ordered).collect();
        let rollouts = rollouts.iter().filter_map(|id| after.rollouts.get(id));
        nodes.extend(rollouts.filter(|it| it.going_back.is_some()).flat_map(|it| it.steps.keys()));
    }
    nodes
}

/// The sessions with `host` that were opened between two states.
pub fn sessions_opened<'a>(
    before: &'a State,
    after: &'a State,
    host: PeerId,
) -> impl Iterator<Item = (SessionEpoch, NodeId)> + use<'a> {
    let opened = before.sessions.changes(&after.sessions).filter_map(|(session, _, node)| Some((*session, *node?)));
    opened.filter(move |((at, _), _)| *at == host).map(|((_, epoch), node)| (epoch, node))
}

/// Whether what a group has its members do, beside their steps, is as it was.
fn asks_the_same_of_all(was: &Group, is: &Group) -> bool {
    was.package == is.package
        && was.policy == is.policy
        && was.active_rollout == is.active_rollout
        && was.configs == is.configs
}

/// Whether steps that are as they were lead where they led.
fn leads_where_it_led(was: &Rollout, is: &Rollout) -> bool {
    was.target == is.target && was.digest == is.digest && was.kind == is.kind && was.group == is.group
}
