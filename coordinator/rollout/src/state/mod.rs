//! The replicated state: what every peer holds in memory, and every snapshot on disk.

mod agenda;
mod channel;
mod deadline;
mod group;
mod node;
mod peer;
mod phase;
mod quarantine;
mod request;
mod rollout;
mod step;
mod tally;

pub(crate) use agenda::Agenda;
pub use channel::{Channel, ChannelRelease};
pub use deadline::{AlarmKey, DeadlineKey};
pub use group::{Group, GroupPatch};
pub use node::{Health, HealthOverride, Hold, Instance, Node, Prefetch, Presence, Service, Session};
pub use peer::{Peer, PeerFacts, PeerStanding};
pub use phase::Phase;
pub use quarantine::Quarantine;
pub(crate) use request::{Answered, Requests};
pub use rollout::{Batch, EndedBy, GoingBack, PauseCause, PausedBy, Rollout, RolloutKind, RolloutStatus, Source};
pub use step::{SkipCause, Step, StepFailure, StepTimings, Token, Turn, Way};
pub use tally::Tally;

use std::ops::Bound;

use bincode::{Decode, Encode};
use rollcall_ident::{
    ChannelName, ClusterId, ClusterTime, Digest, FreezeId, GroupName, NodeId, NodeName, PeerId, ReleaseIdent,
    RequestId, Revision, RolloutId, SessionEpoch, WallTime,
};

use crate::{ChainHead, Command, Freeze, Map, Stamp};

/// All of it. A clone shares everything and costs nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub struct State {
    pub(crate) revision: Revision,
    pub(crate) now: Stamp,
    pub(crate) feature_level: u32,
    pub(crate) cluster_id: Option<ClusterId>,
    pub(crate) audit: ChainHead,
    pub(crate) peers: Map<PeerId, Peer>,
    /// Who leads, as the last leader said.
    pub(crate) leader: Option<PeerId>,
    /// On which nodes' machines peers run.
    pub(crate) hosts: Map<(PeerId, NodeId), ()>,
    pub(crate) nodes: Map<NodeId, Node>,
    pub(crate) node_names: Map<NodeName, NodeId>,
    /// Nodes that were removed: they don't come back under the same identity.
    pub(crate) removed_nodes: Map<NodeId, Stamp>,
    pub(crate) groups: Map<GroupName, Group>,
    pub(crate) channels: Map<ChannelName, Channel>,
    pub(crate) rollouts: Map<RolloutId, Rollout>,
    pub(crate) tokens: Map<NodeId, Token>,
    pub(crate) sessions: Map<(PeerId, SessionEpoch), NodeId>,
    pub(crate) quarantine: Map<ReleaseIdent, Quarantine>,
    pub(crate) freezes: Map<FreezeId, Freeze>,
    pub(crate) deadlines: Agenda<ClusterTime, DeadlineKey>,
    pub(crate) alarms: Agenda<WallTime, AlarmKey>,
    pub(crate) requests: Requests,
    /// The clusters that this one was recovered from, the oldest first: their agents are its own.
    pub(crate) former_clusters: Vec<ClusterId>,
}

impl State {
    /// The index of the last entry that was applied.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Cluster time at that entry.
    #[must_use]
    pub fn clock(&self) -> ClusterTime {
        self.now.cluster_time
    }

    /// Both times at that entry.
    #[must_use]
    pub fn now(&self) -> Stamp {
        self.now
    }

    /// Which behaviour the cluster has agreed on.
    #[must_use]
    pub fn feature_level(&self) -> u32 {
        self.feature_level
    }

    /// The cluster's id, from its first entry on.
    #[must_use]
    pub fn cluster_id(&self) -> Option<ClusterId> {
        self.cluster_id
    }

    /// The clusters that this one was recovered from, the oldest first. Whoever belonged to one belongs here.
    #[must_use]
    pub fn former_clusters(&self) -> &[ClusterId] {
        &self.former_clusters
    }

    /// The registered peers.
    #[must_use]
    pub fn peers(&self) -> &Map<PeerId, Peer> {
        &self.peers
    }

    /// The peer that said last that it leads. Consensus may know of a newer one.
    #[must_use]
    pub fn leader(&self) -> Option<PeerId> {
        self.leader
    }

    /// The peers that run on the machine of `node`, and go down with it.
    #[must_use]
    pub fn peers_on(&self, node: &Node) -> Vec<PeerId> {
        crate::quorum::hosted(self, node)
    }

    /// The registered nodes.
    #[must_use]
    pub fn nodes(&self) -> &Map<NodeId, Node> {
        &self.nodes
    }

    /// A node by its name.
    #[must_use]
    pub fn node_named(&self, name: &NodeName) -> Option<&Node> {
        self.node_names.get(name).and_then(|id| self.nodes.get(id))
    }

    /// The nodes in the order of their names, from behind `after` on.
    pub fn nodes_by_name(&self, after: Option<&NodeName>) -> impl Iterator<Item = &Node> {
        let begin = after.map_or(Bound::Unbounded, |name| Bound::Excluded(name.clone()));
        self.node_names.range((begin, Bound::Unbounded)).filter_map(|(_, id)| self.nodes.get(id))
    }

