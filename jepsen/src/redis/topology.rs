//! Which primary serves which slots, learned from the cluster as clients learn it.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Result, bail};
use redis::Value;

use crate::redis::link::Link;
use crate::redis::slots::SLOT_COUNT;

/// Shared by all clients: what one learns, all know.
#[derive(Debug, Clone)]
pub struct Topology {
    /// Every member, to ask any of them.
    members: Vec<SocketAddr>,
    /// The primary by slot, where it is known.
    primaries: Arc<Mutex<Vec<Option<SocketAddr>>>>,
}

impl Topology {
    /// Knows the members, but not yet who serves what.
    pub fn new(members: Vec<SocketAddr>) -> Self {
        Self { members, primaries: Arc::new(Mutex::new(vec![None; usize::from(SLOT_COUNT)])) }
    }

    /// The primary that serves a slot, as far as known.
    pub fn primary_of(&self, slot: u16) -> Option<SocketAddr> {
        let primaries = self.primaries.lock().unwrap_or_else(PoisonError::into_inner);
        primaries.get(usize::from(slot)).copied().flatten()
    }

    /// A redirection said so.
    pub fn moved(&self, slot: u16, to: SocketAddr) {
        let mut primaries = self.primaries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(primary) = primaries.get_mut(usize::from(slot)) {
            *primary = Some(to);
        }
    }

    /// Asks the members in turn, until one that belongs to the cluster answers.
    pub async fn refresh(&self) -> Result<()> {
        for member in &self.members {
            let Ok(mut link) = Link::connect(*member).await else { continue };
            let Ok(answer) = link.ask::<Value>(&["CLUSTER", "SLOTS"]).await else { continue };
            let ranges = ranges_of(&answer, member.ip());
            if ranges.is_empty() {
                continue;
            }
            let mut primaries = self.primaries.lock().unwrap_or_else(PoisonError::into_inner);
            for (first, last, primary) in ranges {
                if let Some(served) = primaries.get_mut(usize::from(first)..=usize::from(last)) {
                    served.fill(Some(primary));
                }
            }
            return Ok(());
        }
        bail!("no member of the Redis Cluster tells who serves its slots")
    }
}

/// First and last slot and their primary, of an answer to `CLUSTER SLOTS`. A member that doesn't know its own address yet
/// leaves it out: it is the one that was `asked`.
fn ranges_of(answer: &Value, asked: IpAddr) -> Vec<(u16, u16, SocketAddr)> {
    let Value::Array(ranges) = answer else { return Vec::new() };
    ranges
        .iter()
        .filter_map(|range| {
            let Value::Array(fields) = range else { return None };
            let [first, last, Value::Array(primary), ..] = fields.as_slice() else { return None };
            let host = primary.first().and_then(address).unwrap_or(asked);
            Some((number(first)?, number(last)?, SocketAddr::new(host, number(primary.get(1)?)?)))
        })
        .filter(|(first, last, _)| first <= last && *last < SLOT_COUNT)
        .collect()
}

fn address(value: &Value) -> Option<IpAddr> {
    match value {
        Value::BulkString(text) => std::str::from_utf8(text).ok()?.parse().ok(),
        _ => None,
    }
}

fn number(value: &Value) -> Option<u16> {
    match value {
        Value::Int(number) => u16::try_from(*number).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(host: [u8; 4], port: u16) -> SocketAddr {
        SocketAddr::from((host, port))
    }

    #[test]
    fn slots_are_read_from_the_answer() {
        let host = Value::BulkString(b"127.0.0.1".to_vec());
        let range = Value::Array(vec![
            Value::Int(0),
            Value::Int(5_460),
            Value::Array(vec![host.clone(), Value::Int(7_001), host.clone()]),
            Value::Array(vec![host.clone(), Value::Int(7_004), host]),
        ]);
        let nameless = Value::Array(vec![Value::BulkString(b"".to_vec()), Value::Int(7_002)]);
        let second = Value::Array(vec![Value::Int(5_461), Value::Int(9_000), nameless]);
        let asked = IpAddr::from([10, 0, 0, 2]);
        let expected = [(0, 5_460, at([127, 0, 0, 1], 7_001)), (5_461, 9_000, at([10, 0, 0, 2], 7_002))];
        assert_eq!(ranges_of(&Value::Array(vec![range, second]), asked), expected);
        assert_eq!(ranges_of(&Value::Nil, asked), []);
    }

    #[test]
    fn a_redirection_is_learned_for_its_slot_only() {
        let topology = Topology::new(vec![]);
        let primary = at([127, 0, 0, 1], 7_001);
        topology.moved(3, primary);
        assert_eq!((topology.primary_of(3), topology.primary_of(4)), (Some(primary), None));
    }
}
