//! The hosts of a run: peers, and nodes with agents, each a machine of namespaces with a disk that forgets, on one bridge.

pub mod care;
pub mod door;
pub mod evidence;
pub mod host;
pub mod layout;
pub mod sight;
pub mod tool;

use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::binaries::Binaries;
use crate::power::machine::End;
use crate::witness::Witness;
use door::Door;
use host::Host;
use sight::Lookout;

/// BOUND: how long healed peers may take until all of them serve: longer than an election, a restart and a catch-up on a
/// busy machine.
pub const RECOVERED_WITHIN: Duration = Duration::from_secs(60);

/// All hosts. Dropping it takes the power from each.
#[derive(Debug)]
pub struct Hosts {
    /// In the order of their names.
    pub peers: Vec<Host>,
    /// In the order of their names.
    pub nodes: Vec<Host>,
    /// The way to each peer.
    pub doors: Vec<Door>,
    /// What the peers say of themselves.
    pub lookout: Lookout,
    /// What hooks tell, and what was killed.
    pub witness: Witness,
    /// Machines that stopped.
    pub ends: UnboundedReceiver<End>,
    /// What programs may be upgraded to, where it is built.
    pub next_release: Option<Binaries>,
    /// Peers that have to be taken out, wiped and taken in again, and under which id they were known.
    pub to_rebuild: Vec<(String, u64)>,
}

impl Hosts {
    /// Peers, then nodes.
    pub fn all(&self) -> impl Iterator<Item = &Host> {
        self.peers.iter().chain(&self.nodes)
    }

    /// The host of that name.
    pub fn named(&self, name: &str) -> Result<&Host> {
        self.all().find(|host| host.name() == name).with_context(|| format!("no host named {name}"))
    }

    /// The same, to switch it on and off.
    pub fn named_mut(&mut self, name: &str) -> Result<&mut Host> {
        let mut all = self.peers.iter_mut().chain(&mut self.nodes);
        all.find(|host| host.name() == name).with_context(|| format!("no host named {name}"))
    }

    /// The peer that leads, as far as anybody can tell.
    pub fn leader(&self) -> Option<&Host> {
        let address = self.lookout.leader_address()?;
        self.peers.iter().find(|peer| peer.grpc() == address)
    }

    /// The way to a peer that leads, or else to any.
    pub fn door(&self) -> Result<&Door> {
        let leader = self.leader().map(Host::name);
        self.doors.iter().find(|door| Some(door.name.as_str()) == leader).or(self.doors.first()).context("no peers")
    }

    /// The id under which the others know a peer.
    pub fn peer_id_of(&self, name: &str) -> Option<u64> {
        let grpc = self.named(name).ok()?.grpc().to_owned();
        let latest = self.lookout.latest();
        let newest = latest.values().max_by_key(|status| status.revision)?;
        newest.peers.iter().find(|peer| peer.address == grpc).map(|peer| peer.peer_id)
    }

    /// Why one of the peers can't be counted on; none: all can. The program of one that is damaged is started again and
    /// again: at some moments it lives, at none it serves.
    pub fn unwell(&self) -> Option<String> {
        let latest = self.lookout.latest();
        let serves = |peer: &Host| latest.get(peer.name()).is_some_and(|status| status.condition == "serving");
        self.peers.iter().find_map(|peer| match peer.living() {
            Ok(_) if serves(peer) => None,
            Ok(_) => Some(format!("{} doesn't serve", peer.name())),
            Err(why) => Some(why),
        })
    }

    /// Cuts the power of one; what that cost it. Nothing of it is left when this returns.
    pub async fn cut_power(&mut self, name: &str) -> Result<crate::power::disk::Loss> {
        let host = self.named_mut(name)?;
        let loss = host.machine.cut_power().await?;
        if !host.is_peer() {
            self.witness.killed(name, "all")?;
        }
        Ok(loss)
    }

    /// Waits until a leader hears of all voters, and everybody has applied what it has; how long that took.
    pub async fn await_recovery(&self) -> Result<Duration> {
        let begun = tokio::time::Instant::now();
        // What there was once all were back: a peer with a new disk has all of it to fetch.
        let mut goal = None;
        // By then everybody was looked at once more.
        tokio::time::sleep(2 * sight::LOOKS_FOR).await;
        loop {
            let latest = self.lookout.latest();
            let whole = latest.len() == self.peers.len()
                && latest.values().all(|status| status.condition == "serving")
                && latest.values().any(|status| {
                    status.leader_peer_id == status.answering_peer_id
                        && status.peers.len() == self.peers.len()
                        && status.peers.iter().all(|peer| peer.voter && peer.reachable)
                });
            if whole {
                let goal = *goal.get_or_insert(latest.values().map(|status| status.revision).max().unwrap_or_default());
                if latest.values().all(|status| status.revision >= goal) {
                    return Ok(begun.elapsed());
                }
            }
            if begun.elapsed() > RECOVERED_WITHIN {
                let stands: Vec<String> = latest
                    .iter()
                    .map(|(name, status)| {
                        let voters = status.peers.iter().filter(|peer| peer.voter).count();
                        format!("{name} {} with {voters} voters at revision {}", status.condition, status.revision)
                    })
                    .collect();
                bail!("after {RECOVERED_WITHIN:?} the peers aren't whole: {}", stands.join(", "));
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}
