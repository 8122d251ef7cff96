//! R1 and R4 where one node may be down at a time: what one grant lets a node do is over before another grant lets
//! anybody do anything.
//!
//! A grant's time is from its first disturbing hook to its last one, as the recorder outside heard them: the token was
//! held all that time, whatever happened on the node. So two that overlap are a certain violation, and no kill or power
//! cut makes a false one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::check::Verdict;
use crate::history::{EventKind, Record};

const PROMISE: &str = "R1, R4 one grant's deeds are over before another's begin";

/// Hooks that disturb the service, or belong to its way back.
const DEEDS: [&str; 5] = ["drain", "pre-stop", "post-stop", "install", "undrain"];

/// The time of one grant.
#[derive(Debug, Clone, Copy)]
struct Span<'a> {
    group: &'a str,
    node: &'a str,
    fence: u64,
    from: Duration,
    until: Duration,
}

/// Judges all that hooks have told. Grants in `revoked` were taken away: their nodes hear of it late.
pub fn check(records: &[Record], revoked: &BTreeSet<u64>) -> Verdict {
    let mut spans: BTreeMap<(&str, u64), Span> = BTreeMap::new();
    for record in records {
        let is_deed = record.fence > 0 && record.event != EventKind::Killed && DEEDS.contains(&record.hook.as_str());
        if !is_deed || revoked.contains(&record.fence) {
            continue;
        }
        let (group, node, fence) = (record.group.as_str(), record.node.as_str(), record.fence);
        let span = Span { group, node, fence, from: record.at, until: record.at };
        spans.entry((group, fence)).or_insert(span).until = record.at;
    }
    if spans.is_empty() {
        return Verdict::unknown(PROMISE, "no hook of a step was heard of");
    }
    let mut in_order: Vec<Span> = spans.into_values().collect();
    in_order.sort_by_key(|span| span.from);
    let mut violations = Vec::new();
    let mut latest: BTreeMap<&str, Span> = BTreeMap::new();
    for span in &in_order {
        if let Some(before) = latest.get(span.group).filter(|before| before.until > span.from) {
            violations.push(format!(
                "grant {} on {} from {:.1?}, while grant {} on {} went on until {:.1?}",
                span.fence, span.node, span.from, before.fence, before.node, before.until
            ));
        }
        if latest.get(span.group).is_none_or(|before| before.until < span.until) {
            latest.insert(span.group, *span);
        }
    }
    Verdict::from_violations(PROMISE, format!("{} grants", in_order.len()), &violations)
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
        assert_eq!(check(&apart, &BTreeSet::new()).outcome, Outcome::Held);
        let across = [record(1, Begin, "a", 5), record(3, Begin, "b", 9), record(4, End, "a", 5)];
        assert_eq!(check(&across, &BTreeSet::new()).outcome, Outcome::Violated);
        assert_eq!(check(&across, &BTreeSet::from([5])).outcome, Outcome::Held, "it was taken away");
        assert_eq!(check(&[], &BTreeSet::new()).outcome, Outcome::Unknown);
    }
}
