//! L1 to L5 for registers, by replaying them in the order of revisions: O(n log n), without a search.
//!
//! Each write that took effect has a revision of its own. The writes that were acknowledged tell theirs; those whose
//! outcome nobody knows are settled by evidence: a read that saw their value, or the log, which carries their request id.
//! Then everything is held against that order: real time, what reads returned, and what conditions expected.

use std::collections::{BTreeMap, HashMap};

use crate::check::Verdict;
use crate::hosts::evidence::{Logged, RECORDER};
use crate::ops::{Kind, Op, Pair, pairs};
use crate::workload::register::{Access, DEEDS};

const ORDER: &str = "L1 reads and conditional writes see the latest write before them";
const LOST: &str = "L2 no acknowledged write is lost";
const UNKNOWN: &str = "L3 nothing appears that nobody wrote, or that was refused";
const ONCE: &str = "L4 each request has one outcome";
const TIME: &str = "L5 revisions agree with real time";

/// A write, and what is known of it.
#[derive(Debug)]
struct Write {
    access: Access,
    kind: Kind,
    began: u64,
    /// Where it stands in the log; none: it has no effect, as far as anybody knows.
    revision: Option<u64>,
}

/// A write that took effect: its revision, its value, and the revision that it expected.
type Stood = (u64, u64, Option<u64>);

#[derive(Debug)]
struct Replay<'a> {
    pairs: Vec<(Pair<'a>, Access)>,
    writes: Vec<Write>,
    by_value: HashMap<u64, usize>,
    violations: BTreeMap<&'static str, Vec<String>>,
}

/// Judges a history; `log` is what the peers' own logs say of it, or empty where nobody asked them.
pub fn check(history: &[Op], log: &[Logged]) -> Vec<Verdict> {
    let mut replay = Replay::of(history);
    let settled_before = replay.settled();
    replay.settle_by_reads();
    replay.settle_by_log(log);
    replay.look_for_lost(log);
    replay.hold_against_real_time();
    replay.hold_reads_against_writes();
    let counts = replay.count(Kind::Ok);
    let evidence = format!(
        "{} operations, {} of them ok; {} writes took effect, {} of these without an acknowledgement",
        replay.pairs.len(),
        counts,
        replay.settled(),
        replay.settled() - settled_before
    );
    [ORDER, LOST, UNKNOWN, ONCE, TIME]
        .into_iter()
        .map(|promise| {
            let violations = replay.violations.remove(promise).unwrap_or_default();
            if violations.is_empty() && counts == 0 {
                return Verdict::unknown(promise, "no operation was acknowledged");
            }
            Verdict::from_violations(promise, &evidence, &violations)
        })
        .collect()
}

impl<'a> Replay<'a> {
    fn of(history: &'a [Op]) -> Self {
        let is_ours = |pair: &Pair| DEEDS.contains(&pair.invoked.f.as_str());
        let parsed = pairs(history).into_iter().filter(is_ours).map(|pair| {
            let access = serde_json::from_value(pair.value().clone()).unwrap_or_default();
            (pair, access)
        });
        let mut replay =
            Self { pairs: parsed.collect(), writes: Vec::new(), by_value: HashMap::new(), violations: BTreeMap::new() };
        for (pair, access) in &replay.pairs {
            if !matches!(pair.invoked.f.as_str(), "write" | "cas") {
                continue;
            }
            if let Some(value) = access.value {
                replay.by_value.insert(value, replay.writes.len());
            }
            let revision = access.revision.filter(|_| pair.kind() == Kind::Ok);
            let (access, kind, began) = (access.clone(), pair.kind(), pair.invoked.index);
            replay.writes.push(Write { access, kind, began, revision });
        }
        replay
    }

    fn count(&self, kind: Kind) -> usize {
        self.pairs.iter().filter(|(pair, _)| pair.kind() == kind).count()
    }

    fn settled(&self) -> usize {
        self.writes.iter().filter(|write| write.revision.is_some()).count()
    }

    fn violated(&mut self, promise: &'static str, what: String) {
        self.violations.entry(promise).or_default().push(what);
    }

    /// Says that the write of `value` took effect at `revision`; `how` it is known.
    fn settle(&mut self, value: u64, key: &str, revision: u64, how: &str) {
        let Some(place) = self.by_value.get(&value).copied() else {
            return self.violated(UNKNOWN, format!("{how}: {key} = {value}, which nobody wrote"));
        };
        let write = &mut self.writes[place];
        if write.access.key != key {
            return self.violated(UNKNOWN, format!("{how}: {key} = {value}, which was written to another key"));
        }
        match (write.kind, write.revision) {
            (Kind::Fail, _) => {
                self.violated(UNKNOWN, format!("{how}: {key} = {value}, whose write was said to have no effect"));
            }
            (_, Some(known)) if known != revision => {
                self.violated(ONCE, format!("{how}: {key} = {value} at revision {revision}, and at {known}"));
            }
            (_, Some(_)) => {}
            (_, None) => write.revision = Some(revision),
        }
    }

