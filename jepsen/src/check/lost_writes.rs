//! L2: an acknowledged write is readable for ever. Every write has a key of its own, so nothing later can hide a loss.

use std::collections::BTreeMap;

use crate::check::Verdict;
use crate::redis::ledger::{Fate, Write};

const PROMISE: &str = "no acknowledged write was lost";

/// Below this many acknowledged writes the promise was hardly tried.
const LEAST_ACKNOWLEDGED: usize = 200;

/// Judges the reads at the end, and what readers missed meanwhile.
///
/// A write without an acknowledgement may be there or not; if it is there, then with the value that was written.
pub fn check(writes: &[Write], read_back: &BTreeMap<String, Option<String>>, missed_meanwhile: &[String]) -> Verdict {
    let acknowledged = writes.iter().filter(|write| write.fate == Fate::Acknowledged).count();
    let mut violations: Vec<String> = missed_meanwhile.to_vec();
    let mut unread = 0;
    for write in writes {
        match (write.fate, read_back.get(&write.key)) {
            (Fate::Acknowledged, None) => unread += 1,
            (Fate::Acknowledged, Some(None)) => violations.push(format!("{} is gone", write.key)),
            (_, Some(Some(value))) if *value != write.value => {
                violations.push(format!("{} is {value} instead of {}", write.key, write.value));
            }
            (Fate::Acknowledged, Some(Some(_))) | (Fate::Unknown, _) => {}
        }
    }
    if violations.is_empty() && unread > 0 {
        return Verdict::unknown(PROMISE, format!("{unread} acknowledged writes could not be read back"));
    }
    if violations.is_empty() && acknowledged < LEAST_ACKNOWLEDGED {
        return Verdict::unknown(PROMISE, format!("{acknowledged} acknowledged writes are too few to tell"));
    }
    Verdict::from_violations(PROMISE, format!("{acknowledged} acknowledged, all read back"), &violations)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome;
    use std::time::Duration;

    fn writes() -> Vec<Write> {
        (0..300)
            .map(|n| Write {
                key: format!("k{n}"),
                value: n.to_string(),
                fate: if n == 299 { Fate::Unknown } else { Fate::Acknowledged },
                shard: 0,
                ended_at: Duration::from_millis(n),
            })
            .collect()
    }

    fn all_there(writes: &[Write]) -> BTreeMap<String, Option<String>> {
        writes.iter().map(|write| (write.key.clone(), Some(write.value.clone()))).collect()
    }

    #[test]
    fn a_lost_acknowledged_write_is_seen() {
        let writes = writes();
        let mut there = all_there(&writes);
        assert_eq!(check(&writes, &there, &[]).outcome, Outcome::Held);
        there.insert("k7".into(), None);
        assert_eq!(check(&writes, &there, &[]).evidence, "k7 is gone");
        there.insert("k7".into(), Some("6".into()));
        assert_eq!(check(&writes, &there, &[]).evidence, "k7 is 6 instead of 7");
    }

    #[test]
    fn a_write_without_acknowledgement_may_be_lost() {
        let writes = writes();
        let mut there = all_there(&writes);
        there.insert("k299".into(), None);
        assert_eq!(check(&writes, &there, &[]).outcome, Outcome::Held);
    }

    #[test]
    fn what_was_missed_meanwhile_counts_though_it_is_back_at_the_end() {
        let writes = writes();
        let verdict = check(&writes, &all_there(&writes), &["k3 was gone at 2.1 s".into()]);
        assert_eq!(verdict.outcome, Outcome::Violated);
    }

    #[test]
    fn what_could_not_be_read_or_was_hardly_tried_is_unknown() {
        let writes = writes();
        assert_eq!(check(&writes, &BTreeMap::new(), &[]).outcome, Outcome::Unknown);
        assert_eq!(check(&writes[..10], &all_there(&writes), &[]).outcome, Outcome::Unknown);
    }
}
