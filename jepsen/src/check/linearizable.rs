//! The second opinion on registers: a search for an order that explains what clients saw (Wing and Gong, with Lowe's
//! memory of where it has been), per key and by values alone. It knows nothing of revisions or logs, so it shares no
//! assumption with the first.
//!
//! What nobody knows is settled, not searched over: nobody writes a value twice, so a write without an answer whose value
//! nobody saw can be left out of any order, and one whose value was seen must stand before that sight's end.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};

use crate::check::Verdict;
use crate::ops::{Kind, Op, Pair, pairs};
use crate::workload::register::Access;

const PROMISE: &str = "L1 each register is linearizable (by search)";

/// BOUND: the search as a whole.
const SEARCHES_FOR: Duration = Duration::from_secs(60);

/// What an operation does to a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deed {
    Write(u64),
    /// From one value to another.
    Change(u64, u64),
    Read(u64),
}

/// An operation, from its invocation to where it must have taken effect.
#[derive(Debug, Clone, Copy)]
struct Call {
    began: u64,
    ended: u64,
    deed: Deed,
    /// Its invocation's place in the history, to name it.
    index: u64,
}

/// How a search came out.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    Order,
    /// There is none; it can't be carried on past the operation with this place in the history.
    NoOrder(u64),
    OutOfTime,
}

/// Judges a history.
pub fn check(history: &[Op]) -> Verdict {
    check_within(history, SEARCHES_FOR)
}

fn check_within(history: &[Op], time: Duration) -> Verdict {
    let deadline = Instant::now() + time;
    let keys = calls_by_key(history);
    let count: usize = keys.values().map(Vec::len).sum();
    if count == 0 {
        return Verdict::unknown(PROMISE, "nothing was read or written");
    }
    let mut violations = Vec::new();
    for (key, calls) in &keys {
        match search(calls, deadline) {
            Found::Order => {}
            Found::NoOrder(index) => {
                violations.push(format!("no order explains {key}; none gets past operation {index}"));
            }
            Found::OutOfTime => return Verdict::unknown(PROMISE, format!("{key} wasn't decided within {time:?}")),
        }
    }
    Verdict::from_violations(PROMISE, format!("{count} operations on {} keys", keys.len()), &violations)
}

fn calls_by_key(history: &[Op]) -> BTreeMap<String, Vec<Call>> {
    let parsed: Vec<(Pair, Access)> = pairs(history)
        .into_iter()
        .filter(|pair| matches!(pair.invoked.f.as_str(), "write" | "cas" | "read") && pair.kind() != Kind::Fail)
        .map(|pair| (pair, serde_json::from_value(pair.value().clone()).unwrap_or_default()))
        .collect();
    // By when each value had been seen.
    let mut seen: HashMap<u64, u64> = HashMap::new();
    let mut see = |value: Option<u64>, at| {
        if let Some(value) = value {
            let first = seen.entry(value).or_insert(u64::MAX);
            *first = (*first).min(at);
        }
    };
    for (pair, access) in &parsed {
        match (pair.invoked.f.as_str(), pair.kind()) {
            ("read", Kind::Ok) => see(access.value, pair.ends_at()),
            // A change that took effect proves what it changed.
            ("cas", Kind::Ok) => see(access.from, pair.ends_at()),
            _ => {}
        }
    }
    // So does one without an answer whose own value was seen, and whatever that one changed, and so on.
    let doubtful: Vec<(u64, u64)> = parsed
        .iter()
        .filter(|(pair, _)| pair.invoked.f == "cas" && pair.kind() == Kind::Info)
        .filter_map(|(_, access)| access.from.zip(access.value))
        .collect();
    loop {
        let before = seen.clone();
        for (from, value) in &doubtful {
            if let Some(at) = before.get(value) {
                let first = seen.entry(*from).or_insert(u64::MAX);
                *first = (*first).min(*at);
            }
        }
        if seen == before {
            break;
        }
    }
    let mut keys: BTreeMap<String, Vec<Call>> = BTreeMap::new();
    for (pair, access) in &parsed {
        let Some(value) = access.value else { continue };
        let deed = match (pair.invoked.f.as_str(), access.from) {
            ("read", _) if pair.kind() == Kind::Ok => Deed::Read(value),
            ("read", _) => continue,
            ("cas", Some(from)) => Deed::Change(from, value),
            _ => Deed::Write(value),
        };
        let ended = match pair.ends_at() {
            u64::MAX => match seen.get(&value) {
                Some(at) => *at,
                None => continue,
            },
            at => at,
        };
        let (began, index) = (pair.invoked.index, pair.invoked.index);
        keys.entry(access.key.clone()).or_default().push(Call { began, ended, deed, index });
    }
    keys.values_mut().for_each(|calls| calls.sort_by_key(|call| call.began));
    keys
}

