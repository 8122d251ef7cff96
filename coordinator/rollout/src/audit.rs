//! The audit chain: each record of the history is hashed together with the hash before it, so that nobody can change,
//! remove or slip in a record without changing every hash behind it. Where the chain stands is part of the replicated
//! state, and so the same on every peer.
//!
//! The hash is plain BLAKE3 over the 32 bytes before it and the record's [`canonical_bytes`]: whoever is handed those
//! bytes can check the chain without this crate.
//!
//! # Invariants
//! - INVARIANT I-18: the head in the state is the fold of every record with events from the first one on. Entries without
//!   events (a clock that advances, a refusal, a retry, a new leader's blank) changed nothing, stand in no history, and are
//!   no links. A record that was removed shows all the same: the next one names the hash that is missing.
//!
//! # Deliberately absent
//! Keys. Whoever can rewrite the snapshots, the logs and the histories of all peers can make another chain; a head that
//! was written down elsewhere before (`rollcall audit` prints it) tells the two apart.

use bincode::{Decode, Encode, Kind};
use rollcall_ident::{Digest, Revision};

use crate::{HistoryRecord, State};

/// Where the chain stands after a record. The default stands before the first one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct ChainHead {
    /// The revision of the record; 0 where there is none yet.
    pub revision: Revision,
    /// The hash over everything up to it.
    pub hash: Digest,
}

impl Default for ChainHead {
    fn default() -> Self {
        Self { revision: Revision(0), hash: Digest([0; 32]) }
    }
}

impl ChainHead {
    /// Where the chain stands after `record`.
    #[must_use]
    pub fn extended_by(self, record: &HistoryRecord) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.hash.0).update(&canonical_bytes(record));
        Self { revision: record.revision, hash: Digest(*hasher.finalize().as_bytes()) }
    }
}

/// The bytes of a record that are hashed: its envelope, which says the version of its format.
#[must_use]
pub fn canonical_bytes(record: &HistoryRecord) -> Vec<u8> {
    bincode::seal(Kind::HISTORY, record)
}

/// A record with its place in the chain, as histories keep it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct ChainedRecord {
    /// Where the chain stood before it.
    pub previous: ChainHead,
    /// The record.
    pub record: HistoryRecord,
    /// The hash over everything up to it.
    pub hash: Digest,
}

impl ChainedRecord {
    /// `record` behind `previous`.
    #[must_use]
    pub fn new(previous: ChainHead, record: HistoryRecord) -> Self {
        let hash = previous.extended_by(&record).hash;
        Self { previous, record, hash }
    }

    /// Where the chain stands after it, as it was written down.
    #[must_use]
    pub fn head(&self) -> ChainHead {
        ChainHead { revision: self.record.revision, hash: self.hash }
    }

    /// Whether the hash is that of the record: neither of them was changed.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.previous.extended_by(&self.record) == self.head()
    }
}

impl State {
    /// Where the audit chain stands.
    #[must_use]
    pub fn audit_head(&self) -> ChainHead {
        self.audit
    }

    /// Adds what an entry did to the chain.
    pub(crate) fn chain(&mut self, record: &HistoryRecord) {
        if !record.events.is_empty() {
            self.audit = self.audit.extended_by(record);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Actor, Event, Stamp};

    use super::*;

    fn record(revision: u64, reason: &str) -> HistoryRecord {
        HistoryRecord {
            revision: Revision(revision),
            stamp: Stamp::default(),
            actor: Actor("ann".into()),
            reason: Some(reason.into()),
            events: vec![Event::ChannelCreated { channel: "stable".parse().unwrap() }],
        }
    }

    /// The hash of format version 1, for ever: chains that were begun must go on.
    #[test]
    fn golden_hash_of_version_1() {
        let head = ChainHead::default().extended_by(&record(299, "why"));
        assert_eq!(head.revision, Revision(299));
        assert_eq!(head.hash.to_string(), "13edc123d61056df74b88bb25a37c0f58b809ab7849c9f6ce3ed1bfacc461095");
    }

    #[test]
    fn whatever_is_changed_changes_the_hash() {
        let first = ChainedRecord::new(ChainHead::default(), record(1, "a"));
        let second = ChainedRecord::new(first.head(), record(2, "b"));
        assert!(first.is_sound() && second.is_sound());
        let changed = ChainedRecord { record: record(2, "c"), ..second.clone() };
        let moved = ChainedRecord { record: record(3, "b"), ..second.clone() };
        let without_the_first = ChainedRecord { previous: ChainHead::default(), ..second };
        for broken in [changed, moved, without_the_first] {
            assert!(!broken.is_sound(), "{broken:?}");
        }
    }
}
