//! Rules in a machine's own packet filter: one chain per fault, so that faults don't undo each other, and its counters
//! tell what the fault has done. What goes round inside of the machine is let through.

use anyhow::Result;

use crate::hosts::Hosts;

/// What becomes of a packet that a rule matches: it vanishes.
pub const DROP: &[&str] = &["DROP"];

/// Which packets a chain sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sees {
    /// Those that come in.
    Incoming,
    /// Those that come in, and those that go out.
    Both,
}

impl Sees {
    /// The kernel's chains that ours hangs in, each with the interface that it is about.
    fn hooks(self) -> &'static [[&'static str; 3]] {
        match self {
            Self::Incoming => &[["INPUT", "-i", "eth0"]],
            Self::Both => &[["INPUT", "-i", "eth0"], ["OUTPUT", "-o", "eth0"]],
        }
    }
}

/// A chain that was put into a machine.
#[derive(Debug)]
pub struct Chain {
    host: String,
    boot: String,
    name: String,
    sees: Sees,
}

impl Chain {
    /// Puts rules into `host`; what one of them matches jumps to `target`.
    pub fn put(
        number: usize,
        hosts: &Hosts,
        host: &str,
        sees: Sees,
        rules: &[Vec<String>],
        target: &[&str],
    ) -> Result<Self> {
        let found = hosts.named(host)?;
        let name = format!("rollcall-{number}");
        let chain = Self { host: host.to_owned(), boot: found.machine.boot_id(), name, sees };
        let filter = |arguments: &[&str]| found.in_network(&[&["iptables", "-w"], arguments].concat());
        filter(&["-N", &chain.name])?;
        for rule in rules {
            let rule: Vec<&str> = rule.iter().map(String::as_str).collect();
            filter(&[&["-A", &chain.name], &rule[..], &["-j"], target].concat())?;
        }
        for [hook, flag, interface] in sees.hooks() {
            filter(&["-I", hook, flag, interface, "-j", &chain.name])?;
        }
        Ok(chain)
    }

    /// Takes them out again; how many packets they have matched. None, where the machine has lost its power since.
    pub fn take_out(&self, hosts: &Hosts) -> u64 {
        let Ok(host) = hosts.named(&self.host) else { return 0 };
        if host.machine.boot_id() != self.boot {
            return 0;
        }
        let filter = |arguments: &[&str]| host.in_network(&[&["iptables", "-w"], arguments].concat());
        let listed = filter(&["-L", &self.name, "-v", "-x", "-n"]).unwrap_or_default();
        // A machine that goes just now takes its rules with it.
        for [hook, flag, interface] in self.sees.hooks() {
            let _ = filter(&["-D", hook, flag, interface, "-j", &self.name]);
        }
        let _ = filter(&["-F", &self.name]);
        let _ = filter(&["-X", &self.name]);
        matched(&listed)
    }

    /// In which machine it is.
    pub fn host(&self) -> &str {
        &self.host
    }
}

/// The first column of each rule, below two lines of heading.
fn matched(listed: &str) -> u64 {
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
        assert_eq!(matched(listed), 15);
        assert_eq!(matched(""), 0);
    }
}