/// Where a search stands: everything before `first` has its place, and of what comes after, those in `ahead`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Place {
    first: usize,
    ahead: Vec<usize>,
    value: u64,
}

impl Place {
    fn has(&self, call: usize) -> bool {
        call < self.first || self.ahead.contains(&call)
    }

    fn with(&self, call: usize, value: u64) -> Self {
        let mut next = Self { first: self.first, ahead: self.ahead.clone(), value };
        next.ahead.push(call);
        next.ahead.sort_unstable();
        while next.ahead.first() == Some(&next.first) {
            next.ahead.remove(0);
            next.first += 1;
        }
        next
    }
}

fn search(calls: &[Call], deadline: Instant) -> Found {
    let start = Place { first: 0, ahead: Vec::new(), value: 0 };
    let mut been: HashSet<Place> = HashSet::from([start.clone()]);
    let mut open = vec![start];
    let (mut farthest, mut looked) = (0, 0_u64);
    while let Some(place) = open.pop() {
        if place.first == calls.len() {
            return Found::Order;
        }
        looked += 1;
        if looked.is_multiple_of(1_024) && Instant::now() > deadline {
            return Found::OutOfTime;
        }
        farthest = farthest.max(place.first);
        // Those that began before any of the others was over.
        let mut limit = u64::MAX;
        let mut next = Vec::new();
        for (number, call) in calls.iter().enumerate().skip(place.first) {
            if call.began > limit {
                break;
            }
            if place.has(number) {
                continue;
            }
            limit = limit.min(call.ended);
            if let Some(value) = after(call.deed, place.value) {
                next.push((call.ended, place.with(number, value)));
            }
        }
        next.retain(|(_, place)| been.insert(place.clone()));
        // What is over first is tried first.
        next.sort_by_key(|(ended, _)| std::cmp::Reverse(*ended));
        open.extend(next.into_iter().map(|(_, place)| place));
    }
    Found::NoOrder(calls.get(farthest).map_or(0, |call| call.index))
}

