//! Power cuts: what wasn't synced is gone, or got to the disk in part, so that writes are torn; and nobody hears of the
//! end. One machine, all peers at once, or the quorum that
//! must remember: one peer is stopped, the others acknowledge writes, one of these loses its power and comes back, and the
//! one that has seen nothing goes on.

use std::time::Duration;

use anyhow::Result;
use nix::unistd::Pid;
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};

use crate::hosts::Hosts;
use crate::hosts::host::is_frozen;
use crate::nemesis::{Active, Begun, Bite, Wound};
use crate::power::disk::Loss;

/// How long the others write while one is stopped.
const WRITE_FOR: Duration = Duration::from_millis(1_500);

/// Machines without power, and programs that stand still until they have it back.
#[derive(Debug)]
pub struct Cut {
    machines: Vec<Dark>,
    stopped: Vec<(String, Pid)>,
}

/// A machine without power.
#[derive(Debug)]
struct Dark {
    name: String,
    boot: String,
    /// What had got to the disk without a sync just before.
    torn: usize,
    lost: Loss,
}

/// Cuts the power in one of three ways.
pub async fn begin(hosts: &mut Hosts, random: &mut StdRng) -> Result<Begun> {
    match random.random_range(0..4) {
        0 => all_peers(hosts, random).await,
        1 => amnesia_quorum(hosts, random).await,
        _ => one(hosts, random).await,
    }
}

async fn one(hosts: &mut Hosts, random: &mut StdRng) -> Result<Begun> {
    let names: Vec<String> = hosts.all().map(|host| host.name().to_owned()).collect();
    let Some(name) = names.choose(random).cloned() else { return Ok(Begun::Skipped("there is no host".into())) };
    if !hosts.named(&name)?.machine.is_running() {
        return Ok(Begun::Skipped(format!("{name} has no power already")));
    }
    let cut = cut(hosts, std::slice::from_ref(&name), random).await?;
    Ok(installed(format!("power cut of {name}"), cut))
}

async fn all_peers(hosts: &mut Hosts, random: &mut StdRng) -> Result<Begun> {
    let running = hosts.peers.iter().filter(|peer| peer.machine.is_running());
    let names: Vec<String> = running.map(|peer| peer.name().to_owned()).collect();
    if names.is_empty() {
        return Ok(Begun::Skipped("no peer has power".into()));
    }
    let cut = cut(hosts, &names, random).await?;
    Ok(installed("power cut of all peers at once".into(), cut))
}

async fn amnesia_quorum(hosts: &mut Hosts, random: &mut StdRng) -> Result<Begun> {
    let mut names = Vec::new();
    for peer in &hosts.peers {
        match peer.living() {
            Ok(process) if !is_frozen(process) => names.push(peer.name().to_owned()),
            Ok(_) => return Ok(Begun::Skipped(format!("{} stands still: there would be no quorum", peer.name()))),
            Err(why) => return Ok(Begun::Skipped(format!("{why}: there would be no quorum"))),
        }
    }
    names.shuffle(random);
    let minority = names.len().saturating_sub(1) / 2;
    let (stopped_names, others) = names.split_at(minority);
    let Some(victim) = others.first().cloned() else { return Ok(Begun::Skipped("there is no peer".into())) };
    let mut stopped = Vec::new();
    for name in stopped_names {
        let host = hosts.named(name)?;
        let Some(process) = host.process() else { continue };
        if host.freeze(process).await.is_ok() {
            stopped.push((name.clone(), process));
        }
    }
    tokio::time::sleep(WRITE_FOR).await;
    let mut cut = cut(hosts, std::slice::from_ref(&victim), random).await?;
    cut.stopped = stopped;
    let what = format!("{} stopped, the others write, power cut of {victim}, {0} goes on", stopped_names.join(", "));
    Ok(installed(what, cut))
}

async fn cut(hosts: &mut Hosts, names: &[String], random: &mut StdRng) -> Result<Cut> {
    let mut machines = Vec::new();
    for name in names {
        let machine = &hosts.named(name)?.machine;
        let boot = machine.boot_id();
        // Nothing is written back by itself, some, or nearly everything.
        let written = *[0.0, 0.0, 0.3, 0.9].choose(random).unwrap_or(&0.0);
        let torn = machine.write_back(|| random.random_bool(written));
        let lost = hosts.cut_power(name).await?;
        machines.push(Dark { name: name.clone(), boot, torn, lost });
    }
    Ok(Cut { machines, stopped: Vec::new() })
}

fn installed(what: String, cut: Cut) -> Begun {
    let stopped = cut.stopped.iter().map(|(name, _)| name.clone());
    let targets = cut.machines.iter().map(|dark| dark.name.clone()).chain(stopped).collect();
    Begun::Installed(Wound { what, targets, active: Active::Power(cut) })
}

impl Cut {
    /// They have power again.
    pub async fn end(self, hosts: &mut Hosts) -> Result<Bite> {
        let mut seen = Vec::new();
        for Dark { name, boot: before, torn, lost } in &self.machines {
            let host = hosts.named_mut(name)?;
            if !host.machine.is_running() {
                host.machine.switch_on().await?;
            }
            let now = host.machine.boot_id();
            if now == *before {
                return Ok(Bite::unseen(format!("{name} is still in its old boot")));
            }
            let (before, now) = (before.get(..8).unwrap_or_default(), now.get(..8).unwrap_or_default());
            let (of, bytes, names) = (if *torn > 0 { " of" } else { "" }, lost.bytes, lost.names);
            seen.push(format!("{name} lost{of} {bytes} bytes and {names} names, boot {before} → {now}"));
        }
        for (name, process) in &self.stopped {
            let stood = hosts.named(name)?.thaw(*process);
            seen.push(format!("{name} {}", if stood { "stood still to the end" } else { "went on before" }));
        }
        Ok(Bite::seen(seen.join("; ")))
    }
}
