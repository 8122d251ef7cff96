//! A disk falls ill: it is full, or nothing can be written and synced any more. What a failed sync leaves is taken
//! for kept by the kernel and isn't; so with half of the bad disks the power goes at the end.

use std::time::Duration;

use anyhow::Result;
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use crate::hosts::Hosts;
use crate::hosts::host::Host;
use crate::nemesis::{Active, Begun, Bite, Wound};
use crate::power::ailment::Illness;

/// How long a machine without power stays so.
const AWAY: Duration = Duration::from_millis(500);

/// A disk that is ill.
#[derive(Debug)]
pub struct Ill {
    host: String,
    refused_before: u64,
    ends_before: usize,
    then_cut: bool,
}

/// One disk falls ill.
pub fn begin(hosts: &mut Hosts, random: &mut StdRng) -> Result<Begun> {
    let illness = if random.random_bool(0.5) { Illness::FullDisk } else { Illness::BadDisk };
    let then_cut = illness == Illness::BadDisk && random.random_bool(0.5);
    let all: Vec<&Host> = hosts.all().collect();
    let Some(host) = all.choose(random) else { return Ok(Begun::Skipped("there is no host".into())) };
    let name = host.name().to_owned();
    if !host.machine.is_running() {
        return Ok(Begun::Skipped(format!("{name} has no power")));
    }
    let refused_before = host.machine.ailment().refused_count();
    let ends_before = host.end_count();
    host.machine.ailment().set(Some(illness));
    let what = match illness {
        Illness::FullDisk => format!("the disk of {name} is full (ENOSPC)"),
        Illness::BadDisk if then_cut => {
            format!("the disk of {name} fails to write and sync (EIO), then its power goes")
        }
        Illness::BadDisk => format!("the disk of {name} fails to write and sync (EIO)"),
    };
    let active = Active::Disk(Ill { host: name.clone(), refused_before, ends_before, then_cut });
    Ok(Begun::Installed(Wound { what, targets: vec![name], active }))
}

impl Ill {
    /// It is well again.
    pub async fn end(self, hosts: &mut Hosts) -> Result<Bite> {
        let mut lost = String::new();
        if self.then_cut && hosts.named(&self.host)?.machine.is_running() {
            let loss = hosts.cut_power(&self.host).await?;
            tokio::time::sleep(AWAY).await;
            hosts.named(&self.host)?.machine.ailment().set(None);
            hosts.named_mut(&self.host)?.machine.switch_on().await?;
            lost = format!("; the power took {} bytes, {} names", loss.bytes, loss.names);
        }
        let host = hosts.named(&self.host)?;
        host.machine.ailment().set(None);
        let refused = host.machine.ailment().refused_count() - self.refused_before;
        let ends = host.end_count().saturating_sub(self.ends_before);
        let evidence = format!("calls refused: {refused}; its program ended {ends} times{lost}");
        Ok(Bite { bit: refused > 0, evidence })
    }
}
