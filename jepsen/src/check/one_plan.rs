//! R11: two rollouts never interleave on one node: once a later one has begun there, nothing of an earlier one does.

use std::collections::{BTreeMap, BTreeSet};

use crate::check::Verdict;
use crate::history::{EventKind, Record};

const PROMISE: &str = "R11 two rollouts never interleave on one node";

/// Judges all begins that carry a fence. `run` and `init` are left out: a service that is started again outside of its
/// step carries the rollout that installed it.
pub fn check(records: &[Record]) -> Verdict {
    let mut latest: BTreeMap<&str, &str> = BTreeMap::new();
    let mut over: BTreeSet<(&str, &str)> = BTreeSet::new();
    let mut violations = Vec::new();
    let mut count = 0;
    let begins = records
        .iter()
        .filter(|it| it.event == EventKind::Begin && it.fence > 0 && !matches!(it.hook.as_str(), "run" | "init"));
    for begin in begins {
        count += 1;
        let (node, rollout) = (begin.node.as_str(), begin.rollout.as_str());
        if over.contains(&(node, rollout)) {
            violations.push(format!("{} of {rollout} on {node} after a later rollout had begun there", begin.hook));
        }
        if let Some(before) = latest.insert(node, rollout).filter(|before| *before != rollout) {
            over.insert((node, before));
        }
    }
    if count == 0 {
        return Verdict::unknown(PROMISE, "no hook of a step was heard of");
    }
    Verdict::from_violations(PROMISE, format!("{count} begins"), &violations)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome;
    use std::time::Duration;

    #[test]
    fn a_rollout_that_comes_back_to_a_node_is_seen() {
        let judge = |begins: &[(&str, &str)]| {
            let begin = |(node, rollout): &(&str, &str)| {
                let mut record = Record::new(Duration::ZERO, EventKind::Begin, node, "drain");
                (record.rollout, record.fence) = ((*rollout).to_owned(), 1);
                record
            };
            check(&begins.iter().map(begin).collect::<Vec<_>>()).outcome
        };
        assert_eq!(judge(&[("a", "r1"), ("a", "r2"), ("b", "r1")]), Outcome::Held, "b is another node");
        assert_eq!(judge(&[("a", "r1"), ("a", "r2"), ("a", "r1")]), Outcome::Violated);
        assert_eq!(judge(&[]), Outcome::Unknown);
    }
}
