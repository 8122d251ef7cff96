//! W1 to W7: what each follower of the events was told, over all its watches at all peers, is what the log holds: in
//! order, once, whole, without a gap, and up to the end.

use std::collections::BTreeMap;

use crate::check::Verdict;
use crate::hosts::evidence::Logged;
use crate::ops::{Kind, Op, pairs};
use crate::workload::watch::Followed;

const PROMISE: &str = "W1–W6 watches: in order, once, whole, without a gap, resumed at any peer";
const CONVERGED: &str = "W7 every follower got to the end";

/// Judges all followers; `goal` is the last revision that a client was told of.
pub fn check(history: &[Op], log: &[Logged], goal: u64) -> Vec<Verdict> {
    let reference: BTreeMap<u64, String> = log
        .iter()
        .filter(|logged| !logged.kinds.is_empty())
        .map(|logged| (logged.revision, logged.kinds.join("+")))
        .collect();
    let mut positions: BTreeMap<u64, u64> = BTreeMap::new();
    let mut violations = Vec::new();
    let (mut watches, mut messages) = (0, 0);
    for pair in pairs(history).into_iter().filter(|pair| pair.invoked.f == "watch") {
        let Some(op) = pair.completed.filter(|op| op.kind == Kind::Ok) else { continue };
        let Ok(followed) = serde_json::from_value::<Followed>(op.value.clone()) else { continue };
        watches += 1;
        messages += followed.messages.len();
        let position = positions.entry(followed.follower).or_default();
        let at = op.peer.as_deref().unwrap_or_default();
        if let Err(what) = follow(&followed, position, &reference) {
            violations.push(format!("follower {} at {at}, operation {}: {what}", followed.follower, op.index));
        }
    }
    if reference.is_empty() || messages == 0 {
        return vec![Verdict::unknown(PROMISE, "nobody was told anything, or the log wasn't read")];
    }
    let behind: Vec<String> = positions
        .iter()
        .filter(|(_, position)| **position < goal)
        .map(|(follower, position)| format!("follower {follower} got to {position} of {goal}"))
        .collect();
    vec![
        Verdict::from_violations(PROMISE, format!("{messages} messages in {watches} watches"), &violations),
        Verdict::from_violations(CONVERGED, format!("{} followers up to {goal}", positions.len()), &behind),
    ]
}

/// Takes one watch's messages in; the first thing that is wrong with them.
fn follow(followed: &Followed, position: &mut u64, reference: &BTreeMap<u64, String>) -> Result<(), String> {
    let mut at = followed.since;
    for (revision, kinds) in &followed.messages {
        // Marks of progress may say the same again, and events never.
        if *revision < at || (*revision == at && !kinds.is_empty()) {
            return Err(format!("revision {revision} after {at}"));
        }
        let is_mark = kinds.is_empty();
        let end = if is_mark { revision + 1 } else { *revision };
        if let Some((missed, _)) = reference.range(at + 1..end.max(at + 1)).next() {
            return Err(format!("revision {missed} is missing before {revision}"));
        }
        match reference.get(revision) {
            Some(logged) if !is_mark && logged != kinds => {
                return Err(format!("revision {revision} has {kinds} instead of {logged}"));
            }
            None if !is_mark => return Err(format!("revision {revision} isn't in the log: {kinds}")),
            _ => {}
        }
        at = *revision;
    }
    *position = (*position).max(at);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome;

    fn judge(watches: &[(u64, &[(u64, &str)])], goal: u64) -> Vec<Outcome> {
        let log: Vec<Logged> = [(1, "a"), (3, "b+c"), (4, ""), (6, "d")]
            .into_iter()
            .map(|(revision, kinds): (u64, &str)| Logged {
                revision,
                kinds: kinds.split('+').filter(|kind| !kind.is_empty()).map(str::to_owned).collect(),
                ..Logged::default()
            })
            .collect();
        let mut history = Vec::new();
        for (since, messages) in watches {
            let messages = messages.iter().map(|(revision, kinds)| (*revision, (*kinds).to_owned())).collect();
            let value = serde_json::to_value(Followed { follower: 1, since: *since, messages }).unwrap();
            for kind in [Kind::Invoke, Kind::Ok] {
                let (index, f) = (history.len() as u64, "watch".to_owned());
                let value = value.clone();
                history.push(Op { index, time: 0, process: Some(1), kind, f, value, peer: None, error: None });
            }
        }
        check(&history, &log, goal).into_iter().map(|verdict| verdict.outcome).collect()
    }

    #[test]
    fn everything_once_and_in_order_holds() {
        let watches: [(u64, &[(u64, &str)]); 2] = [(0, &[(1, "a"), (3, "b+c")]), (3, &[(5, ""), (6, "d")])];
        assert_eq!(judge(&watches, 6), [Outcome::Held, Outcome::Held]);
        assert_eq!(judge(&watches, 7)[1], Outcome::Violated, "it didn't get to the end");
    }

    #[test]
    fn a_gap_a_repetition_a_torn_revision_and_a_stranger_are_seen() {
        let broken: [(u64, &[(u64, &str)]); 6] = [
            (0, &[(1, "a"), (6, "d")]),
            (0, &[(1, "a"), (1, "a"), (3, "b+c")]),
            (0, &[(1, "a"), (3, "b"), (6, "d")]),
            (0, &[(1, "a"), (2, "x"), (3, "b+c")]),
            (0, &[(3, "b+c")]),
            (0, &[(5, "")]),
        ];
        for watch in broken {
            assert_eq!(judge(&[watch], 0)[0], Outcome::Violated, "{watch:?}");
        }
    }
}
