//! What was written, and what was acknowledged when.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What the client knows of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// The primary has it and at least one replica confirmed it.
    Acknowledged,
    /// It may be there or not.
    Unknown,
}

/// One write to a key that nobody else writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// Its key.
    pub key: String,
    /// What was written.
    pub value: String,
    /// What the client knows of it.
    pub fate: Fate,
    /// Which third of the slots the key lies in.
    pub shard: usize,
    /// When the client had its answer, or gave up.
    pub ended_at: Duration,
}

/// All writes of a run, shared by the writers.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    entries: Arc<Mutex<Entries>>,
}

#[derive(Debug, Default)]
struct Entries {
    writes: Vec<Write>,
    acknowledged_count: usize,
    missed: Vec<String>,
    reads: u64,
}

impl Ledger {
    /// A write is over.
    pub fn wrote(&self, write: Write) {
        self.with(|entries| {
            entries.acknowledged_count += usize::from(write.fate == Fate::Acknowledged);
            entries.writes.push(write);
        });
    }

    /// An acknowledged write was read back meanwhile; `missed` says what was wrong with what was found.
    pub fn read(&self, missed: Option<String>) {
        self.with(|entries| {
            entries.reads += 1;
            entries.missed.extend(missed);
        });
    }

    /// How many were acknowledged so far.
    pub fn acknowledged_count(&self) -> usize {
        self.with(|entries| entries.acknowledged_count)
    }

    /// How many were read back meanwhile.
    pub fn read_count(&self) -> u64 {
        self.with(|entries| entries.reads)
    }

    /// All writes so far, in the order of their ends.
    pub fn writes(&self) -> Vec<Write> {
        self.with(|entries| entries.writes.clone())
    }

    /// What reads missed meanwhile.
    pub fn missed(&self) -> Vec<String> {
        self.with(|entries| entries.missed.clone())
    }

    fn with<T>(&self, action: impl FnOnce(&mut Entries) -> T) -> T {
        action(&mut self.entries.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The longest time between two acknowledged writes, from `from` to `to`; of one shard, or of all together.
pub fn longest_gap(writes: &[Write], from: Duration, to: Duration, shard: Option<usize>) -> Duration {
    let mut acknowledged: Vec<Duration> = writes
        .iter()
        .filter(|write| write.fate == Fate::Acknowledged && shard.is_none_or(|shard| write.shard == shard))
        .map(|write| write.ended_at)
        .filter(|at| (from..=to).contains(at))
        .collect();
    acknowledged.sort_unstable();
    let edges = std::iter::once(from).chain(acknowledged).chain(std::iter::once(to));
    let (mut longest, mut before) = (Duration::ZERO, from);
    for at in edges {
        longest = longest.max(at.saturating_sub(before));
        before = at;
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gap_reaches_from_edge_to_edge_and_skips_what_was_not_acknowledged() {
        let at = Duration::from_millis;
        let write = |ms, fate, shard| Write { key: String::new(), value: String::new(), fate, shard, ended_at: at(ms) };
        let writes = [
            write(100, Fate::Acknowledged, 0),
            write(200, Fate::Unknown, 0),
            write(250, Fate::Acknowledged, 1),
            write(400, Fate::Acknowledged, 0),
        ];
        assert_eq!(longest_gap(&writes, at(0), at(500), None), at(150));
        assert_eq!(longest_gap(&writes, at(0), at(500), Some(0)), at(300));
        assert_eq!(longest_gap(&writes, at(0), at(900), Some(0)), at(500));
        assert_eq!(longest_gap(&[], at(0), at(900), None), at(900));
    }
}
