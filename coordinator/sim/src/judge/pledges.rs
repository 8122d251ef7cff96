//! What was promised: a write that was acknowledged is in the history of every peer, for ever, and nothing else stands where
//! it stands.

use std::collections::{BTreeMap, BTreeSet};

use rollcall_rollout::ChainedRecord;

use super::Violation;

/// What operators were told, and what the histories hold.
#[derive(Default)]
pub struct Pledges {
    /// Who has asked for anything.
    asked: BTreeSet<String>,
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
        if shown.0.starts_with("op-") && !self.asked.contains(&shown.0) {
            let what = format_args!("revision {revision} on {peer} is of {}, who never asked", shown.0);
            return Some(Violation::new("L3", what));
        }
        let known = self.records.entry(revision).or_insert_with(|| shown.clone());
        (known.1 != shown.1).then(|| {
            Violation::new("L6", format_args!("the record of revision {revision} on {peer} isn't that of {}", known.2))
        })
    }

    /// Somebody asks for a write, with a name of its own.
    pub fn asked(&mut self, actor: &str) {
        self.asked.insert(actor.to_owned());
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
                "L2",
                format_args!("the write of {actor} was acknowledged at {revision}; there stands {found}"),
            )
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use rollcall_ident::{ClusterTime, Revision, WallTime};
    use rollcall_rollout::{Actor, ChainHead, HistoryRecord, Stamp};

    use super::*;

    fn record(revision: u64, actor: &str) -> ChainedRecord {
        let stamp = Stamp { cluster_time: ClusterTime(0), wall_time: WallTime(0) };
        let (actor, events) = (Actor(actor.to_owned()), Vec::new());
        let record = HistoryRecord { revision: Revision(revision), stamp, actor, reason: None, events };
        ChainedRecord::new(ChainHead::default(), record)
    }

    fn rules(found: impl IntoIterator<Item = Violation>) -> Vec<String> {
        found.into_iter().map(|violation| violation.rule).collect()
    }

    #[test]
    fn what_was_acknowledged_stands_where_it_was() {
        let mut pledges = Pledges::default();
        pledges.asked("op-1");
        pledges.acknowledged(7, "op-1".to_owned());
        assert_eq!(pledges.floor(), 7);
        assert_eq!(rules(pledges.broken()), ["L2"]);
        assert_eq!(pledges.recorded("p1", &record(7, "op-1")), None);
        assert_eq!(pledges.broken(), []);
    }

    #[test]
    fn nothing_stands_there_that_nobody_asked_for_and_nothing_else_on_another_peer() {
        let mut pledges = Pledges::default();
        assert_eq!(rules(pledges.recorded("p1", &record(7, "op-9"))), ["L3"]);
        assert_eq!(pledges.recorded("p1", &record(8, "rollcall")), None);
        assert_eq!(pledges.recorded("p2", &record(8, "rollcall")), None);
        pledges.asked("op-1");
        assert_eq!(rules(pledges.recorded("p2", &record(8, "op-1"))), ["L6"]);
    }
}