/// The value afterwards; none: it can't stand here.
fn after(deed: Deed, value: u64) -> Option<u64> {
    match deed {
        Deed::Write(new) => Some(new),
        Deed::Change(from, new) => (value == from).then_some(new),
        Deed::Read(seen) => (value == seen).then_some(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};
    use serde_json::{Value, json};

    fn op(process: u64, kind: Kind, f: &str, value: Value) -> Op {
        Op { index: 0, time: 0, process: Some(process), kind, f: f.into(), value, peer: None, error: None }
    }

    fn judge(mut history: Vec<Op>) -> Outcome {
        history.iter_mut().zip(0..).for_each(|(op, index)| op.index = index);
        check(&history).outcome
    }

    fn whole(process: u64, kind: Kind, f: &str, value: Value) -> Vec<Op> {
        vec![op(process, Kind::Invoke, f, value.clone()), op(process, kind, f, value)]
    }

    #[test]
    fn a_read_that_goes_back_is_seen() {
        let write = |value: u64| whole(0, Kind::Ok, "write", json!({"key": "k", "value": value}));
        let read = |value: u64| whole(1, Kind::Ok, "read", json!({"key": "k", "value": value}));
        assert_eq!(judge([write(1), write(2), read(2)].concat()), Outcome::Held);
        assert_eq!(judge([write(1), write(2), read(1)].concat()), Outcome::Violated);
        assert_eq!(judge([write(1), read(3)].concat()), Outcome::Violated);
    }

    #[test]
    fn overlapping_operations_may_stand_either_way() {
        let value = |value: u64| json!({"key": "k", "value": value});
        let mut history = whole(0, Kind::Ok, "write", value(1));
        history.push(op(0, Kind::Invoke, "write", value(2)));
        for seen in [1, 1, 2, 2] {
            history.extend(whole(1, Kind::Ok, "read", value(seen)));
        }
        history.push(op(0, Kind::Ok, "write", value(2)));
        assert_eq!(judge(history.clone()), Outcome::Held);
        history.extend(whole(1, Kind::Ok, "read", value(1)));
        assert_eq!(judge(history), Outcome::Violated);
    }

    #[test]
    fn an_unknown_write_may_come_late_or_never_but_not_be_undone() {
        let value = |value: u64| json!({"key": "k", "value": value});
        let begun = [whole(0, Kind::Ok, "write", value(1)), whole(1, Kind::Info, "write", value(2))].concat();
        let read = |seen: u64| whole(2, Kind::Ok, "read", value(seen));
        assert_eq!(judge([begun.clone(), read(1), read(1)].concat()), Outcome::Held);
        assert_eq!(judge([begun.clone(), read(1), read(2)].concat()), Outcome::Held);
        assert_eq!(judge([begun, read(2), read(1)].concat()), Outcome::Violated);
    }

    #[test]
    fn a_change_that_was_seen_proves_the_unknown_write_that_it_changed() {
        let value = |value: u64| json!({"key": "k", "value": value});
        let change = |from: u64, new: u64| json!({"key": "k", "value": new, "from": from, "expected": 9});
        let begun = [
            whole(0, Kind::Ok, "write", value(1)),
            whole(1, Kind::Info, "write", value(2)),
            whole(2, Kind::Info, "cas", change(2, 3)),
            whole(3, Kind::Info, "cas", change(3, 4)),
        ]
        .concat();
        let read = |seen: u64| whole(4, Kind::Ok, "read", value(seen));
        assert_eq!(judge([begun.clone(), read(1), read(4)].concat()), Outcome::Held);
        assert_eq!(judge([begun, read(4), read(2)].concat()), Outcome::Violated);
    }

    #[test]
    fn two_changes_from_the_same_value_are_seen() {
        let change = |process, new: u64| {
            whole(process, Kind::Ok, "cas", json!({"key": "k", "value": new, "from": 1, "expected": 9}))
        };
        let first = whole(0, Kind::Ok, "write", json!({"key": "k", "value": 1}));
        assert_eq!(judge([first.clone(), change(1, 2)].concat()), Outcome::Held);
        assert_eq!(judge([first, change(1, 2), change(2, 3)].concat()), Outcome::Violated);
    }

    /// Ten clients on ten keys, with operations that overlap; the register is real.
    fn lawful(operations: usize) -> Vec<Op> {
        let mut random = StdRng::seed_from_u64(3);
        let (mut history, mut values) = (Vec::new(), [0_u64; 10]);
        let mut open: Vec<Option<Op>> = vec![None; 10];
        for number in 1..=operations as u64 * 2 {
            let client = random.random_range(0..10);
            let key = random.random_range(0..10);
            match open[client].take() {
                Some(done) => history.push(done),
                None => {
                    let name = format!("k{key}");
                    let process = client as u64;
                    let (f, value) = if values[key] == 0 || random.random_bool(0.4) {
                        values[key] = number;
                        ("write", json!({"key": name, "value": number}))
                    } else {
                        ("read", json!({"key": name, "value": values[key]}))
                    };
                    history.push(op(process, Kind::Invoke, f, value.clone()));
                    open[client] = Some(op(process, Kind::Ok, f, value));
                }
            }
        }
        history
    }

    #[test]
    fn a_hundred_thousand_operations_are_decided_in_time() {
        let mut history = lawful(100_000);
        let begun = Instant::now();
        assert_eq!(judge(history.clone()), Outcome::Held);
        let last = json!({"key": "k3", "value": 1});
        history.extend([op(99, Kind::Invoke, "read", last.clone()), op(99, Kind::Ok, "read", last)]);
        assert_eq!(judge(history), Outcome::Violated);
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    }
}
