//! Rules in a machine's own packet filter: one chain per fault, so that faults don't undo each other, and its counters
//! tell what the fault has done.

use anyhow::Result;

use crate::hosts::Hosts;

/// A chain that was put into a machine.
#[derive(Debug)]
pub struct Chain {
    host: String,
    boot: String,
    name: String,
}

impl Chain {
    /// Puts rules into `host`; each drops what it matches.
    pub fn put(number: usize, hosts: &Hosts, host: &str, rules: &[Vec<String>]) -> Result<Self> {
        let found = hosts.named(host)?;
        let chain = Self { host: host.to_owned(), boot: found.machine.boot_id(), name: format!("rollcall-{number}") };
        let filter = |arguments: &[&str]| found.in_network(&[&["iptables", "-w"], arguments].concat());
        filter(&["-N", &chain.name])?;
        for rule in rules {
            let rule: Vec<&str> = rule.iter().map(String::as_str).collect();
            filter(&[&["-A", &chain.name], &rule[..], &["-j", "DROP"]].concat())?;
        }
        filter(&["-I", "INPUT", "-j", &chain.name])?;
        Ok(chain)
    }

    /// Takes them out again; how many packets they have dropped. Nothing, where the machine has lost its power since.
    pub fn take_out(&self, hosts: &Hosts) -> u64 {
        let Ok(host) = hosts.named(&self.host) else { return 0 };
        if host.machine.boot_id() != self.boot {
            return 0;
        }
        let filter = |arguments: &[&str]| host.in_network(&[&["iptables", "-w"], arguments].concat());
        let listed = filter(&["-L", &self.name, "-v", "-x", "-n"]).unwrap_or_default();
        // A machine that goes just now takes its rules with it.
        let _ = filter(&["-D", "INPUT", "-j", &self.name]);
        let _ = filter(&["-F", &self.name]);
        let _ = filter(&["-X", &self.name]);
        dropped(&listed)
    }

    /// In which machine it is.
    pub fn host(&self) -> &str {
        &self.host
    }
}

/// The first column of each rule, below two lines of heading.
fn dropped(listed: &str) -> u64 {
    listed.lines().skip(2).filter_map(|line| line.split_whitespace().next()?.parse::<u64>().ok()).sum()
}

/// Matches what comes from an address.
pub fn from(address: std::net::Ipv4Addr) -> Vec<String> {
    vec!["-s".to_owned(), address.to_string()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_added_up() {
        let listed = "Chain rollcall-1 (1 references)\n    pkts      bytes target     prot opt in     out     source\n\
                      \x20     12     1024 DROP       all  --  *      *       10.77.1.2            0.0.0.0/0\n\
                      \x20      3      180 DROP       all  --  *      *       10.77.1.3            0.0.0.0/0\n";
        assert_eq!(dropped(listed), 15);
        assert_eq!(dropped(""), 0);
    }
}
