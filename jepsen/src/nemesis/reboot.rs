//! A machine reboots itself at once, by reboot(2) and without a sync, as a script does that knows nothing of Rollcall.

use std::time::Duration;

use anyhow::Result;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use crate::hosts::Hosts;
use crate::nemesis::{Active, Begun, Bite, Wound};

/// BOUND: until the kernel has ended it.
const ENDS_WITHIN: Duration = Duration::from_secs(10);

/// A machine that is away.
#[derive(Debug)]
pub struct Rebooting {
    host: String,
    before: String,
    lost: usize,
}

/// One machine reboots; a node where there are any.
pub async fn begin(hosts: &mut Hosts, random: &mut StdRng) -> Result<Begun> {
    let from = if hosts.nodes.is_empty() { &hosts.peers } else { &hosts.nodes };
    let Some(host) = from.choose(random) else { return Ok(Begun::Skipped("there is no host".into())) };
    let (name, number, boot) = (host.name().to_owned(), host.machine.number(), host.machine.boot_count());
    if !host.machine.is_running() {
        return Ok(Begun::Skipped(format!("{name} has no power")));
    }
    let before = host.machine.boot_id();
    let launcher = std::env::current_exe()?.display().to_string();
    // It is killed in the middle of it.
    let _ = host.inside(&[&launcher, "reboot"]);
    let rebooted = tokio::time::timeout(ENDS_WITHIN, async {
        while let Some(end) = hosts.ends.recv().await {
            if (end.number, end.boot) == (number, boot) {
                return end.rebooted;
            }
        }
        false
    })
    .await;
    if !matches!(rebooted, Ok(true)) {
        return Ok(Begun::Indeterminate(format!("{name} didn't reboot within {ENDS_WITHIN:?}")));
    }
    let loss = hosts.named_mut(&name)?.machine.clean_up().await?;
    if !hosts.named(&name)?.is_peer() {
        hosts.witness.killed(&name, "all")?;
    }
    let active = Active::Reboot(Rebooting { host: name.clone(), before, lost: loss.bytes });
    Ok(Begun::Installed(Wound { what: format!("{name} reboots itself"), targets: vec![name], active }))
}

impl Rebooting {
    /// It is back.
    pub async fn end(self, hosts: &mut Hosts) -> Result<Bite> {
        let host = hosts.named_mut(&self.host)?;
        if !host.machine.is_running() {
            host.machine.switch_on().await?;
        }
        let (before, now) = (self.before, host.machine.boot_id());
        let bit = before != now;
        let (before, now) = (before.get(..8).unwrap_or_default(), now.get(..8).unwrap_or_default());
        Ok(Bite { bit, evidence: format!("boot {before} → {now}, lost {} bytes", self.lost) })
    }
}