    fn settle_by_reads(&mut self) {
        for place in 0..self.pairs.len() {
            let (pair, access) = &self.pairs[place];
            if pair.kind() != Kind::Ok {
                continue;
            }
            let (key, f) = (access.key.clone(), pair.invoked.f.clone());
            let how = format!("{f} {}", pair.invoked.index);
            match (f.as_str(), access.value, access.modified, access.revision) {
                ("read" | "stale_read", Some(value), Some(modified), _) => self.settle(value, &key, modified, &how),
                ("resend", Some(value), _, Some(revision)) => self.settle(value, &key, revision, &how),
                _ => {}
            }
        }
    }

    fn settle_by_log(&mut self, log: &[Logged]) {
        for logged in log.iter().filter(|logged| logged.is_register()) {
            let value = logged.reason.strip_prefix('v').and_then(|value| value.parse().ok()).unwrap_or(0);
            let key = logged.group.trim_end_matches(".register");
            self.settle(value, key, logged.revision, &format!("the log of {}", logged.peer));
        }
    }

    /// What was acknowledged is in every peer's log, as far as that reaches.
    fn look_for_lost(&mut self, log: &[Logged]) {
        let mut logs: BTreeMap<&str, (u64, u64, std::collections::HashSet<u64>)> = BTreeMap::new();
        for logged in log.iter().filter(|logged| logged.peer != RECORDER) {
            let (first, last, revisions) =
                logs.entry(&logged.peer).or_insert_with(|| (u64::MAX, 0, Default::default()));
            (*first, *last) = ((*first).min(logged.revision), (*last).max(logged.revision));
            if logged.is_register() {
                revisions.insert(logged.revision);
            }
        }
        let acknowledged = self.writes.iter().filter(|write| write.kind == Kind::Ok);
        let mut lost = Vec::new();
        for write in acknowledged {
            let Some(revision) = write.revision else { continue };
            for (peer, (first, last, revisions)) in &logs {
                if revision >= *first && (revision > *last || !revisions.contains(&revision)) {
                    let Access { key, value, .. } = &write.access;
                    lost.push(format!("{key} = {value:?} at revision {revision} isn't in the log of {peer}"));
                }
            }
        }
        lost.into_iter().for_each(|what| self.violated(LOST, what));
    }

    /// What begins after something is over, comes after it in the log.
    fn hold_against_real_time(&mut self) {
        // Beginnings and ends in their order; at each beginning, how far the log had been seen.
        let mut marks: Vec<(u64, bool, usize)> = Vec::new();
        for (place, (pair, _)) in self.pairs.iter().enumerate() {
            marks.push((pair.invoked.index, false, place));
            if let Some(completed) = pair.completed.filter(|op| op.kind == Kind::Ok) {
                marks.push((completed.index, true, place));
            }
        }
        marks.sort_unstable();
        let mut floors = vec![0; self.pairs.len()];
        let mut floor = 0;
        for (_, is_end, place) in marks {
            if is_end {
                // A request that is sent again is answered with its first revision.
                floor = floor.max(self.pairs[place].1.revision.unwrap_or(0));
            } else {
                floors[place] = floor;
            }
        }
        let mut found = Vec::new();
        for (place, (pair, access)) in self.pairs.iter().enumerate() {
            let seen = floors[place];
            let write = access.value.and_then(|value| self.by_value.get(&value)).map(|place| &self.writes[*place]);
            let (revision, is_late) = match pair.invoked.f.as_str() {
                "write" | "cas" => match write.and_then(|write| write.revision) {
                    Some(revision) => (revision, revision <= seen),
                    None => continue,
                },
                "read" if pair.kind() == Kind::Ok => match access.revision {
                    Some(revision) => (revision, revision < seen),
                    None => continue,
                },
                _ => continue,
            };
            if is_late {
                let Pair { invoked, .. } = pair;
                found.push(format!(
                    "{} {} of {} at revision {revision}, after revision {seen} had been seen",
                    invoked.f, invoked.index, access.key
                ));
            }
        }
        found.into_iter().for_each(|what| self.violated(TIME, what));
    }

