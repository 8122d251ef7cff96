//! One bridge, and a cable from it to each machine.
//!
//! All of it lives in the network namespace of the run and vanishes with it.

use std::net::Ipv4Addr;
use std::process::Command;

use anyhow::{Context, Result, bail};
use nix::unistd::Pid;

/// The bridge's name.
const BRIDGE: &str = "rollcall0";

/// The run's own address on the bridge: here the witness listens.
pub const HARNESS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);

/// The address of the n-th machine.
pub const fn address_of(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, 1, number)
}

/// Makes the bridge. Needs a network namespace of the run's own.
pub fn set_up() -> Result<()> {
    ip(&["link", "set", "lo", "up"])?;
    ip(&["link", "add", BRIDGE, "type", "bridge", "stp_state", "0", "forward_delay", "0"])?;
    ip(&["addr", "add", &format!("{HARNESS}/16"), "dev", BRIDGE])?;
    ip(&["link", "set", BRIDGE, "up"])
}

/// The cable of one machine in one of its lives. Its end at the machine dies with the machine.
#[derive(Debug)]
pub struct Cable {
    name: String,
}

impl Cable {
    /// From the bridge into the network namespace of a process. A machine keeps its hardware address over its lives, so
    /// that nobody has to learn a new one.
    pub fn plug(number: u8, boot: u32, into: Pid) -> Result<Self> {
        let cable = Self { name: format!("m{number}b{boot}") };
        let (into, hardware) = (into.to_string(), format!("02:00:00:00:00:{number:02x}"));
        let machine_end = ["peer", "name", "eth0", "address", &hardware, "netns", &into];
        ip(&[&["link", "add", &cable.name, "type", "veth"], &machine_end[..]].concat())?;
        ip(&["link", "set", &cable.name, "master", BRIDGE, "up"])?;
        Ok(cable)
    }

    /// From here on nothing gets in or out: not even the news that connections were closed.
    pub fn unplug(&self) -> Result<()> {
        ip(&["link", "set", &self.name, "down"])
    }
}

/// What a machine does with its end.
pub fn bring_up_machine_end(address: &str) -> Result<()> {
    ip(&["link", "set", "lo", "up"])?;
    ip(&["addr", "add", address, "dev", "eth0"])?;
    ip(&["link", "set", "eth0", "up"])
}

fn ip(arguments: &[&str]) -> Result<()> {
    let output = Command::new("ip")
        .args(arguments)
        .output()
        .context("can't start ip: apt-get install iproute2 (scripts/test does it)")?;
    if !output.status.success() {
        bail!("ip {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
