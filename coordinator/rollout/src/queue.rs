//! The order of turns: where a queued step stands, kept as an ordered index in its rollout.

use bincode::{Decode, Encode};
use rollcall_ident::{NodeId, NodeName};

use crate::Order;
use crate::gate::Candidate;
use crate::quorum::hosts_leader;
use crate::state::Way;

/// A step's place in the queue; the lowest goes first. The fields decide in their order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct Rank {
    /// An operator holds the node: the others go on.
    is_held: bool,
    /// It hasn't been let in by a batch; those that were and failed are tried again first.
    is_new: bool,
    /// It isn't broken: a good release overtakes a broken one.
    is_sound: bool,
    /// It is the primary.
    is_primary: bool,
    /// The peer that leads runs on its machine.
    hosts_leader: bool,
    /// The policy's order.
    place: u64,
    /// The policy's order, where that is a word.
    label: String,
    name: NodeName,
    node: NodeId,
}

impl Rank {
    /// Where the step stands now.
    pub(crate) fn of(candidate: &Candidate<'_>) -> Self {
        let (place, label) = place(candidate);
        Self {
            is_held: candidate.node.hold.is_some(),
            is_new: candidate.step.batch.is_none(),
            is_sound: !candidate.is_repair(),
            is_primary: candidate.is_held_back_as_primary(),
            hosts_leader: candidate.step.way == Way::Forward && hosts_leader(candidate.state, candidate.node),
            place,
            label,
            name: candidate.node.name.clone(),
            node: candidate.node.id,
        }
    }

    /// Below all sound replicas that aren't held, of the first batch or a later one.
    pub(crate) fn before_replicas(is_new: bool) -> Self {
        Self { is_new, is_sound: true, ..Self::lowest() }
    }

    /// Below all sound primaries that aren't held, and above the replicas.
    pub(crate) fn before_primaries(is_new: bool) -> Self {
        Self { is_primary: true, ..Self::before_replicas(is_new) }
    }

    fn lowest() -> Self {
        Self {
            is_held: false,
            is_new: false,
            is_sound: false,
            is_primary: false,
            hosts_leader: false,
            place: 0,
            label: String::new(),
            name: "0".parse().expect("a well-formed name"),
            node: NodeId::default(),
        }
    }
}

fn place(candidate: &Candidate<'_>) -> (u64, String) {
    if candidate.step.way == Way::Back {
        // In the reverse order of the grants that led forward; what has failed goes first.
        return (u64::MAX - candidate.step.fence.map_or(0, |fence| fence.0), String::new());
    }
    match &candidate.group.policy.order {
        Order::Name => (0, String::new()),
        Order::Inventory => {
            (candidate.group.places.get(&candidate.node.name.to_string()).copied().unwrap_or(u64::MAX), String::new())
        }
        Order::Label(key) => match candidate.node.labels.get(key) {
            Some(value) => (0, value.clone()),
            None => (1, String::new()),
        },
        Order::Priority => (candidate.service.priority.unwrap_or(u64::MAX), String::new()),
    }
}
