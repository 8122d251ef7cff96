//! A1: while a majority of the peers is unhurt, and has been for as long as an election may take, writes succeed.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::check::Verdict;
use crate::nemesis::conductor::{Fate, Inflicted};
use crate::ops::{Kind, Op, pairs};

const PROMISE: &str = "A1 while a majority is unhurt, writes succeed";

/// How long whoever was hurt may take to be back: its program starts, catches up, and there may be an election.
const COMES_BACK_WITHIN: Duration = Duration::from_secs(10);

/// How long nothing may succeed: an election with its doubts, on a busy machine.
const LONGEST_SILENCE: Duration = Duration::from_secs(8);

/// Judges the time from `from` to `to` (nanoseconds since the run began) among `peers` peers.
pub fn check(history: &[Op], inflicted: &[Inflicted], peers: usize, from: u64, to: u64) -> Verdict {
    let mut writes: Vec<u64> = pairs(history)
        .iter()
        .filter(|pair| pair.kind() == Kind::Ok && matches!(pair.invoked.f.as_str(), "write" | "cas"))
        .filter_map(|pair| Some(pair.completed?.time))
        .collect();
    writes.sort_unstable();
    let spells = unhurt(inflicted, peers, from, to);
    let longest = nanos(LONGEST_SILENCE);
    let mut violations = Vec::new();
    let mut worst = 0;
    for (begins, ends) in &spells {
        let within = writes.iter().copied().filter(|at| (begins..=ends).contains(&at));
        let mut before = *begins;
        for at in within.chain([*ends]) {
            let silence = at - before;
            worst = worst.max(silence);
            if silence > longest {
                violations.push(format!("no write succeeded from {:.1} s to {:.1} s", seconds(before), seconds(at)));
            }
            before = at;
        }
    }
    let all: u64 = spells.iter().map(|(begins, ends)| ends - begins).sum();
    if all < longest {
        return Verdict::unknown(PROMISE, format!("a majority was unhurt for {:.1} s only", seconds(all)));
    }
    let evidence = format!("unhurt for {:.0} s, at most {:.1} s without a write", seconds(all), seconds(worst));
    Verdict::from_violations(PROMISE, evidence, &violations)
}

/// Spells in which fewer than a majority of the peers are hurt.
fn unhurt(inflicted: &[Inflicted], peers: usize, from: u64, to: u64) -> Vec<(u64, u64)> {
    let bearable = peers.saturating_sub(1) / 2;
    let hurts: Vec<(u64, u64, &Inflicted)> = inflicted
        .iter()
        .filter(|it| it.fate != Fate::Skipped)
        .map(|it| (it.began, it.ended.saturating_add(nanos(COMES_BACK_WITHIN)), it))
        .collect();
    let mut edges: BTreeSet<u64> = BTreeSet::from([from, to]);
    edges.extend(hurts.iter().flat_map(|(begins, ends, _)| [*begins, *ends]).filter(|at| (from..to).contains(at)));
    let edges: Vec<u64> = edges.into_iter().collect();
    let mut spells: Vec<(u64, u64)> = Vec::new();
    for pair in edges.windows(2) {
        let (begins, ends) = (pair[0], pair[1]);
        let at_work = hurts.iter().filter(|(since, until, _)| *since < ends && *until > begins);
        let mut who = BTreeSet::new();
        for (.., it) in at_work {
            // Whom an attempt has hurt that nobody can tell anything of, nobody knows.
            who.extend(it.targets.iter().filter(|target| target.starts_with("peer-")).cloned());
            if it.targets.is_empty() {
                who.extend((1..=peers).map(|number| format!("peer-{number}")));
            }
        }
        if who.len() > bearable {
            continue;
        }
        match spells.last_mut() {
            Some(spell) if spell.1 == begins => spell.1 = ends,
            _ => spells.push((begins, ends)),
        }
    }
    spells
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn seconds(nanos: u64) -> f64 {
    Duration::from_nanos(nanos).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome;
    use crate::nemesis::Fault;

    const SECOND: u64 = 1_000_000_000;

    fn writes(at: impl Iterator<Item = u64>) -> Vec<Op> {
        let op = |second: u64, kind| {
            let value = serde_json::Value::Null;
            let (f, time) = ("write".to_owned(), second * SECOND);
            Op { index: time, time, process: Some(0), kind, f, value, peer: None, error: None }
        };
        at.flat_map(|second| [op(second, Kind::Invoke), op(second, Kind::Ok)]).collect()
    }

    fn kill(peer: &str, from: u64, to: u64) -> Inflicted {
        let (what, evidence, targets) = (String::new(), String::new(), vec![peer.to_owned()]);
        let (began, ended) = (from * SECOND, to * SECOND);
        Inflicted { number: 0, fault: Fault::Kill, what, targets, fate: Fate::Installed, evidence, began, ended }
    }

    #[test]
    fn a_silence_that_nobody_s_hurt_explains_is_seen() {
        let judge = |history: &[Op], faults: &[Inflicted]| check(history, faults, 3, 0, 60 * SECOND).outcome;
        let gap = writes((0..60).filter(|second| !(20..40).contains(second)));
        assert_eq!(judge(&writes(0..60), &[]), Outcome::Held);
        assert_eq!(judge(&gap, &[]), Outcome::Violated);
        assert_eq!(judge(&gap, &[kill("peer-1", 19, 40)]), Outcome::Violated, "two of three are well");
        assert_eq!(judge(&gap, &[kill("peer-1", 19, 38), kill("peer-2", 20, 38)]), Outcome::Held);
        assert_eq!(judge(&gap, &[kill("node-1", 19, 38), kill("node-2", 20, 38)]), Outcome::Violated);
        let never = [kill("peer-1", 0, 60), kill("peer-2", 0, 60)];
        assert_eq!(judge(&gap, &never), Outcome::Unknown);
    }
}
