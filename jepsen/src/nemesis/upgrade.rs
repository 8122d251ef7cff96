//! One program after the other is replaced by the next release, while everything else goes on: peers by one that knows
//! a feature level more, agents by another file of theirs. Nobody goes back: once each peer knows the level, it is raised.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use crate::hosts::Hosts;
use crate::nemesis::{Active, Begun, Bite, Wound};

/// BOUND: until the new program runs.
const STARTS_WITHIN: Duration = Duration::from_secs(10);

/// A program that was replaced.
#[derive(Debug)]
pub struct Upgraded {
    host: String,
    to: PathBuf,
}

/// Replaces one program that isn't of the next release yet.
pub async fn begin(hosts: &mut Hosts, random: &mut StdRng) -> Result<Begun> {
    let Some(next) = hosts.next_release.clone() else {
        return Ok(Begun::Skipped("the next release isn't built: scripts/next-level (scripts/jepsen does it)".into()));
    };
    let of = |is_peer: bool| if is_peer { next.coordinator.clone() } else { next.node.clone() };
    let old: Vec<String> =
        hosts.all().filter(|host| host.program() != of(host.is_peer())).map(|host| host.name().to_owned()).collect();
    let Some(name) = old.choose(random).cloned() else {
        return Ok(Begun::Skipped("everybody runs the next release".into()));
    };
    let host = hosts.named_mut(&name)?;
    let process = match host.living() {
        Ok(process) => process,
        Err(why) => return Ok(Begun::Skipped(why)),
    };
    let to = of(host.is_peer());
    host.hold()?;
    host.end(process).await?;
    host.replace_program(&to)?;
    host.release()?;
    if !hosts.named(&name)?.is_peer() {
        hosts.witness.killed(&name, "agent")?;
    }
    let active = Active::Upgrade(Upgraded { host: name.clone(), to });
    Ok(Begun::Installed(Wound { what: format!("{name} is upgraded"), targets: vec![name], active }))
}

impl Upgraded {
    /// There is nothing to undo. What shows it is the file that the process runs.
    pub async fn end(self, hosts: &mut Hosts) -> Result<Bite> {
        let host = hosts.named(&self.host)?;
        let deadline = tokio::time::Instant::now() + STARTS_WITHIN;
        // Somebody else may have it killed or without power just now.
        while host.process().is_none() && tokio::time::Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let exe = host.process().and_then(|process| std::fs::read_link(format!("/proc/{process}/exe")).ok());
        let Some(exe) = exe else { return Ok(Bite::unseen("it doesn't run")) };
        let folder = exe.parent().and_then(|folder| folder.file_name()).unwrap_or_default().display().to_string();
        Ok(Bite { bit: exe == self.to, evidence: format!("its process runs the file in {folder}") })
    }
}
