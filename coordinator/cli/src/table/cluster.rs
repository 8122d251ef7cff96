//! The peers.

use crate::output::{Page, Tone, View, column, key_values, millis, table};
use crate::table::{NONE, or_none};
use crate::view::{At, ClusterView, PeerView, PeersView};

impl View for At<ClusterView> {
    fn to_table(&self, page: &Page) -> String {
        let cluster = &self.item;
        let head = key_values(
            page,
            [
                ("condition", Tone::of(&cluster.condition).paint(&cluster.condition.replace('_', " "))),
                ("cluster", or_none(cluster.cluster_id.as_deref()).to_owned()),
                ("leader", or_none(cluster.leader_peer_id.as_deref()).to_owned()),
                ("may lose", margin_text(cluster.quorum_margin)),
                ("revision", self.revision.to_string()),
                ("version", format!("{} (feature level {})", cluster.version, cluster.feature_level)),
                ("log", log_text(cluster)),
            ],
        );
        if cluster.peers.is_empty() { head } else { format!("{head}\n\n{}", peers_table(page, &cluster.peers)) }
    }
}

impl View for PeersView {
    fn to_table(&self, page: &Page) -> String {
        peers_table(page, &self.peers)
    }
}

fn margin_text(margin: i32) -> String {
    match margin {
        ..0 => Tone::Bad.paint("nothing moves: no majority"),
        0 => Tone::Warning.paint("no voter"),
        1 => "1 voter".to_owned(),
        more => format!("{more} voters"),
    }
}

fn log_text(cluster: &ClusterView) -> String {
    let snapshot = cluster.snapshot_revision.map_or(NONE.to_owned(), |revision| revision.to_string());
    let peer = or_none(cluster.answering_peer_id.as_deref());
    format!("{} entries, snapshot at {snapshot} (peer {peer})", cluster.log_entries)
}

fn peers_table(page: &Page, peers: &[PeerView]) -> String {
    let rows = peers.iter().map(|peer| {
        let role = match (peer.leader, peer.voter) {
            (true, _) => "leader",
            (false, true) => "voter",
            (false, false) => "learner",
        };
        let reachable = if peer.reachable { "reachable" } else { "unreachable" };
        [
            column(&peer.peer_id, Tone::Plain),
            column(&peer.address, Tone::Plain),
            column(role, Tone::Plain),
            column(reachable, Tone::of(reachable)),
            column(peer.last_heard_ms.map_or(NONE.to_owned(), |ms| format!("{} ago", millis(ms))), Tone::Plain),
            column(peer.matched_revision.map_or(NONE.to_owned(), |revision| revision.to_string()), Tone::Plain),
            column(or_none(peer.version.as_deref()), Tone::Plain),
            column(peer.feature_level.map_or(NONE.to_owned(), |level| level.to_string()), Tone::Plain),
        ]
    });
    table(page, ["PEER", "ADDRESS", "ROLE", "STATE", "HEARD", "HOLDS UP TO", "VERSION", "KNOWS LEVEL"], rows)
}
