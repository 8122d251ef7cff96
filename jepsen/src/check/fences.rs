//! R2: the fences of a group never decrease in the order of begins.

use std::collections::{BTreeMap, BTreeSet};

use crate::check::Verdict;
use crate::history::{EventKind, History};

const PROMISE: &str = "fences never go back";

/// Judges all begins that carry a fence, per group. `run` is left out: a service that is started again outside of its
/// step carries the fence of the step that installed it. So are the fences in `revoked`: their tokens were taken by force,
/// and their nodes hear of it late.
pub fn check(history: &History, revoked: &BTreeSet<u64>) -> Verdict {
    let mut highest: BTreeMap<&str, u64> = BTreeMap::new();
    let mut violations = Vec::new();
    let mut count = 0;
    let steps = history.records.iter().filter(|record| {
        record.event == EventKind::Begin
            && record.fence > 0
            && !revoked.contains(&record.fence)
            && !matches!(record.hook.as_str(), "run" | "init")
    });
    for begin in steps {
        count += 1;
        let highest = highest.entry(&begin.group).or_default();
        if begin.fence < *highest {
            violations.push(format!("{} on {} began with {} after {highest}", begin.hook, begin.node, begin.fence));
        }
        *highest = begin.fence.max(*highest);
    }
    if count == 0 {
        return Verdict::unknown(PROMISE, "no begin carried a fence");
    }
    Verdict::from_violations(PROMISE, format!("{count} begins"), &violations)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome;
    use crate::history::Record;
    use std::time::Duration;

    #[test]
    fn a_lower_fence_after_a_higher_one_is_seen() {
        let begin = |fence| {
            let mut record = Record::new(Duration::ZERO, EventKind::Begin, "a", "drain");
            record.fence = fence;
            record
        };
        let judge = |records, revoked: &[u64]| check(&History { records }, &revoked.iter().copied().collect()).outcome;
        assert_eq!(judge(vec![begin(1), begin(1), begin(4)], &[]), Outcome::Held);
        assert_eq!(judge(vec![begin(4), begin(1)], &[]), Outcome::Violated);
        assert_eq!(judge(vec![begin(4), begin(1)], &[1]), Outcome::Held, "its token had been taken away");
        assert_eq!(judge(vec![], &[]), Outcome::Unknown);
    }
}
