//! R1 and R4 where one node may be down at a time: what one grant lets a node do is over before another grant lets
//! anybody do anything.
//!
//! A grant's time is from its first disturbing hook to its last one, as the recorder outside heard them: the token was
//! held all that time, whatever happened on the node. So two that overlap are a certain violation, and no kill or power
//! cut makes a false one.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::check::Verdict;
use crate::history::{EventKind, Record};

const PROMISE: &str = "R1, R4 one grant's deeds are over before another's begin";

/// Hooks that disturb the service, or belong to its way back.
const DEEDS: [&str; 5] = ["drain", "pre-stop", "post-stop", "install", "undrain"];

/// Judges all that hooks have told. Grants in `revoked` were taken away: their nodes hear of it late.
pub fn check(records: &[Record], revoked: &[u64]) -> Verdict {
    let mut spans: BTreeMap<(String, u64), (Duration, Duration, String)> = BTreeMap::new();
    for record in records {
        let is_deed = record.fence > 0 && record.event != EventKind::Killed && DEEDS.contains(&record.hook.as_str());
        if !is_deed || revoked.contains(&record.fence) {
            continue;
        }
        let key = (record.group.clone(), record.fence);
        let span = spans.entry(key).or_insert_with(|| (record.at, record.at, record.node.clone()));
        span.1 = record.at;
    }
    if spans.is_empty() {
        return Verdict::unknown(PROMISE, "no hook of a step was heard of");
    }
    let count = spans.len();
    let mut in_order: Vec<((String, u64), (Duration, Duration, String))> = spans.into_iter().collect();
    in_order.sort_by_key(|(_, (from, ..))| *from);
    let violations: Vec<String> = in_order
        .windows(2)
        .filter(|pair| pair[0].0.0 == pair[1].0.0 && pair[1].1.0 < pair[0].1.1)
        .map(|pair| {
            let (((_, first), (_, until, on)), ((_, second), (from, _, other))) = (&pair[0], &pair[1]);
            format!("grant {second} on {other} from {from:.1?}, while grant {first} on {on} went on until {until:.1?}")
        })
        .collect();
    Verdict::from_violations(PROMISE, format!("{count} grants"), &violations)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome;

    fn record(ms: u64, event: EventKind, node: &str, fence: u64) -> Record {
        let mut record = Record::new(Duration::from_millis(ms), event, node, "drain");
        record.fence = fence;
        record
    }

    #[test]
    fn two_grants_at_once_are_seen() {
        use EventKind::{Begin, End};
        let apart =
            [record(1, Begin, "a", 5), record(3, End, "a", 5), record(4, Begin, "b", 9), record(5, End, "b", 9)];
        assert_eq!(check(&apart, &[]).outcome, Outcome::Held);
        let across = [record(1, Begin, "a", 5), record(3, Begin, "b", 9), record(4, End, "a", 5)];
        assert_eq!(check(&across, &[]).outcome, Outcome::Violated);
        assert_eq!(check(&across, &[5]).outcome, Outcome::Held, "it was taken away");
        assert_eq!(check(&[], &[]).outcome, Outcome::Unknown);
    }
}
