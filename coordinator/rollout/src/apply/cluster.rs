//! The cluster itself and the registry of its peers.

use rollcall_ident::{ChannelName, ClusterId, PeerId};

use super::Transition;
use crate::level::who_lags;
use crate::state::{Channel, Peer};
use crate::{Event, Rejection, Reply};

/// The channel that every cluster has from its beginning.
const FIRST_CHANNEL: &str = "stable";

impl Transition<'_> {
    pub(super) fn init_cluster(&mut self, cluster_id: ClusterId) -> Result<Reply, Rejection> {
        if let Some(known) = self.state.cluster_id {
            return Err(Rejection::AlreadyInitialized(known));
        }
        self.state.cluster_id = Some(cluster_id);
        self.state.feature_level = 1;
        let stable: ChannelName = FIRST_CHANNEL.parse().expect("a well-formed name");
        self.state.channels.insert(stable.clone(), Channel::new(stable, self.revision));
        self.emit(Event::ClusterInitialized { cluster_id });
        Ok(Reply::Done)
    }

    /// All behave by the next level from here on, and nobody who doesn't know it takes part any more.
    pub(super) fn raise_feature_level(&mut self, level: u32) -> Result<Reply, Rejection> {
        let current = self.state.feature_level;
        if level != current + 1 {
            return Err(Rejection::AlreadySo(format!(
                "the cluster is at feature level {current}; it rises one by one"
            )));
        }
        if let Some((peer, known)) = who_lags(self.state, level) {
            return Err(Rejection::PeerLacksLevel { peer, known: known.unwrap_or_default(), level });
        }
        self.state.feature_level = level;
        self.emit(Event::FeatureLevelRaised { level });
        Ok(Reply::Done)
    }

    #[cfg(feature = "next-level")]
    pub(super) fn try_level(&mut self) -> Result<Reply, Rejection> {
        let level = self.state.feature_level;
        if level < crate::LEVEL {
            return Err(Rejection::AlreadySo(format!("the cluster is at feature level {level}")));
        }
        self.emit(Event::LevelTried { level });
        Ok(Reply::Done)
    }

    /// The peer's id is this revision: never given before, and never again.
    pub(super) fn add_peer(&mut self, address: &str) -> Result<Reply, Rejection> {
        if let Some(peer) = self.state.peers.values().find(|peer| peer.address == address) {
            return Err(Rejection::PeerAddressTaken { address: address.to_owned(), peer: peer.id });
        }
        // The first peer has made the cluster before there was a log: its id is 1, as its registration comes first.
        let id = if self.state.peers.is_empty() { PeerId(1) } else { PeerId(self.revision.0) };
        self.state.peers.insert(id, Peer::new(id, address.to_owned()));
        self.emit(Event::PeerAdded { peer: id, address: address.to_owned() });
        self.find_hosts();
        Ok(Reply::PeerAdded(id))
    }

    pub(super) fn move_peer(&mut self, id: PeerId, address: &str) -> Result<Reply, Rejection> {
        if let Some(taken) = self.state.peers.values().find(|peer| peer.address == address && peer.id != id) {
            return Err(Rejection::PeerAddressTaken { address: address.to_owned(), peer: taken.id });
        }
        let Some(peer) = self.state.peers.get_mut(&id) else { return Err(Rejection::UnknownPeer(id)) };
        if peer.address == address {
            return Err(Rejection::AlreadySo(format!("peer {id} is at {address}")));
        }
        peer.address = address.to_owned();
        self.emit(Event::PeerMoved { peer: id, address: address.to_owned() });
        self.find_hosts();
        Ok(Reply::Done)
    }

    pub(super) fn remove_peer(&mut self, peer: PeerId) -> Result<Reply, Rejection> {
        if self.state.peers.remove(&peer).is_none() {
            return Err(Rejection::UnknownPeer(peer));
        }
        self.state.leader = self.state.leader.filter(|leader| *leader != peer);
        self.emit(Event::PeerRemoved { peer });
        self.find_hosts();
        Ok(Reply::Done)
    }
}
