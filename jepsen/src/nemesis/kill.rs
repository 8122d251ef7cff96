//! SIGKILL of a peer or an agent. What the kernel holds of its files stays; it is started again at once, or after a while.

use anyhow::Result;
use nix::unistd::Pid;
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use crate::hosts::Hosts;
use crate::hosts::host::Host;
use crate::nemesis::{Active, Begun, Bite, Wound};

/// A program that was killed.
#[derive(Debug)]
pub struct Killed {
    host: String,
    process: Pid,
}

/// Kills one program; the leader's as often as anybody else's.
pub async fn begin(hosts: &mut Hosts, random: &mut StdRng) -> Result<Begun> {
    let leader = hosts.leader().map(|host| host.name().to_owned()).filter(|_| random.random_bool(0.4));
    let all: Vec<&Host> = hosts.all().collect();
    let chosen = all.choose(random).map(|host| host.name().to_owned());
    let stays_down = random.random_bool(0.5);
    let Some(name) = leader.or(chosen) else { return Ok(Begun::Skipped("there is no host".into())) };
    let host = hosts.named(&name)?;
    let process = match host.living() {
        Ok(process) => process,
        Err(why) => return Ok(Begun::Skipped(why)),
    };
    if stays_down {
        host.hold()?;
    }
    host.kill(process).await?;
    if !host.is_peer() {
        hosts.witness.killed(&name, "agent")?;
    }
    let what = format!("SIGKILL of {name}{}", if stays_down { ", which stays down" } else { "" });
    let active = Active::Kill(Killed { host: name.clone(), process });
    Ok(Begun::Installed(Wound { what, targets: vec![name], active }))
}

impl Killed {
    /// It may run again.
    pub fn end(self, hosts: &mut Hosts) -> Result<Bite> {
        let host = hosts.named(&self.host)?;
        host.release()?;
        let now = host.process().map_or("none yet".to_owned(), |process| process.to_string());
        Ok(Bite::seen(format!("process {} is gone, now {now}", self.process)))
    }
}
