//! R6: one begin per rollout, node, hook and attempt.
//!
//! Allowed again is a hook that asked for it (75), and one whose node was killed before the outcome can have been on
//! the node's disk: no journal can know what a foreign script did in the last moment.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::check::Verdict;
use crate::history::{EventKind, History, Record};

const PROMISE: &str = "no step is repeated";

/// BOUND: how long after its end a hook's outcome may not be on the node's disk yet, on a busy machine.
const RECORDED_WITHIN: Duration = Duration::from_millis(500);

/// BOUND: how long after the kill of its agent a hook that had just been forked may still reach the witness, on a busy
/// machine. Nobody holds it back: the agent is gone.
const ORPHAN_BEGINS_WITHIN: Duration = Duration::from_millis(500);

/// Hooks that a step runs once per attempt. `undrain` may follow several times where a step is turned back.
const ONCE: [&str; 5] = ["drain", "pre-stop", "post-stop", "install", "run"];

/// Judges all begins that belong to a rollout.
pub fn check(history: &History) -> Verdict {
    let mut latest: BTreeMap<(&str, &str, &str, &str, u32), &Record> = BTreeMap::new();
    let mut violations = Vec::new();
    let mut count = 0;
    for begin in history.records.iter().filter(|record| record.event == EventKind::Begin) {
        if begin.rollout.is_empty() || !ONCE.contains(&begin.hook.as_str()) {
            continue;
        }
        count += 1;
        let (rollout, node, hook) = (begin.rollout.as_str(), begin.node.as_str(), begin.hook.as_str());
        // The old release's `run` may come in a step too, where its process dies before the stop.
        let key = (rollout, node, hook, begin.ident.as_str(), begin.attempt);
        if let Some(before) = latest.insert(key, begin)
            && !may_repeat(history, before, begin)
        {
            violations.push(format!(
                "{} began again on {} in attempt {} of {}, at {:.2} s",
                begin.hook,
                begin.node,
                begin.attempt,
                begin.rollout,
                begin.at.as_secs_f64()
            ));
        }
    }
    if count == 0 {
        return Verdict::unknown(PROMISE, "no hook of a rollout began");
    }
    Verdict::from_violations(PROMISE, format!("{count} begins"), &violations)
}

fn may_repeat(history: &History, before: &Record, again: &Record) -> bool {
    let end = history.end_of(before);
    if end.and_then(|end| end.exit) == Some(75) {
        return true;
    }
    let on_disk_at = end.map(|end| end.at + RECORDED_WITHIN);
    history.records.iter().any(|kill| {
        kill.event == EventKind::Killed
            && kill.node == again.node
            && kill.at + ORPHAN_BEGINS_WITHIN >= before.at
            && kill.at <= again.at
            && (again.hook == "run" || on_disk_at.is_none_or(|at| kill.at <= at))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome;

    fn record(ms: u64, event: EventKind, exit: Option<i32>) -> Record {
        let mut record = Record::new(Duration::from_millis(ms), event, "a", "install");
        (record.rollout, record.attempt, record.exit) = ("r".into(), 1, exit);
        (record.pid, record.hook) = (u32::try_from(ms / 1_000).unwrap(), record.hook);
        record
    }

    fn judge(records: Vec<Record>) -> Outcome {
        check(&History { records }).outcome
    }

    #[test]
    fn a_second_begin_in_one_attempt_is_seen() {
        use EventKind::{Begin, End, Killed};
        let (begin, end, again) = (record(1_000, Begin, None), record(1_200, End, Some(0)), record(5_000, Begin, None));
        assert_eq!(judge(vec![begin.clone()]), Outcome::Held);
        assert_eq!(judge(vec![begin.clone(), end.clone(), again.clone()]), Outcome::Violated);
        assert_eq!(judge(vec![begin.clone(), record(1_200, End, Some(75)), again.clone()]), Outcome::Held);
        let kill = |ms| Record::new(Duration::from_millis(ms), Killed, "a", "agent");
        assert_eq!(judge(vec![begin.clone(), kill(1_100), again.clone()]), Outcome::Held);
        assert_eq!(judge(vec![begin.clone(), end.clone(), kill(1_300), again.clone()]), Outcome::Held);
        assert_eq!(judge(vec![kill(900), begin.clone(), end.clone(), again.clone()]), Outcome::Held, "an orphan");
        assert_eq!(judge(vec![kill(100), begin.clone(), end.clone(), again.clone()]), Outcome::Violated);
        assert_eq!(judge(vec![begin, end, kill(4_000), again]), Outcome::Violated);
    }

    #[test]
    fn a_new_attempt_may_begin() {
        let second = Record { attempt: 2, ..record(5_000, EventKind::Begin, None) };
        assert_eq!(judge(vec![record(1_000, EventKind::Begin, None), second]), Outcome::Held);
    }
}
