//! R4: a node's turn begins only after the turn before it has ended well.
//!
//! A turn lasts from the first disturbing hook to the end of the last `undrain` of that rollout and node. The sampler
//! judges health; this judges the hooks themselves, so that a turn that disturbs nobody's health is seen too.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::check::Verdict;
use crate::history::{EventKind, History};

const PROMISE: &str = "one turn after the other";

/// Judges the turns of all nodes to `target`.
pub fn check(history: &History, target: &str) -> Verdict {
    // By the order of their begins: (begin, node, end).
    let mut turns: Vec<(Duration, String, Option<Duration>)> = Vec::new();
    let mut place: BTreeMap<(String, String), usize> = BTreeMap::new();
    for record in history.records.iter().filter(|record| record.to == target && !record.rollout.is_empty()) {
        let key = (record.rollout.clone(), record.node.clone());
        match (record.event, record.hook.as_str()) {
            (EventKind::Begin, "drain" | "pre-stop" | "post-stop" | "install") => {
                place.entry(key).or_insert_with(|| {
                    turns.push((record.at, record.node.clone(), None));
                    turns.len() - 1
                });
            }
            (EventKind::End, "undrain") if record.exit == Some(0) => {
                if let Some(index) = place.get(&key) {
                    turns[*index].2 = Some(record.at);
                }
            }
            _ => {}
        }
    }
    if turns.is_empty() {
        return Verdict::unknown(PROMISE, "nobody's turn came");
    }
    let violations: Vec<String> = turns
        .windows(2)
        .filter(|pair| pair[0].2.is_none_or(|end| end > pair[1].0))
        .map(|pair| format!("{} began before {} had ended", pair[1].1, pair[0].1))
        .collect();
    Verdict::from_violations(PROMISE, format!("{} turns, none overlaps another", turns.len()), &violations)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome;
    use crate::history::Record;

    fn record(ms: u64, event: EventKind, node: &str, hook: &str) -> Record {
        let mut record = Record::new(Duration::from_millis(ms), event, node, hook);
        (record.to, record.rollout, record.exit) = ("r2".into(), "x".into(), Some(0));
        record
    }

    #[test]
    fn a_turn_that_begins_in_another_is_seen() {
        use EventKind::{Begin, End};
        let mut records = vec![
            record(1, Begin, "a", "drain"),
            record(2, End, "a", "undrain"),
            record(3, Begin, "b", "drain"),
            record(4, End, "b", "undrain"),
        ];
        assert_eq!(check(&History { records: records.clone() }, "r2").outcome, Outcome::Held);
        records.swap(1, 2);
        (records[1].at, records[2].at) = (Duration::from_millis(2), Duration::from_millis(3));
        let verdict = check(&History { records }, "r2");
        assert_eq!((verdict.outcome, verdict.evidence.as_str()), (Outcome::Violated, "b began before a had ended"));
    }
}