    /// The declared groups.
    #[must_use]
    pub fn groups(&self) -> &Map<GroupName, Group> {
        &self.groups
    }

    /// The channels.
    #[must_use]
    pub fn channels(&self) -> &Map<ChannelName, Channel> {
        &self.channels
    }

    /// The rollouts, the ended ones as far as they are kept.
    #[must_use]
    pub fn rollouts(&self) -> &Map<RolloutId, Rollout> {
        &self.rollouts
    }

    /// Who may be down: the current updaters.
    #[must_use]
    pub fn tokens(&self) -> &Map<NodeId, Token> {
        &self.tokens
    }

    /// The sessions hosted by `peer`, oldest first.
    pub fn sessions_of(&self, peer: PeerId) -> impl Iterator<Item = (SessionEpoch, NodeId)> {
        self.sessions
            .range((peer, SessionEpoch(0))..=(peer, SessionEpoch(u64::MAX)))
            .map(|((_, epoch), node)| (*epoch, *node))
    }

    /// The peers that host sessions, in the order of their ids.
    pub fn session_hosts(&self) -> Vec<PeerId> {
        let mut hosts = Vec::new();
        let mut from = Bound::Unbounded;
        while let Some(((host, _), _)) = self.sessions.range((from, Bound::Unbounded)).next() {
            hosts.push(*host);
            from = Bound::Excluded((*host, SessionEpoch(u64::MAX)));
        }
        hosts
    }

    /// What was asked with a request id, as far as it is remembered.
    #[must_use]
    pub fn requested(&self, id: &RequestId) -> Option<&Command> {
        self.requests.get(id).map(|answered| &answered.command)
    }

    /// When the next deadline is due, in cluster time; none: nothing would change by waiting.
    #[must_use]
    pub fn next_deadline(&self) -> Option<ClusterTime> {
        self.deadlines.next().map(|(at, _)| *at)
    }

    /// What is due in cluster time, the next one first.
    pub fn deadlines_in_order(&self) -> impl Iterator<Item = &DeadlineKey> {
        self.deadlines.iter().map(|(_, key)| key)
    }

    /// When the next alarm is due, by the wall clock.
    #[must_use]
    pub fn next_alarm(&self) -> Option<WallTime> {
        self.alarms.next().map(|(at, _)| *at)
    }

    /// When a certain alarm is due, if it is set.
    #[must_use]
    pub fn alarm(&self, key: &AlarmKey) -> Option<WallTime> {
        self.alarms.get(key)
    }

    /// The releases that aren't started again.
    #[must_use]
    pub fn quarantine(&self) -> &Map<ReleaseIdent, Quarantine> {
        &self.quarantine
    }

    /// The change freezes that weren't lifted.
    #[must_use]
    pub fn freezes(&self) -> &Map<FreezeId, Freeze> {
        &self.freezes
    }

    /// When a certain deadline is due, if it is set.
    #[must_use]
    pub fn deadline(&self, key: &DeadlineKey) -> Option<ClusterTime> {
        self.deadlines.get(key)
    }

    /// The rollout of `group` that isn't at its end.
    #[must_use]
    pub fn active_rollout(&self, group: &GroupName) -> Option<&Rollout> {
        self.groups.get(group).and_then(|group| group.active_rollout).and_then(|id| self.rollouts.get(&id))
    }

    /// The group's active rollout, or else its latest.
    #[must_use]
    pub fn latest_rollout(&self, group: &GroupName) -> Option<&Rollout> {
        self.groups.get(group).and_then(|group| group.latest_rollout).and_then(|id| self.rollouts.get(&id))
    }

    /// The members of `group` with their service there, in the order of their ids.
    pub fn members<'a>(&'a self, group: &'a Group) -> impl Iterator<Item = (&'a Node, &'a Service)> {
        group.members.keys().filter_map(move |id| {
            let node = self.nodes.get(id)?;
            Some((node, node.services.get(&group.name)?))
        })
    }

    /// Why a release isn't started: it was put aside as such, or with the configuration that it would go with.
    #[must_use]
    pub fn quarantined(&self, release: &ReleaseIdent) -> Option<&Quarantine> {
        self.quarantine.get(release).or_else(|| self.quarantine.get(&release.bare()))
    }

    /// What a release's digest is, as far as a channel has it on record.
    #[must_use]
    pub fn recorded_digest(&self, release: &ReleaseIdent) -> Option<Digest> {
        let release = release.bare();
        self.channels.values().find_map(|channel| channel.releases.get(&release).and_then(|found| found.digest))
    }

    /// A node's name, or its id where it has been removed.
    pub(crate) fn name_of(&self, node: NodeId) -> NodeName {
        match self.nodes.get(&node) {
            Some(node) => node.name.clone(),
            None => node.to_string().parse().expect("an id is a well-formed name"),
        }
    }
}
