//! R3: whatever a hook does in a rollout, the log has granted to that node under just that fence, which is the revision
//! of the grant.

use std::collections::{BTreeMap, BTreeSet};

use crate::check::Verdict;
use crate::history::{EventKind, Record};
use crate::hosts::evidence::Logged;

const PROMISE: &str = "R3 each deed carries a fence that the log granted to that node";

/// Judges all begins that carry a fence.
pub fn check(records: &[Record], log: &[Logged]) -> Verdict {
    let grants: BTreeMap<u64, &Logged> =
        log.iter().filter(|logged| !logged.granted.is_empty()).map(|logged| (logged.revision, logged)).collect();
    let begins: Vec<&Record> =
        records.iter().filter(|record| record.event == EventKind::Begin && record.fence > 0).collect();
    if begins.is_empty() || grants.is_empty() {
        return Verdict::unknown(PROMISE, "no hook began under a fence, or the log wasn't read");
    }
    let violations: Vec<String> = begins
        .iter()
        .filter(|begin| !grants.get(&begin.fence).is_some_and(|grant| grant.granted.contains(&begin.node)))
        .map(|begin| format!("{} on {} under fence {}, which nobody granted it", begin.hook, begin.node, begin.fence))
        .collect();
    Verdict::from_violations(PROMISE, format!("{} begins, {} grants", begins.len(), grants.len()), &violations)
}

/// The fences of tokens that were taken away by force. Their nodes hear of it late, and go on until then.
pub fn revoked_fences(log: &[Logged]) -> BTreeSet<u64> {
    let mut held: BTreeMap<&str, u64> = BTreeMap::new();
    let mut revoked = BTreeSet::new();
    let by_revision: BTreeMap<u64, &Logged> = log.iter().map(|logged| (logged.revision, logged)).collect();
    for (revision, logged) in by_revision {
        revoked.extend(logged.revoked.iter().filter_map(|node| held.remove(node.as_str())));
        held.extend(logged.granted.iter().map(|node| (node.as_str(), revision)));
    }
    revoked
}

/// What a hook of `rollout` began under a fence between two revisions, both left out: a fence is the revision of its grant.
pub(super) fn deed_between<'a>(records: &'a [Record], rollout: &str, after: u64, before: u64) -> Option<&'a Record> {
    records.iter().find(|record| {
        record.event == EventKind::Begin && record.rollout == rollout && record.fence > after && record.fence < before
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome;
    use std::time::Duration;

    #[test]
    fn a_fence_that_was_granted_to_another_or_to_nobody_is_seen() {
        let log = [Logged { revision: 7, granted: vec!["a".into()], ..Logged::default() }];
        let begin = |node: &str, fence| {
            let mut record = Record::new(Duration::ZERO, EventKind::Begin, node, "drain");
            record.fence = fence;
            [record]
        };
        assert_eq!(check(&begin("a", 7), &log).outcome, Outcome::Held);
        assert_eq!(check(&begin("b", 7), &log).outcome, Outcome::Violated);
        assert_eq!(check(&begin("a", 8), &log).outcome, Outcome::Violated);
        assert_eq!(check(&[], &log).outcome, Outcome::Unknown);
    }

    #[test]
    fn a_token_that_is_taken_away_is_the_last_one_that_was_granted() {
        let granted = |revision| Logged { revision, granted: vec!["a".into()], ..Logged::default() };
        let revoked = Logged { revision: 9, revoked: vec!["a".into()], ..Logged::default() };
        assert_eq!(revoked_fences(&[granted(3), granted(7), revoked, granted(12)]), BTreeSet::from([7]));
    }
}
