//! R7: where a step has failed, or a member that was updated went bad, nobody else's turn comes before somebody lets the
//! rollout go on. It is judged where one failure is one too many, as in every run's group.

use std::collections::BTreeMap;

use crate::check::Verdict;
use crate::check::grants::deed_between;
use crate::history::Record;
use crate::hosts::evidence::Logged;

const PROMISE: &str = "R7 nothing begins behind a failed step before somebody lets it";

/// What stops a rollout.
const BAD: [&str; 2] = ["step_failed", "member_went_bad"];

/// What lets it go on.
const GOES_ON: [&str; 2] = ["rollout_resumed", "rollback_begun"];

/// Judges what hooks did against the failures that the log knows of.
pub fn check(records: &[Record], log: &[Logged]) -> Verdict {
    let has = |logged: &Logged, kinds: &[&str]| logged.kinds.iter().any(|kind| kinds.contains(&kind.as_str()));
    // Each peer's log tells the same.
    let by_revision: BTreeMap<u64, &Logged> = log.iter().map(|logged| (logged.revision, logged)).collect();
    let turned_at = |rollout: &str| {
        let of_it = by_revision.values().filter(|logged| logged.rollout == rollout);
        of_it.filter(|logged| has(logged, &["rollback_begun"])).map(|logged| logged.revision).min().unwrap_or(u64::MAX)
    };
    let mut violations = Vec::new();
    let mut count = 0;
    for bad in by_revision.values().filter(|logged| !logged.rollout.is_empty() && has(logged, &BAD)) {
        // What fails while a rollout turns round is on its way back already.
        if bad.revision >= turned_at(&bad.rollout) {
            continue;
        }
        count += 1;
        let goes_on = by_revision
            .range(bad.revision + 1..)
            .find(|(_, logged)| logged.rollout == bad.rollout && has(logged, &GOES_ON))
            .map_or(u64::MAX, |(revision, _)| *revision);
        violations.extend(deed_between(records, &bad.rollout, bad.revision, goes_on).map(|record| {
            let Record { hook, node, fence, .. } = record;
            format!("{hook} on {node} under fence {fence}, granted behind the failure at {}", bad.revision)
        }));
    }
    if count == 0 {
        return Verdict::unknown(PROMISE, "nothing failed");
    }
    Verdict::from_violations(PROMISE, format!("{count} failures"), &violations)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome;
    use crate::history::EventKind;
    use std::time::Duration;

    fn logged(revision: u64, kind: &str) -> Logged {
        Logged { revision, rollout: "r1".into(), kinds: vec![kind.into()], ..Logged::default() }
    }

    #[test]
    fn a_turn_behind_a_failure_is_seen() {
        let mut begin = Record::new(Duration::ZERO, EventKind::Begin, "b", "drain");
        begin.rollout = "r1".into();
        let mut judge = |fence, log: &[Logged]| {
            begin.fence = fence;
            check(std::slice::from_ref(&begin), log).outcome
        };
        let failed = [logged(10, "step_failed"), logged(20, "rollout_resumed")];
        assert_eq!(judge(9, &failed), Outcome::Held, "it was granted before");
        assert_eq!(judge(15, &failed), Outcome::Violated);
        assert_eq!(judge(21, &failed), Outcome::Held);
        assert_eq!(judge(15, &[logged(10, "member_went_bad")]), Outcome::Violated, "nobody let it go on");
        let back = [logged(5, "rollback_begun"), logged(10, "step_failed")];
        assert_eq!(judge(15, &back), Outcome::Unknown, "it was on its way back");
        assert_eq!(judge(15, &[]), Outcome::Unknown);
    }
}