    fn hold_reads_against_writes(&mut self) {
        let mut order: HashMap<&str, Vec<Stood>> = HashMap::new();
        for write in &self.writes {
            if let (Some(revision), Some(value)) = (write.revision, write.access.value) {
                order.entry(&write.access.key).or_default().push((revision, value, write.access.expected));
            }
        }
        order.values_mut().for_each(|writes| writes.sort_unstable());
        let mut found = Vec::new();
        for (key, writes) in &order {
            for pair in writes.windows(2) {
                let ((before, ..), (revision, value, expected)) = (pair[0], pair[1]);
                if expected.is_some_and(|expected| before > expected) {
                    found.push(format!(
                        "{key} = {value} at revision {revision} expected nothing behind {expected:?}, and {before} was there"
                    ));
                }
            }
        }
        for (pair, access) in &self.pairs {
            let writes = order.get(access.key.as_str()).map_or(&[][..], Vec::as_slice);
            let what = match (pair.invoked.f.as_str(), pair.kind()) {
                ("read" | "stale_read", Kind::Ok) => misread(access, writes),
                ("cas", Kind::Fail) => self.refused_without_cause(pair, access),
                _ => None,
            };
            found.extend(
                what.map(|what| format!("{} {} of {}: {what}", pair.invoked.f, pair.invoked.index, access.key)),
            );
        }
        found.into_iter().for_each(|what| self.violated(ORDER, what));
    }

    /// A conditional write that was refused needs somebody who had written meanwhile.
    fn refused_without_cause(&self, pair: &Pair, access: &Access) -> Option<String> {
        let error = pair.completed?.error.as_deref().unwrap_or_default();
        let expected = access.expected.filter(|_| error.starts_with("revision_moved"))?;
        let has_cause = self.writes.iter().any(|write| {
            let may_be_behind = write.revision.is_none_or(|revision| revision > expected);
            write.access.key == access.key
                && write.access.value != access.value
                && write.kind != Kind::Fail
                && may_be_behind
                && write.began < pair.ends_at()
        });
        (!has_cause).then(|| format!("refused, though nothing was written behind revision {expected}"))
    }
}

