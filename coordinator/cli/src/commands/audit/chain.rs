//! The audit chain as this command recomputes it: from the bytes that a peer hands out, and nothing it says of them.
//!
//! A record's hash is BLAKE3 over the 32 bytes of the hash before it and the record's canonical bytes.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use rollcall_ident::Digest;
use rollcall_proto::v1;

use crate::view::ProblemView;

/// A hash of the chain.
pub type Hash = [u8; 32];

/// A revision with its hash, as somebody noted them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Noted {
    pub revision: u64,
    pub hash: Hash,
}

impl fmt::Display for Noted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.revision, Digest(self.hash))
    }
}

impl FromStr for Noted {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once(':').and_then(|(revision, hash)| {
            Some(Self { revision: revision.parse().ok()?, hash: hash.parse::<Digest>().ok()?.0 })
        });
        parsed.ok_or_else(|| {
            format!("{text:?} is not a noted hash: expected REVISION:HASH, as `audit --verify` prints it")
        })
    }
}

/// As the wire carries it; `None` where that is no hash.
pub fn noted(head: Option<&v1::AuditHead>) -> Option<Noted> {
    let head = head?;
    Some(Noted { revision: head.revision, hash: head.hash.as_slice().try_into().ok()? })
}

/// The chain over the records taken so far, up to the first that doesn't fit.
#[derive(Debug, Default)]
pub struct Chain {
    /// Where it begins: before the first record.
    pub anchor: Option<Noted>,
    /// What was recomputed, by revision.
    pub hashes: BTreeMap<u64, Hash>,
}

impl Chain {
    /// Where it stands.
    pub fn head(&self) -> Option<Noted> {
        let last = self.hashes.last_key_value().map(|(revision, hash)| Noted { revision: *revision, hash: *hash });
        last.or(self.anchor)
    }

    /// The hash at a revision, where the chain leads through it.
    pub fn hash_at(&self, revision: u64) -> Option<Hash> {
        let anchor = self.anchor.filter(|anchor| anchor.revision == revision).map(|anchor| anchor.hash);
        self.hashes.get(&revision).copied().or(anchor)
    }

    /// Goes on by a record.
    pub fn take(&mut self, record: &v1::AuditRecord) -> Result<(), ProblemView> {
        let revision = record.revision;
        let problem = |detail: &str| ProblemView { revision, detail: detail.to_owned() };
        let Some(previous) = noted(record.previous.as_ref()) else {
            return Err(problem("it comes without the hash before it"));
        };
        let head = *self.anchor.get_or_insert(previous);
        let head = self.head().unwrap_or(head);
        if previous != head || revision <= head.revision {
            return Err(problem("a record before it is missing or was replaced"));
        }
        let hash = blake3::Hasher::new().update(&previous.hash).update(&record.record).finalize();
        if record.hash != hash.as_bytes() {
            return Err(problem("it isn't the record that was chained"));
        }
        self.hashes.insert(revision, *hash.as_bytes());
        Ok(())
    }

    /// Whether it ends where the replicated state says.
    pub fn end_at(&mut self, end: Noted) -> Result<(), ProblemView> {
        let head = *self.anchor.get_or_insert(end);
        let head = self.head().unwrap_or(head);
        let problem = |revision, detail: &str| Err(ProblemView { revision, detail: detail.to_owned() });
        match head.revision.cmp(&end.revision) {
            std::cmp::Ordering::Less => problem(end.revision, "records up to it are missing"),
            _ if head == end => Ok(()),
            _ => problem(head.revision, "the records lead to another hash than the one in the replicated state"),
        }
    }

    /// The first revision at which two chains say different things.
    pub fn first_difference(&self, other: &Self) -> Option<u64> {
        self.hashes
            .iter()
            .find(|(revision, hash)| other.hash_at(**revision).is_some_and(|others| others != **hash))
            .map(|(revision, _)| *revision)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records of a chain that begins behind revision 4.
    fn records(texts: &[&str]) -> Vec<v1::AuditRecord> {
        let mut previous = v1::AuditHead { revision: 4, hash: vec![7; 32] };
        let mut found = Vec::new();
        for (text, revision) in texts.iter().zip(5..) {
            let record = text.as_bytes().to_vec();
            let hash = blake3::Hasher::new().update(&previous.hash).update(&record).finalize().as_bytes().to_vec();
            let next = v1::AuditHead { revision, hash: hash.clone() };
            found.push(v1::AuditRecord { revision, record, hash, previous: Some(previous), ..Default::default() });
            previous = next;
        }
        found
    }

    fn chain(records: &[v1::AuditRecord]) -> Result<Chain, ProblemView> {
        let mut chain = Chain::default();
        records.iter().try_for_each(|record| chain.take(record)).map(|()| chain)
    }

    #[test]
    fn whatever_was_done_to_a_copy_is_found_at_its_revision() {
        let whole = records(&["a", "b", "c", "d"]);
        let sound = chain(&whole).unwrap();
        let end = sound.head().unwrap();
        assert_eq!((sound.anchor.unwrap().revision, end.revision), (4, 8));
        chain(&whole).unwrap().end_at(end).unwrap();

        let mut changed = whole.clone();
        changed[1].record = b"x".to_vec();
        assert_eq!(chain(&changed).unwrap_err().revision, 6);
        let mut removed = whole.clone();
        removed.remove(1);
        assert_eq!(chain(&removed).unwrap_err().revision, 7);
        let mut swapped = whole.clone();
        swapped.swap(1, 2);
        assert_eq!(chain(&swapped).unwrap_err().revision, 7);
        assert_eq!(chain(&whole[..3]).unwrap().end_at(end).unwrap_err().revision, 8);
        // Hashed anew to the end: only the state, or another copy, tells.
        let forged = records(&["a", "x", "c", "d"]);
        assert_eq!(chain(&forged).unwrap().end_at(end).unwrap_err().revision, 8);
        assert_eq!(chain(&forged).unwrap().first_difference(&sound), Some(6));
        assert_eq!(sound.first_difference(&chain(&whole[2..]).unwrap()), None);
    }

    #[test]
    fn a_noted_hash_prints_as_it_parses() {
        let noted = Noted { revision: 42, hash: [0xab; 32] };
        assert_eq!(noted.to_string().parse::<Noted>().unwrap(), noted);
        for bad in ["42", "42:ab", "x:y"] {
            assert!(bad.parse::<Noted>().unwrap_err().contains("REVISION:HASH"), "{bad}");
        }
    }
}
