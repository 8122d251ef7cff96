//! Bad links: a narrow one, whose packets wait and are then dropped, or one that loses some of what comes in.

use anyhow::Result;
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use crate::hosts::Hosts;
use crate::hosts::host::Host;
use crate::nemesis::wire::Chain;
use crate::nemesis::{Active, Begun, Bite, Wound};

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
}

/// Makes the link of one machine bad.
pub fn begin(number: usize, hosts: &mut Hosts, random: &mut StdRng) -> Result<Begun> {
    // Nodes say little: a narrow link is wide enough for them.
    let is_lossy = random.random_bool(0.5);
    let all: Vec<&Host> = if is_lossy { hosts.all().collect() } else { hosts.peers.iter().collect() };
    let Some(host) = all.choose(random) else { return Ok(Begun::Skipped("there is no host".into())) };
    let name = host.name().to_owned();
    let (percent, rate) = (random.random_range(10..40), random.random_range(12..128));
    if !host.machine.is_running() {
        return Ok(Begun::Skipped(format!("{name} has no power")));
    }
    if is_lossy {
        let rule = ["-i", "eth0", "-m", "statistic", "--mode", "random", "--probability"];
        let mut rule: Vec<String> = rule.into_iter().map(str::to_owned).collect();
        rule.push(format!("0.{percent:02}"));
        let chain = Chain::put(number, hosts, &name, &[rule])?;
        let what = format!("{percent} of 100 packets to {name} vanish");
        return Ok(Begun::Installed(Wound { what, targets: vec![name], active: Active::Link(Bad::Lossy(chain)) }));
    }
    let limit = format!("{rate}kbit");
    let command =
        ["tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", &limit, "burst", "4kb", "latency", "300ms"];
    if let Err(error) = host.in_network(&command) {
        // One is enough.
        return Ok(Begun::Skipped(format!("{error:#}")));
    }
    let what = format!("{name} sends {rate} kbit/s at most");
    let active = Active::Link(Bad::Narrow { host: name.clone(), boot: host.machine.boot_id() });
    Ok(Begun::Installed(Wound { what, targets: vec![name], active }))
}

impl Bad {
    /// It is as good as before.
    pub fn end(self, hosts: &mut Hosts) -> Bite {
        match self {
            Self::Lossy(chain) => {
                let count = chain.take_out(hosts);
                Bite { bit: count > 0, evidence: format!("packets dropped: {count}") }
            }
            Self::Narrow { host, boot } => {
                let Ok(found) = hosts.named(&host) else { return Bite::unseen("no such host") };
                if found.machine.boot_id() != boot {
                    return Bite::unseen(format!("{host} lost its power meanwhile"));
                }
                let told = found.in_network(&["tc", "-s", "qdisc", "show", "dev", "eth0"]).unwrap_or_default();
                // A machine that goes just now takes it along.
                let _ = found.in_network(&["tc", "qdisc", "del", "dev", "eth0", "root"]);
                let over = number_after(&told, "overlimits ").unwrap_or(0);
                let dropped = number_after(&told, "dropped ").unwrap_or(0);
                let evidence = format!("packets that waited: {over}, dropped: {dropped}");
                Bite { bit: over + dropped > 0, evidence }
            }
        }
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
