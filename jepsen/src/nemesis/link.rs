//! Bad links: a narrow one, whose packets wait and are then dropped; one that loses some of what comes in; one on which
//! it comes late and out of order; and one that is cut while the peer behind it is killed, so that nobody hears of the end
//! of its connections: they are half-open.

use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use nix::unistd::Pid;
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use crate::hosts::Hosts;
use crate::hosts::host::Host;
use crate::nemesis::wire::{Chain, DROP, Sees};
use crate::nemesis::{Active, Begun, Bite, Wound};

/// How late packets are, in milliseconds: from a long line to one on which heartbeats miss their time.
const LATE_MS: [(u64, u64); 3] = [(5, 60), (20, 200), (50, 600)];

/// A link that is bad.
#[derive(Debug)]
pub enum Bad {
    /// Packets vanish.
    Lossy(Chain),
    /// So little gets through.
    Narrow {
        /// Whose.
        host: String,
        /// In which boot.
        boot: String,
    },
    /// Packets come late, and overtake each other.
    Late(Chain, Delayer),
    /// Nothing gets in or out, and the program at its end was killed.
    HalfOpen(Chain, Pid),
}

/// The program that lets packets go. Dropping it ends it.
#[derive(Debug)]
pub struct Delayer(Child);

impl Drop for Delayer {
    fn drop(&mut self) {
        // It may have ended with its machine.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Makes the link of one machine bad.
pub async fn begin(number: usize, hosts: &mut Hosts, random: &mut StdRng) -> Result<Begun> {
    let kind = random.random_range(0..4);
    // Nodes say little: a narrow link is wide enough for them. And whose agent is killed is the other nemesis's matter.
    let all: Vec<&Host> = if matches!(kind, 0 | 2) { hosts.all().collect() } else { hosts.peers.iter().collect() };
    let Some(host) = all.choose(random) else { return Ok(Begun::Skipped("there is no host".into())) };
    let name = host.name().to_owned();
    if !host.machine.is_running() {
        return Ok(Begun::Skipped(format!("{name} has no power")));
    }
    match kind {
        0 => lossy(number, hosts, name, random.random_range(10..40)),
        1 => Ok(narrow(host, name, random.random_range(12..128))),
        2 => late(number, hosts, name, *LATE_MS.choose(random).unwrap_or(&LATE_MS[0])),
        _ => half_open(number, hosts, name).await,
    }
}

fn lossy(number: usize, hosts: &Hosts, name: String, percent: u32) -> Result<Begun> {
    let rule = ["-m", "statistic", "--mode", "random", "--probability"];
    let mut rule: Vec<String> = rule.into_iter().map(str::to_owned).collect();
    rule.push(format!("0.{percent:02}"));
    let chain = Chain::put(number, hosts, &name, Sees::Incoming, &[rule], DROP)?;
    Ok(installed(format!("{percent} of 100 packets to {name} vanish"), name, Bad::Lossy(chain)))
}

fn narrow(host: &Host, name: String, rate: u32) -> Begun {
    let limit = format!("{rate}kbit");
    let command =
        ["tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", &limit, "burst", "4kb", "latency", "300ms"];
    if let Err(error) = host.in_network(&command) {
        // One is enough.
        return Begun::Skipped(format!("{error:#}"));
    }
    let bad = Bad::Narrow { host: name.clone(), boot: host.machine.boot_id() };
    installed(format!("{name} sends {rate} kbit/s at most"), name, bad)
}

fn late(number: usize, hosts: &Hosts, name: String, (least, most): (u64, u64)) -> Result<Begun> {
    let host = hosts.named(&name)?;
    let Some(first) = host.machine.first() else { return Ok(Begun::Skipped(format!("{name} has no power"))) };
    let queue = u16::try_from(number % usize::from(u16::MAX))?.to_string();
    let child = Command::new("nsenter")
        .args(["--target", &first.to_string(), "--net", "--"])
        .arg(std::env::current_exe()?)
        .args(["delay", "--queue", &queue, "--least", &least.to_string(), "--most", &most.to_string()])
        .stdin(Stdio::null())
        .spawn()
        .context("can't start nsenter (Debian's package util-linux brings it)")?;
    let delayer = Delayer(child);
    // Until the delayer is there, and where it isn't any more, they go on as if nothing were.
    let target = ["NFQUEUE", "--queue-num", &queue, "--queue-bypass"];
    let chain = Chain::put(number, hosts, &name, Sees::Incoming, &[Vec::new()], &target)?;
    let what = format!("packets to {name} come {least} to {most} ms late, and overtake each other");
    Ok(installed(what, name, Bad::Late(chain, delayer)))
}

async fn half_open(number: usize, hosts: &Hosts, name: String) -> Result<Begun> {
    let host = hosts.named(&name)?;
    let process = match host.living() {
        Ok(process) => process,
        Err(why) => return Ok(Begun::Skipped(why)),
    };
    let chain = Chain::put(number, hosts, &name, Sees::Both, &[Vec::new()], DROP)?;
    host.kill(process).await?;
    Ok(installed(format!("the link of {name} is cut, and SIGKILL of its peer"), name, Bad::HalfOpen(chain, process)))
}

fn installed(what: String, name: String, bad: Bad) -> Begun {
    Begun::Installed(Wound { what, targets: vec![name], active: Active::Link(bad) })
}

impl Bad {
    /// It is as good as before.
    pub fn end(self, hosts: &mut Hosts) -> Result<Bite> {
        Ok(match self {
            Self::Lossy(chain) => {
                let count = chain.take_out(hosts);
                Bite { bit: count > 0, evidence: format!("packets dropped: {count}") }
            }
            Self::Late(chain, mut delayer) => {
                let ended = delayer.0.try_wait()?;
                let count = chain.take_out(hosts);
                let evidence = match ended {
                    Some(how) => format!("the delayer ended before: {how}"),
                    None => format!("packets that came late: {count}"),
                };
                Bite { bit: count > 0 && ended.is_none(), evidence }
            }
            Self::HalfOpen(chain, process) => {
                let count = chain.take_out(hosts);
                let evidence = format!("process {process} is gone, packets dropped: {count}");
                Bite { bit: count > 0, evidence }
            }
            Self::Narrow { host, boot } => {
                let found = hosts.named(&host)?;
                if found.machine.boot_id() != boot {
                    return Ok(Bite::unseen(format!("{host} lost its power meanwhile")));
                }
                let told = found.in_network(&["tc", "-s", "qdisc", "show", "dev", "eth0"]).unwrap_or_default();
                // A machine that goes just now takes it along.
                let _ = found.in_network(&["tc", "qdisc", "del", "dev", "eth0", "root"]);
                let over = number_after(&told, "overlimits ").unwrap_or(0);
                let dropped = number_after(&told, "dropped ").unwrap_or(0);
                let evidence = format!("packets that waited: {over}, dropped: {dropped}");
                Bite { bit: over + dropped > 0, evidence }
            }
        })
    }
}

fn number_after(text: &str, word: &str) -> Option<u64> {
    let (_, rest) = text.split_once(word)?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_tc_are_read() {
        let told =
            "qdisc tbf 8001: root refcnt 2 rate 128Kbit\n Sent 63 bytes 7 pkt (dropped 3, overlimits 41 requeues 0)";
        assert_eq!((number_after(told, "dropped "), number_after(told, "overlimits ")), (Some(3), Some(41)));
    }
}
