//! Leadership is handed over, as an operator does before maintenance.

use anyhow::Result;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use crate::hosts::{Hosts, care};
use crate::nemesis::{Active, Begun, Bite, Wound};

/// Leadership that has moved.
#[derive(Debug)]
pub struct Moved {
    said: String,
}

/// Hands it to one of the followers.
pub async fn begin(hosts: &mut Hosts, random: &mut StdRng) -> Result<Begun> {
    let Some(leader) = hosts.leader().map(|host| host.name().to_owned()) else {
        return Ok(Begun::Skipped("nobody leads".into()));
    };
    let others = hosts.peers.iter().map(|peer| peer.name().to_owned()).filter(|name| *name != leader);
    let others: Vec<String> = others.collect();
    let Some(target) = others.choose(random).cloned() else { return Ok(Begun::Skipped("there is one peer".into())) };
    let Some(peer_id) = hosts.peer_id_of(&target) else {
        return Ok(Begun::Skipped(format!("nobody knows the id of {target}")));
    };
    match care::transfer_leader(hosts.door()?, peer_id).await {
        Ok(now) if now == peer_id => {
            let what = format!("leadership moves from {leader} to {target}");
            let active = Active::Transfer(Moved { said: format!("peer {now} said that it leads") });
            Ok(Begun::Installed(Wound { what, targets: vec![leader, target], active }))
        }
        Ok(now) => Ok(Begun::Indeterminate(format!("{target} was asked to lead, and peer {now} does"))),
        Err(status) if status.code() == tonic::Code::FailedPrecondition => {
            Ok(Begun::Skipped(format!("refused: {}", status.message())))
        }
        Err(status) => Ok(Begun::Indeterminate(status.message().to_owned())),
    }
}

impl Moved {
    /// There is nothing to undo.
    pub fn end(self, _: &mut Hosts) -> Bite {
        Bite::seen(self.said)
    }
}
