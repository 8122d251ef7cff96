//! R5: a node that a rollout brought to its target went through each phase, in their order.

use crate::check::Verdict;
use crate::history::{History, Record};

const PROMISE: &str = "no step is skipped";

/// What a step leaves in the witness's book, in order. The service's start is last: it may come again.
const TRACE: [&str; 4] = ["drain", "post-stop", "install", "run"];

/// Judges the steps of one rollout to `target` on all of its nodes.
pub fn check(history: &History, rollout: &str, target: &str, nodes: &[String]) -> Verdict {
    let violations: Vec<String> = nodes
        .iter()
        .filter_map(|node| missing(history, rollout, target, node).map(|m| format!("{node}: {m}")))
        .collect();
    Verdict::from_violations(PROMISE, format!("{} nodes through {}", nodes.len(), TRACE.join(", ")), &violations)
}

fn missing(history: &History, rollout: &str, target: &str, node: &str) -> Option<String> {
    let belongs = |begin: &&Record| begin.node == node && begin.rollout == rollout;
    let mut after = None;
    for hook in TRACE {
        let of_target = |begin: &&Record| begin.ident == target || !matches!(hook, "install" | "run");
        let begins: Vec<&Record> = history.begins(hook).filter(belongs).filter(of_target).collect();
        let Some(first) = begins.first() else {
            if hook == "drain" && had_nothing_to_drain(history, rollout, node) {
                continue;
            }
            return Some(format!("no {hook}"));
        };
        if after.is_some_and(|after| first.at < after) {
            return Some(format!("{hook} came too early"));
        }
        // What ended badly where its node was killed, was begun again. `post-stop` is only told: it never is.
        let ended_well = |begin: &&Record| history.end_of(begin).is_some_and(|end| end.exit == Some(0));
        if matches!(hook, "drain" | "install") && !begins.iter().any(ended_well) {
            return Some(format!("no {hook} ended well"));
        }
        after = Some(first.at);
    }
    None
}

/// Whether the service had been killed before its turn came to the install: nothing ran that could be drained.
fn had_nothing_to_drain(history: &History, rollout: &str, node: &str) -> bool {
    let of_step = |begin: &&Record| begin.node == node && begin.rollout == rollout;
    let Some(install) = history.begins("install").find(of_step) else { return false };
    let Some(first) = history.records.iter().find(|record| record.rollout == rollout) else { return false };
    history.service_kills(node).any(|kill| kill.at >= first.at && kill.at <= install.at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome;
    use crate::history::EventKind;
    use std::time::Duration;

    fn step() -> Vec<Record> {
        let mut records = Vec::new();
        for (place, hook) in TRACE.iter().enumerate() {
            for event in [EventKind::Begin, EventKind::End] {
                let at = Duration::from_millis(u64::try_from(records.len()).unwrap());
                let mut record = Record::new(at, event, "a", hook);
                (record.rollout, record.ident) = ("r".into(), "t".into());
                (record.pid, record.exit) = (u32::try_from(place).unwrap(), Some(0));
                records.push(record);
            }
        }
        records
    }

    fn judge(records: Vec<Record>) -> Verdict {
        check(&History { records }, "r", "t", &["a".to_owned()])
    }

    #[test]
    fn a_missing_phase_is_seen() {
        assert_eq!(judge(step()).outcome, Outcome::Held);
        for hook in TRACE {
            let records = step().into_iter().filter(|record| record.hook != hook).collect();
            assert_eq!(judge(records).evidence, format!("a: no {hook}"));
        }
    }

    #[test]
    fn a_phase_out_of_order_is_seen() {
        let mut records = step();
        records[6].at = Duration::ZERO;
        records.sort_by_key(|record| record.at);
        assert_eq!(judge(records).evidence, "a: run came too early");
    }

    #[test]
    fn another_releases_install_is_not_taken_for_it() {
        let mut records = step();
        records.iter_mut().for_each(|record| record.ident = "old".into());
        assert_eq!(judge(records).outcome, Outcome::Violated);
    }

    #[test]
    fn a_drain_may_be_missing_only_where_the_service_was_killed_before() {
        let kill = |ms| Record::new(Duration::from_millis(ms), EventKind::Killed, "a", "service");
        let without_drain = |kill: Record| {
            let mut records: Vec<Record> = step().into_iter().filter(|record| record.hook != "drain").collect();
            records.push(kill);
            records.sort_by_key(|record| record.at);
            judge(records).outcome
        };
        assert_eq!(without_drain(kill(3)), Outcome::Held);
        assert_eq!(without_drain(kill(7)), Outcome::Violated);
    }
}