/// What a read returned, against the writes of its key in the order of revisions.
fn misread(access: &Access, writes: &[Stood]) -> Option<String> {
    let (revision, modified) = (access.revision?, access.modified?);
    let behind = writes.partition_point(|(at, ..)| *at <= revision);
    let (at, value, _) = writes.get(behind.checked_sub(1)?)?;
    let is_right = *at == modified && Some(*value) == access.value;
    (!is_right).then(|| {
        format!(
            "{:?} of revision {modified} in the state of revision {revision}, which has {value} of {at}",
            access.value
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome;
    use serde_json::json;

    /// A history in the making; processes are drawn as needed.
    #[derive(Default)]
    struct Made(Vec<Op>);

    impl Made {
        fn op(&mut self, process: u64, kind: Kind, f: &str, value: serde_json::Value, error: Option<&str>) {
            let index = self.0.len() as u64;
            let error = error.map(str::to_owned);
            let op = Op { index, time: index, process: Some(process), kind, f: f.into(), value, peer: None, error };
            self.0.push(op);
        }

        fn write(&mut self, process: u64, value: u64, revision: u64) {
            self.op(process, Kind::Invoke, "write", json!({"key": "k", "value": value}), None);
            let done = json!({"key": "k", "value": value, "revision": revision});
            self.op(process, Kind::Ok, "write", done, None);
        }

        fn read(&mut self, process: u64, f: &str, seen: (u64, u64), revision: u64) {
            self.op(process, Kind::Invoke, f, json!({"key": "k"}), None);
            let done = json!({"key": "k", "value": seen.0, "modified": seen.1, "revision": revision});
            self.op(process, Kind::Ok, f, done, None);
        }

        fn unknown(&mut self, process: u64, value: u64) {
            self.op(process, Kind::Invoke, "write", json!({"key": "k", "value": value}), None);
            self.op(process, Kind::Info, "write", json!({"key": "k", "value": value}), Some("unknown"));
        }
    }

    fn broken(history: &Made, log: &[Logged]) -> Vec<String> {
        let verdicts = check(&history.0, log);
        let broken = verdicts.into_iter().filter(|verdict| verdict.outcome == Outcome::Violated);
        broken.map(|verdict| verdict.promise.chars().take(2).collect()).collect()
    }

    #[test]
    fn a_lawful_history_holds() {
        let mut made = Made::default();
        made.write(0, 1, 10);
        made.read(1, "read", (1, 10), 12);
        made.unknown(0, 2);
        made.read(1, "read", (2, 13), 14);
        made.read(2, "stale_read", (1, 10), 11);
        assert_eq!(broken(&made, &[]), Vec::<String>::new());
        assert_eq!(check(&[], &[])[0].outcome, Outcome::Unknown);
    }

    #[test]
    fn a_stale_answer_to_a_read_is_seen() {
        let mut made = Made::default();
        made.write(0, 1, 10);
        made.write(0, 2, 20);
        made.read(1, "read", (1, 10), 15);
        assert_eq!(broken(&made, &[]), ["L5"]);
    }

    #[test]
    fn a_read_that_misses_a_write_in_its_own_state_is_seen() {
        let mut made = Made::default();
        made.write(0, 1, 10);
        made.write(0, 2, 20);
        made.read(1, "stale_read", (1, 10), 25);
        assert_eq!(broken(&made, &[]), ["L1"]);
    }

    #[test]
    fn a_write_that_jumps_the_queue_is_seen() {
        let mut made = Made::default();
        made.write(0, 1, 10);
        made.write(1, 2, 9);
        assert_eq!(broken(&made, &[]), ["L5"]);
    }

    #[test]
    fn what_was_refused_or_never_written_must_not_appear() {
        let mut made = Made::default();
        made.op(0, Kind::Invoke, "write", json!({"key": "k", "value": 1}), None);
        made.op(0, Kind::Fail, "write", json!({"key": "k", "value": 1}), Some("not_proposed"));
        made.read(1, "read", (1, 10), 11);
        assert_eq!(broken(&made, &[]), ["L3"]);
        let mut made = Made::default();
        made.read(1, "read", (7, 10), 11);
        assert_eq!(broken(&made, &[]), ["L3"]);
    }

    #[test]
    fn a_request_that_took_effect_twice_is_seen() {
        let mut made = Made::default();
        made.write(0, 1, 10);
        made.write(0, 2, 12);
        made.read(1, "read", (1, 14), 15);
        assert!(broken(&made, &[]).contains(&"L4".to_owned()));
        let mut made = Made::default();
        made.write(0, 1, 10);
        made.op(1, Kind::Invoke, "resend", json!({"key": "k", "value": 1}), None);
        made.op(1, Kind::Ok, "resend", json!({"key": "k", "value": 1, "revision": 11}), None);
        assert_eq!(broken(&made, &[]), ["L4"]);
    }

    #[test]
    fn a_condition_that_did_not_hold_is_seen() {
        let conditional = |kind, error| {
            let mut made = Made::default();
            made.write(0, 1, 10);
            made.write(0, 2, 20);
            let asked = json!({"key": "k", "value": 3, "expected": 10, "revision": 30});
            made.op(1, Kind::Invoke, "cas", asked.clone(), None);
            made.op(1, kind, "cas", asked, error);
            broken(&made, &[])
        };
        assert_eq!(conditional(Kind::Ok, None), ["L1"]);
        assert_eq!(conditional(Kind::Fail, Some("revision_moved: …")), Vec::<String>::new());
        let mut made = Made::default();
        made.write(0, 1, 10);
        made.op(1, Kind::Invoke, "cas", json!({"key": "k", "value": 3, "expected": 10}), None);
        made.op(1, Kind::Fail, "cas", json!({"key": "k", "value": 3, "expected": 10}), Some("revision_moved: …"));
        assert_eq!(broken(&made, &[]), ["L1"]);
    }

    #[test]
    fn the_log_tells_of_a_loss_and_settles_what_nobody_knew() {
        let logged = |value: u64, revision| Logged::register("peer-1", "k", value, revision);
        let mut made = Made::default();
        made.write(0, 1, 10);
        made.unknown(1, 2);
        made.write(0, 3, 14);
        let whole = [logged(1, 10), logged(2, 12), logged(3, 14)];
        assert_eq!(broken(&made, &whole), Vec::<String>::new());
        assert_eq!(broken(&made, &whole[..2]), ["L2"]);
        assert!(
            broken(&made, &[logged(1, 10), logged(2, 11), logged(2, 12), logged(3, 14)]).contains(&"L4".to_owned())
        );
        made.read(2, "read", (1, 10), 13);
        assert!(broken(&made, &whole).contains(&"L1".to_owned()), "the log says that 2 stood there");
    }

    #[test]
    fn a_hundred_thousand_operations_are_judged_in_no_time() {
        let mut made = Made::default();
        for n in 1..=50_000 {
            made.write(n % 7, n, n * 2);
            made.read(7, "read", (n, n * 2), n * 2 + 1);
        }
        let begun = std::time::Instant::now();
        assert_eq!(broken(&made, &[]), Vec::<String>::new());
        assert!(begun.elapsed() < std::time::Duration::from_secs(30), "{:?}", begun.elapsed());
    }
}
