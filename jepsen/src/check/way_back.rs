//! R10: a rollout that turns round takes back each node that it has disturbed, one after the other and in the reverse
//! order of the last grants that led forward; what has failed may go first.

use std::collections::{BTreeMap, BTreeSet};

use crate::check::Verdict;
use crate::history::{EventKind, Record};
use crate::hosts::evidence::Logged;

const PROMISE: &str = "R10 the way back visits each updated node, in reverse";

/// Hooks that run only behind the second commit point.
const DISTURBS: [&str; 3] = ["pre-stop", "post-stop", "install"];

/// Judges the rollouts that the log says have turned round; those in `rolled_back` came to the end of it.
pub fn check(records: &[Record], log: &[Logged], rolled_back: &BTreeSet<String>) -> Verdict {
    let turns: BTreeMap<&str, u64> = log
        .iter()
        .filter(|logged| logged.kinds.iter().any(|kind| kind == "rollback_begun"))
        .map(|logged| (logged.rollout.as_str(), logged.revision))
        .collect();
    if !turns.keys().any(|rollout| rolled_back.contains(*rollout)) {
        return Verdict::unknown(PROMISE, "no rollout went all the way back");
    }
    let mut violations = Vec::new();
    let mut visits = 0;
    for (rollout, turned) in turns {
        let begins = || records.iter().filter(move |it| it.event == EventKind::Begin && it.rollout == rollout);
        // The last fence under which a node was disturbed on the way there, and the first one on the way back.
        let mut there: BTreeMap<&str, u64> = BTreeMap::new();
        for begin in begins().filter(|it| it.fence < turned && DISTURBS.contains(&it.hook.as_str())) {
            let fence = there.entry(&begin.node).or_default();
            *fence = begin.fence.max(*fence);
        }
        let mut back: BTreeMap<&str, u64> = BTreeMap::new();
        for begin in begins().filter(|it| it.fence > turned) {
            let fence = back.entry(&begin.node).or_insert(begin.fence);
            *fence = begin.fence.min(*fence);
        }
        visits += back.len();
        if rolled_back.contains(rollout) {
            let left = there.keys().filter(|node| !back.contains_key(**node));
            violations.extend(left.map(|node| format!("{node} was disturbed by {rollout} and not taken back")));
        }
        let failed: BTreeSet<&str> = failed_before(records, rollout, turned);
        let mut in_order: Vec<(u64, &str)> =
            back.iter().filter(|(node, _)| !failed.contains(**node)).map(|(node, fence)| (*fence, *node)).collect();
        in_order.sort_unstable();
        for pair in in_order.windows(2) {
            let (first, second) = (pair[0].1, pair[1].1);
            if there.get(first).zip(there.get(second)).is_some_and(|(first, second)| first < second) {
                violations.push(format!("{rollout} took {first} back before {second}, which had come later"));
            }
        }
    }
    Verdict::from_violations(PROMISE, format!("{visits} visits of {} rollouts", rolled_back.len()), &violations)
}

/// Nodes whose latest disturbance on the way there didn't come to a good end as far as its hooks tell.
fn failed_before<'a>(records: &'a [Record], rollout: &str, turned: u64) -> BTreeSet<&'a str> {
    let mut ends: BTreeMap<&str, bool> = BTreeMap::new();
    for record in records.iter().filter(|it| it.rollout == rollout && it.fence > 0 && it.fence < turned) {
        match (record.event, record.hook.as_str()) {
            (EventKind::End, "undrain") => ends.insert(&record.node, record.exit == Some(0)),
            (EventKind::Begin, hook) if DISTURBS.contains(&hook) => ends.insert(&record.node, false),
            _ => None,
        };
    }
    ends.into_iter().filter(|(_, well)| !well).map(|(node, _)| node).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome;
    use std::time::Duration;

    fn step(node: &str, fence: u64) -> [Record; 2] {
        let record = |event, hook: &str, exit| {
            let mut record = Record::new(Duration::ZERO, event, node, hook);
            (record.rollout, record.fence, record.exit) = ("r1".into(), fence, exit);
            record
        };
        [record(EventKind::Begin, "install", None), record(EventKind::End, "undrain", Some(0))]
    }

    fn judge(steps: &[(&str, u64)]) -> Outcome {
        let records: Vec<Record> = steps.iter().flat_map(|(node, fence)| step(node, *fence)).collect();
        let turned =
            Logged { revision: 10, rollout: "r1".into(), kinds: vec!["rollback_begun".into()], ..Logged::default() };
        check(&records, &[turned], &BTreeSet::from(["r1".to_owned()])).outcome
    }

    #[test]
    fn another_order_or_a_node_that_is_left_out_is_seen() {
        assert_eq!(judge(&[("a", 1), ("b", 2), ("b", 11), ("a", 12)]), Outcome::Held);
        assert_eq!(judge(&[("a", 1), ("b", 2), ("a", 11), ("b", 12)]), Outcome::Violated);
        assert_eq!(judge(&[("a", 1), ("b", 2), ("b", 11)]), Outcome::Violated, "a stays where it is");
        assert_eq!(judge(&[("a", 1), ("b", 2), ("a", 3), ("a", 11), ("b", 12)]), Outcome::Held, "a was tried again");
        assert_eq!(check(&[], &[], &BTreeSet::new()).outcome, Outcome::Unknown);
    }

    #[test]
    fn what_has_failed_may_go_first() {
        let mut records = [step("a", 1), step("b", 2), step("a", 11), step("b", 12)].concat();
        records.retain(|it| !(it.node == "a" && it.fence == 1 && it.hook == "undrain"));
        let turned =
            Logged { revision: 10, rollout: "r1".into(), kinds: vec!["rollback_begun".into()], ..Logged::default() };
        assert_eq!(check(&records, &[turned], &BTreeSet::from(["r1".to_owned()])).outcome, Outcome::Held);
    }
}
