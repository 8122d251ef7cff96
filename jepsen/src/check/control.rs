//! R8, R9 and R12: after an acknowledged pause, or a token that was taken away, nothing begins that was granted behind it
//! until somebody resumes; after an acknowledged stop, ever. What was seen at its end stays there, and nothing else goes
//! back in time either.

use std::collections::BTreeMap;

use crate::check::Verdict;
use crate::check::grants::deed_between;
use crate::history::Record;
use crate::hosts::evidence::Logged;
use crate::ops::{Kind, Op, pairs};
use crate::workload::rollout::{self, Steered};

const CONTROL: &str = "R8 nothing begins that was granted behind an acknowledged pause, revocation or stop";
const ENDED: &str = "R9 what has ended stays ended";
const FORWARD: &str = "R12 states move along allowed edges only, and no former rollout comes back";

/// How a rollout may end.
const ENDS: [&str; 5] = ["succeeded", "stopped", "rolled_back", "superseded", "denied"];

/// What a rollout that goes back never is again.
const FORWARD_ONLY: [&str; 4] = ["awaiting_approval", "running", "awaiting_promotion", "succeeded"];

/// What halts a rollout.
const HALTS: [&str; 3] = ["pause", "revoke", "stop"];

/// Events that let a rollout go on.
const GOES_ON: [&str; 2] = ["rollout_resumed", "rollback_begun"];

/// Judges what an operator was told against what hooks and the log tell.
pub fn check(history: &[Op], records: &[Record], log: &[Logged]) -> Vec<Verdict> {
    vec![control(history, records, log), ended(history), forward(history)]
}

fn steered(history: &[Op]) -> Vec<(&str, Steered)> {
    let acknowledged = pairs(history).into_iter().filter(|pair| pair.kind() == Kind::Ok);
    let parsed = acknowledged.filter_map(|pair| {
        let is_ours = rollout::VERBS.contains(&pair.invoked.f.as_str());
        let steered = serde_json::from_value(pair.value().clone()).ok()?;
        is_ours.then_some((pair.invoked.f.as_str(), steered))
    });
    parsed.collect()
}

fn control(history: &[Op], records: &[Record], log: &[Logged]) -> Verdict {
    let mut violations = Vec::new();
    let mut halts = 0;
    for (verb, halt) in steered(history).into_iter().filter(|(verb, _)| HALTS.contains(verb)) {
        let Some(from) = halt.revision else { continue };
        halts += 1;
        // Whoever may have let it go on, also one who was never told that they did.
        let goes_on = log
            .iter()
            .filter(|logged| logged.rollout == halt.rollout && logged.revision > from)
            .filter(|logged| verb != "stop" && logged.kinds.iter().any(|kind| GOES_ON.contains(&kind.as_str())))
            .map(|logged| logged.revision)
            .min()
            .unwrap_or(u64::MAX);
        violations.extend(deed_between(records, &halt.rollout, from, goes_on).map(|record| {
            let Record { hook, node, fence, .. } = record;
            format!("{hook} on {node} under fence {fence}, granted behind the {verb} of {} at {from}", halt.rollout)
        }));
    }
    if halts == 0 || log.is_empty() {
        return Verdict::unknown(CONTROL, "nothing was paused or stopped, or the log wasn't read");
    }
    Verdict::from_violations(CONTROL, format!("{halts} pauses, revocations and stops"), &violations)
}

/// What was seen of each rollout, in the order of revisions.
fn seen(history: &[Op]) -> BTreeMap<String, Vec<(u64, String)>> {
    let mut by_rollout: BTreeMap<String, Vec<(u64, String)>> = BTreeMap::new();
    for (_, seen) in steered(history).into_iter().filter(|(verb, _)| *verb == "look") {
        if let Some(revision) = seen.revision {
            by_rollout.entry(seen.rollout).or_default().push((revision, seen.status));
        }
    }
    by_rollout.values_mut().for_each(|seen| seen.sort());
    by_rollout
}

fn ended(history: &[Op]) -> Verdict {
    let by_rollout = seen(history);
    if by_rollout.is_empty() {
        return Verdict::unknown(ENDED, "nobody looked");
    }
    let mut violations = Vec::new();
    for (rollout, seen) in &by_rollout {
        for pair in seen.windows(2) {
            let ((at, before), (then, after)) = (&pair[0], &pair[1]);
            if ENDS.contains(&before.as_str()) && before != after {
                violations.push(format!("{rollout} was {before} at {at} and {after} at {then}"));
            }
        }
    }
    Verdict::from_violations(ENDED, format!("{} rollouts", by_rollout.len()), &violations)
}

