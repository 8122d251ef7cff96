//! Machines of peers, as far as the state knows them.

use std::collections::BTreeMap;

use super::{Findings, Severity, Ward, of_node};
use crate::state::PeerFacts;

/// The guard looks after nobody then, and nobody would notice.
pub(super) fn hosts_no_peer(ward: &Ward<'_>, found: &mut Findings) {
    for node in ward.state.nodes.values() {
        let Some(named) = &node.hosts_peer else { continue };
        if ward.state.peers_on(node).is_empty() {
            let text = format!("its config says that peer {named} runs on its machine, and there is no such peer");
            let advice = "set `hosts_peer` in its config to the peer's id or address as `rollcall cluster status` shows \
                          it, or take it out";
            found.tell(Severity::Warning, of_node(node), text, advice.to_owned());
        }
    }
}

/// All of them on one machine is somebody's own machine, and no accident.
pub(super) fn peers_share_a_machine(ward: &Ward<'_>, found: &mut Findings) {
    let mut machines = BTreeMap::<&str, Vec<String>>::new();
    for peer in ward.state.peers.values() {
        let Some(PeerFacts { machine_id, .. }) = &peer.facts else { continue };
        if !machine_id.is_empty() {
            machines.entry(machine_id).or_default().push(peer.id.to_string());
        }
    }
    if machines.len() < 2 {
        return;
    }
    for (machine, peers) in machines.into_iter().filter(|(_, peers)| peers.len() > 1) {
        let text = format!("peers {} run on one machine ({machine}): they are lost together", peers.join(", "));
        let advice = "give each peer a machine of its own: `rollcall cluster add-peer` there, then `rollcall cluster \
                      remove-peer` here";
        found.tell(Severity::Warning, "peers".to_owned(), text, advice.to_owned());
    }
}
