//! Which primary serves which slots, learned from the cluster as clients learn it.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Result, bail};
use redis::Value;

use crate::redis::link::Link;
use crate::redis::slots::SLOT_COUNT;

/// Shared by all clients: what one learns, all know.
#[derive(Debug, Clone)]
pub struct Topology {
    /// Every member's port, to ask any of them.
    members: Vec<u16>,
    /// The primary's port by slot; 0: unknown.
    primaries: Arc<Mutex<Vec<u16>>>,
}

impl Topology {
    /// Knows the members, but not yet who serves what.
    pub fn new(members: Vec<u16>) -> Self {
        Self { members, primaries: Arc::new(Mutex::new(vec![0; usize::from(SLOT_COUNT)])) }
    }

    /// The port of the primary that serves a slot, as far as known.
    pub fn primary_of(&self, slot: u16) -> Option<u16> {
        let primaries = self.primaries.lock().unwrap_or_else(PoisonError::into_inner);
        primaries.get(usize::from(slot)).copied().filter(|port| *port != 0)
    }

    /// A redirection said so.
    pub fn moved(&self, slot: u16, port: u16) {
        let mut primaries = self.primaries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(primary) = primaries.get_mut(usize::from(slot)) {
            *primary = port;
        }
    }

    /// Asks the members in turn, until one that belongs to the cluster answers.
    pub async fn refresh(&self) -> Result<()> {
        for member in &self.members {
            let Ok(mut link) = Link::connect(*member).await else { continue };
            let Ok(answer) = link.ask::<Value>(&["CLUSTER", "SLOTS"]).await else { continue };
            let ranges = ranges_of(&answer);
            if ranges.is_empty() {
                continue;
            }
            let mut primaries = self.primaries.lock().unwrap_or_else(PoisonError::into_inner);
            for (first, last, port) in ranges {
                if let Some(served) = primaries.get_mut(usize::from(first)..=usize::from(last)) {
                    served.fill(port);
                }
            }
            return Ok(());
        }
        bail!("no member of the Redis Cluster tells who serves its slots")
    }
}

/// First and last slot and the primary's port, of an answer to `CLUSTER SLOTS`.
fn ranges_of(answer: &Value) -> Vec<(u16, u16, u16)> {
    let Value::Array(ranges) = answer else { return Vec::new() };
    ranges
        .iter()
        .filter_map(|range| {
            let Value::Array(fields) = range else { return None };
            let [first, last, Value::Array(primary), ..] = fields.as_slice() else { return None };
            Some((number(first)?, number(last)?, number(primary.get(1)?)?))
        })
        .filter(|(first, last, _)| first <= last && *last < SLOT_COUNT)
        .collect()
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

    #[test]
    fn slots_are_read_from_the_answer() {
        let host = Value::BulkString(b"127.0.0.1".to_vec());
        let range = Value::Array(vec![
            Value::Int(0),
            Value::Int(5_460),
            Value::Array(vec![host.clone(), Value::Int(7_001), host.clone()]),
            Value::Array(vec![host.clone(), Value::Int(7_004), host]),
        ]);
        assert_eq!(ranges_of(&Value::Array(vec![range])), [(0, 5_460, 7_001)]);
        assert_eq!(ranges_of(&Value::Nil), []);
    }

    #[test]
    fn a_redirection_is_learned_for_its_slot_only() {
        let topology = Topology::new(vec![]);
        topology.moved(3, 7_001);
        assert_eq!((topology.primary_of(3), topology.primary_of(4)), (Some(7_001), None));
    }
}
