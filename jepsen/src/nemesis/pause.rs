//! SIGSTOP: a program that does nothing for a while, and goes on as if nothing had been. Its connections stay open.

use anyhow::Result;
use nix::unistd::Pid;
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use crate::hosts::Hosts;
use crate::hosts::host::{Host, is_frozen};
use crate::nemesis::{Active, Begun, Bite, Wound};

/// Programs that stand still.
#[derive(Debug)]
pub struct Paused {
    stopped: Vec<(String, Pid)>,
}

/// Stops one program; often the leader's.
pub async fn begin(hosts: &mut Hosts, random: &mut StdRng) -> Result<Begun> {
    let leader = hosts.leader().map(|host| host.name().to_owned()).filter(|_| random.random_bool(0.5));
    let all: Vec<&Host> = hosts.all().collect();
    let chosen = all.choose(random).map(|host| host.name().to_owned());
    let Some(name) = leader.or(chosen) else { return Ok(Begun::Skipped("there is no host".into())) };
    let host = hosts.named(&name)?;
    let process = match host.living() {
        Ok(process) if is_frozen(process) => return Ok(Begun::Skipped(format!("{name} stands still already"))),
        Ok(process) => process,
        Err(why) => return Ok(Begun::Skipped(why)),
    };
    if let Err(error) = host.freeze(process).await {
        return Ok(Begun::Indeterminate(format!("{error:#}")));
    }
    if !host.is_peer() {
        // From here on it may not write down what its hooks did.
        hosts.witness.killed(&name, "paused")?;
    }
    let active = Active::Pause(Paused { stopped: vec![(name.clone(), process)] });
    Ok(Begun::Installed(Wound { what: format!("SIGSTOP of {name}"), targets: vec![name], active }))
}

impl Paused {
    /// They go on.
    pub fn end(self, hosts: &mut Hosts) -> Result<Bite> {
        let mut stood = Vec::new();
        for (name, process) in &self.stopped {
            if hosts.named(name)?.thaw(*process) {
                stood.push(format!("{name}: process {process} was in state T to the end"));
            }
        }
        if stood.len() < self.stopped.len() {
            return Ok(Bite::unseen("it was killed or let go on meanwhile"));
        }
        Ok(Bite::seen(stood.join(", ")))
    }
}