fn forward(history: &[Op]) -> Verdict {
    let by_rollout = seen(history);
    let mut violations = Vec::new();
    for (rollout, seen) in &by_rollout {
        let Some((turned, _)) = seen.iter().find(|(_, status)| status == "rolling_back") else { continue };
        let again = seen.iter().find(|(at, status)| at > turned && FORWARD_ONLY.contains(&status.as_str()));
        violations.extend(again.map(|(at, status)| format!("{rollout} went back at {turned} and is {status} at {at}")));
    }
    // A group has one after the other.
    let mut lives: Vec<(u64, u64, &String)> =
        by_rollout.iter().filter_map(|(rollout, seen)| Some((seen.first()?.0, seen.last()?.0, rollout))).collect();
    lives.sort_unstable();
    violations.extend(
        lives.windows(2).filter(|pair| pair[1].0 < pair[0].1).map(|pair| {
            format!("{} was seen at {} again, behind {} at {}", pair[0].2, pair[0].1, pair[1].2, pair[1].0)
        }),
    );
    if lives.is_empty() {
        return Verdict::unknown(FORWARD, "nobody looked");
    }
    Verdict::from_violations(FORWARD, format!("{} rollouts", lives.len()), &violations)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome;
    use crate::history::EventKind;
    use serde_json::json;
    use std::time::Duration;

    fn history(deeds: &[(&str, u64, &str)]) -> Vec<Op> {
        let mut ops = Vec::new();
        for (f, revision, status) in deeds {
            for kind in [Kind::Invoke, Kind::Ok] {
                let value = json!({"rollout": "r1", "revision": revision, "status": status});
                let index = ops.len() as u64;
                let f = (*f).to_owned();
                ops.push(Op { index, time: 0, process: Some(0), kind, f, value, peer: None, error: None });
            }
        }
        ops
    }

    fn begin(fence: u64) -> Vec<Record> {
        let mut record = Record::new(Duration::ZERO, EventKind::Begin, "a", "drain");
        (record.rollout, record.fence) = ("r1".into(), fence);
        vec![record]
    }

    #[test]
    fn a_step_granted_behind_a_pause_is_seen() {
        let paused = history(&[("pause", 10, "paused")]);
        let resumed =
            Logged { revision: 20, rollout: "r1".into(), kinds: vec!["rollout_resumed".into()], ..Logged::default() };
        let judge = |fence, log: &[Logged]| check(&paused, &begin(fence), log)[0].outcome;
        let other = [Logged { revision: 20, rollout: "r0".into(), ..resumed.clone() }];
        assert_eq!(judge(9, &other), Outcome::Held, "it was granted before");
        assert_eq!(judge(11, &other), Outcome::Violated);
        assert_eq!(judge(11, &[]), Outcome::Unknown, "who let it go on stands in the log");
        assert_eq!(judge(21, std::slice::from_ref(&resumed)), Outcome::Held);
        assert_eq!(judge(11, std::slice::from_ref(&resumed)), Outcome::Violated);
        let stopped = history(&[("stop", 10, "stopped")]);
        assert_eq!(check(&stopped, &begin(21), &[resumed])[0].outcome, Outcome::Violated, "a stop is for good");
    }

    #[test]
    fn a_rollout_that_goes_forward_again_is_seen() {
        let judge = |deeds: &[(&str, u64, &str)]| check(&history(deeds), &[], &[])[2].outcome;
        let back = ("look", 2, "rolling_back");
        assert_eq!(
            judge(&[("look", 1, "running"), back, ("look", 3, "paused"), ("look", 4, "rolled_back")]),
            Outcome::Held
        );
        assert_eq!(judge(&[back, ("look", 3, "running")]), Outcome::Violated);
        let mut two = history(&[("look", 1, "running"), ("look", 2, "running"), ("look", 3, "running")]);
        assert_eq!(check(&two, &[], &[])[2].outcome, Outcome::Held);
        two[3].value = json!({"rollout": "r2", "revision": 2, "status": "running"});
        assert_eq!(check(&two, &[], &[])[2].outcome, Outcome::Violated, "r1 again behind r2");
    }

    #[test]
    fn a_rollout_that_comes_back_is_seen() {
        let judge = |deeds: &[(&str, u64, &str)]| check(&history(deeds), &[], &[])[1].outcome;
        assert_eq!(judge(&[("look", 1, "running"), ("look", 2, "stopped"), ("look", 3, "stopped")]), Outcome::Held);
        assert_eq!(judge(&[("look", 2, "stopped"), ("look", 3, "running")]), Outcome::Violated);
    }
}
