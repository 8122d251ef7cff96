//! Free ports on loopback.
//!
//! They are drawn from below the kernel's range for outgoing connections (32768 and up): a port that was free a moment
//! ago can't be taken by somebody's outgoing connection before our process listens on it.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::sync::Mutex;

use anyhow::{Result, bail};
use rand::Rng;

/// The lowest and the highest port that is drawn.
const RANGE: std::ops::Range<u16> = 12_000..32_000;

/// BOUND: tries before giving up; with half of the range taken, a thousand misses in a row do not happen.
const TRIES: usize = 1_000;

static HANDED_OUT: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// A port that nobody listens on and that was not handed out before in this process.
pub fn free_port() -> Result<u16> {
    free_ports(&[0])
}

/// A port for Redis: its cluster bus listens 10,000 above, which is free too.
pub fn free_redis_port() -> Result<u16> {
    free_ports(&[0, 10_000])
}

/// A port so that it and each of its `offsets` is free.
fn free_ports(offsets: &[u16]) -> Result<u16> {
    let highest_offset = offsets.iter().copied().max().unwrap_or(0);
    let mut handed_out = HANDED_OUT.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    for _ in 0..TRIES {
        let port = rand::rng().random_range(RANGE.start..RANGE.end - highest_offset);
        let wanted: Vec<u16> = offsets.iter().map(|offset| port + offset).collect();
        if wanted.iter().any(|port| handed_out.contains(port)) {
            continue;
        }
        if wanted.iter().all(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()) {
            handed_out.extend(wanted);
            return Ok(port);
        }
    }
    bail!("no free port found between {} and {}", RANGE.start, RANGE.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_port_is_handed_out_twice() {
        let ports: Vec<u16> = (0..50).map(|_| free_port().unwrap()).collect();
        let distinct: BTreeSet<u16> = ports.iter().copied().collect();
        assert_eq!(distinct.len(), ports.len());
    }

    #[test]
    fn a_redis_port_leaves_room_for_its_bus() {
        assert!(free_redis_port().unwrap() < RANGE.end - 10_000);
    }
}
