//! What was promised: a write that was acknowledged is in the history of every peer, for ever, and nothing else stands where
//! it stands.

use std::collections::BTreeMap;

use rollcall_rollout::ChainedRecord;

use super::Violation;

/// What operators were told, and what the histories hold.
#[derive(Default)]
pub struct Pledges {
    /// Acknowledged writes, by revision: who asked. Each has a name of its own.
    acknowledged: BTreeMap<u64, String>,
    /// The records of all peers, by revision: who caused it, its place in the chain, and who showed it first.
    records: BTreeMap<u64, (String, String, String)>,
}

impl Pledges {
    /// A peer's history holds this record.
    pub fn recorded(&mut self, peer: &str, record: &ChainedRecord) -> Option<Violation> {
        let revision = record.record.revision.0;
        let shown = (record.record.actor.0.clone(), record.hash.to_string(), peer.to_owned());
        let known = self.records.entry(revision).or_insert_with(|| shown.clone());
        (known.1 != shown.1).then(|| {
            Violation::new("L6", format_args!("the record of revision {revision} on {peer} isn't that of {}", known.2))
        })
    }

    /// A write was acknowledged at this revision.
    pub fn acknowledged(&mut self, revision: u64, actor: String) {
        self.acknowledged.insert(revision, actor);
    }

    /// The highest revision at which a write was acknowledged: no read that begins now may be older.
    #[must_use]
    pub fn floor(&self) -> u64 {
        self.acknowledged.keys().next_back().copied().unwrap_or_default()
    }

    /// How many writes were acknowledged.
    #[must_use]
    pub fn count(&self) -> usize {
        self.acknowledged.len()
    }

    /// The acknowledged writes that no history holds, once all peers are well and have applied everything.
    pub fn broken(&self) -> Vec<Violation> {
        let is_kept =
            |revision: &u64, actor: &String| self.records.get(revision).is_some_and(|found| found.0 == *actor);
        let lost = self.acknowledged.iter().filter(|(revision, actor)| !is_kept(revision, actor));
        lost.map(|(revision, actor)| {
            let found = self.records.get(revision).map_or("nothing", |found| &found.0);
            Violation::new(
                "L1",
                format_args!("the write of {actor} was acknowledged at {revision}; there stands {found}"),
            )
        })
        .collect()
    }
}
