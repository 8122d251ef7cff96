//! Changes of membership: a peer is removed while it runs on, or loses its whole disk; then it comes back as a new one,
//! with an empty disk and under another id.

use std::time::Duration;

use anyhow::Result;
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use crate::hosts::host::Host;
use crate::hosts::layout::await_listening;
use crate::hosts::{Hosts, care};
use crate::nemesis::{Active, Begun, Bite, Wound};

/// BOUND: tries of a change of the peers; between two, a leader may be elected.
const TRIES: usize = 6;

/// A peer that isn't one of them for a while.
#[derive(Debug)]
pub struct Gone {
    host: String,
    peer_id: u64,
}

/// Removes a peer, or takes its disk away.
pub async fn begin(hosts: &mut Hosts, random: &mut StdRng) -> Result<Begun> {
    let loses_disk = random.random_bool(0.5);
    if !hosts.to_rebuild.is_empty() {
        return Ok(Begun::Skipped("another peer has to be rebuilt first".into()));
    }
    let Some(host) = hosts.peers.choose(random) else { return Ok(Begun::Skipped("there is no peer".into())) };
    let name = host.name().to_owned();
    if host.machine.ailment().is_ill() {
        return Ok(Begun::Skipped(format!("the disk of {name} is ill")));
    }
    if let Some(why) = hosts.unwell() {
        return Ok(Begun::Skipped(format!("{why}: too few would be left")));
    }
    let Some(peer_id) = hosts.peer_id_of(&name) else {
        return Ok(Begun::Skipped(format!("nobody knows the id of {name}")));
    };
    let active = Active::Member(Gone { host: name.clone(), peer_id });
    if loses_disk {
        let host = hosts.named(&name)?;
        host.hold()?;
        if let Some(process) = host.process() {
            host.kill(process).await?;
        }
        wipe(host)?;
        host.release()?;
        hosts.to_rebuild.push((name.clone(), peer_id));
        let what = format!("{name} (peer {peer_id}) comes back with an empty disk");
        return Ok(Begun::Installed(Wound { what, targets: vec![name], active }));
    }
    let removed = care::remove_peer(hosts.door()?, peer_id).await;
    // Whatever came of it: it is removed, or will be.
    hosts.to_rebuild.push((name.clone(), peer_id));
    match removed {
        Ok(_) => {
            let what = format!("{name} (peer {peer_id}) is removed, and runs on");
            Ok(Begun::Installed(Wound { what, targets: vec![name], active }))
        }
        Err(status) if status.code() == tonic::Code::FailedPrecondition => {
            hosts.to_rebuild.pop();
            Ok(Begun::Skipped(format!("refused: {}", status.message())))
        }
        Err(status) => {
            let what = format!("removing {name} (peer {peer_id}): {}", status.message());
            Ok(Begun::Installed(Wound { what, targets: vec![name], active }))
        }
    }
}

impl Gone {
    /// It becomes a new peer.
    pub async fn end(self, hosts: &mut Hosts) -> Result<Bite> {
        let said = rebuild_all(hosts).await?;
        let now = hosts.peer_id_of(&self.host);
        let is_new = hosts.to_rebuild.iter().all(|(name, _)| *name != self.host);
        let evidence = format!("it was peer {}; {said}; now {now:?}", self.peer_id);
        Ok(if is_new { Bite::seen(evidence) } else { Bite::unseen(evidence) })
    }
}

/// Takes each peer that needs it out, wipes it, and takes it in again. What fails is tried again, before the next fault and
/// at the end of the run.
pub async fn rebuild_all(hosts: &mut Hosts) -> Result<String> {
    rebuild_within(hosts, TRIES).await
}

/// The same, with so many tries.
pub async fn rebuild_within(hosts: &mut Hosts, tries: usize) -> Result<String> {
    let mut said = Vec::new();
    for (name, peer_id) in std::mem::take(&mut hosts.to_rebuild) {
        match rebuild(hosts, &name, peer_id, tries).await? {
            Ok(new_id) => said.push(format!("{name} is peer {new_id} instead of {peer_id}")),
            Err(why) => {
                said.push(format!("{name} isn't rebuilt yet: {why}"));
                hosts.to_rebuild.push((name, peer_id));
            }
        }
    }
    Ok(said.join("; "))
}

async fn rebuild(hosts: &mut Hosts, name: &str, peer_id: u64, tries: usize) -> Result<Result<u64, String>> {
    if hosts.named(name)?.machine.ailment().is_ill() {
        return Ok(Err("its disk is ill".into()));
    }
    // The others have to be there to agree to it.
    if let Some(why) = hosts.peers.iter().filter(|peer| peer.name() != name).find_map(|peer| peer.living().err()) {
        return Ok(Err(why));
    }
    let mut latest = "nobody was asked".to_owned();
    for _ in 0..tries {
        let door = match hosts.doors.iter().find(|door| hosts.leader().is_some_and(|leader| leader.name() == door.name))
        {
            Some(door) if door.name != name => door.clone(),
            _ => match hosts.doors.iter().find(|door| door.name != name) {
                Some(door) => door.clone(),
                None => return Ok(Err("it is the only one".into())),
            },
        };
        match replace(hosts, name, peer_id, &door).await? {
            Ok(new_id) => return Ok(Ok(new_id)),
            Err(why) => latest = why,
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    Ok(Err(latest))
}

async fn replace(
    hosts: &mut Hosts,
    name: &str,
    peer_id: u64,
    door: &crate::hosts::door::Door,
) -> Result<Result<u64, String>> {
    let host = hosts.named(name)?;
    let status = match care::status(door, false).await {
        Ok(status) => status,
        Err(status) => return Ok(Err(status.message().to_owned())),
    };
    let known = status.peers.iter().find(|peer| peer.address == host.grpc());
    if let Some(known) = known.filter(|known| known.peer_id != peer_id) {
        // An earlier try has done it, and its answer was lost.
        return Ok(if known.voter { Ok(known.peer_id) } else { Err("it doesn't vote yet".into()) });
    }
    if known.is_some()
        && let Err(status) = care::remove_peer(door, peer_id).await
        && status.code() != tonic::Code::NotFound
    {
        return Ok(Err(status.message().to_owned()));
    }
    host.hold()?;
    if let Some(process) = host.process() {
        host.kill(process).await?;
    }
    wipe(host)?;
    // A cluster that the next release has taken to another level takes in nobody who doesn't know it.
    let next = hosts.next_release.as_ref().map(|next| next.coordinator.clone());
    if let Some(next) = next.filter(|next| hosts.peers.iter().any(|peer| peer.program() == next)) {
        hosts.named_mut(name)?.replace_program(&next)?;
    }
    let host = hosts.named(name)?;
    host.release()?;
    await_listening(host).await?;
    Ok(care::add_peer(door, host.grpc()).await.map_err(|status| status.message().to_owned()))
}

/// Empties the data folder, as if there were another disk: a well one.
fn wipe(host: &Host) -> Result<()> {
    host.machine.ailment().set(None);
    std::fs::remove_dir_all(host.data())?;
    std::fs::create_dir(host.data())?;
    let folder = std::fs::File::open(host.data())?;
    Ok(folder.sync_all()?)
}
