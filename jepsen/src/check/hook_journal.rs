//! R6, by the machines' own word: the journals that hooks sync before they act. No clock and no recorder are needed to
//! tell from them that a phase was not started twice in one attempt.
//!
//! A phase may be entered again only where its machine lost its power in the middle of it: the begin before has no end,
//! and stands in another boot. What has ended well is never begun again, and what only is told (`pre-stop`,
//! `post-stop`) never a second time at all.

use std::collections::BTreeMap;

use crate::check::Verdict;
use crate::history::{EventKind, Record};

const PROMISE: &str = "by the hooks' own journals no phase was started twice in one attempt";

/// What a step does once.
const ONCE: [&str; 4] = ["drain", "pre-stop", "post-stop", "install"];

/// Never begun a second time, whatever happened.
const TOLD_ONLY: [&str; 2] = ["pre-stop", "post-stop"];

/// What may be begun once: rollout, hook, release and attempt.
type Start<'a> = (&'a str, &'a str, &'a str, u32);

/// Judges the journals of all machines, each in its own order. `witnessed` is what the recorder outside heard.
pub fn check(journals: &BTreeMap<String, Vec<Record>>, witnessed: &[Record]) -> Verdict {
    let mut violations = Vec::new();
    let mut phases = 0;
    for (node, records) in journals {
        let mut latest: BTreeMap<Start, (&Record, Option<i32>)> = BTreeMap::new();
        for record in records.iter().filter(|record| !record.rollout.is_empty() && ONCE.contains(&record.hook.as_str()))
        {
            let key = (record.rollout.as_str(), record.hook.as_str(), record.ident.as_str(), record.attempt);
            match record.event {
                EventKind::Begin => {
                    let before = latest.insert(key, (record, None));
                    phases += usize::from(before.is_none());
                    if let Some(why) = before.and_then(|(before, exit)| repeated(before, exit, record)) {
                        violations.push(format!("{} on {node}, attempt {}: {why}", record.hook, record.attempt));
                    }
                }
                EventKind::End => {
                    if let Some((_, exit)) = latest.get_mut(&key) {
                        *exit = record.exit;
                    }
                }
                EventKind::Killed => {}
            }
        }
    }
    violations.extend(forgotten(journals, witnessed));
    if phases == 0 {
        return Verdict::unknown(PROMISE, "the journals tell of no phase");
    }
    Verdict::from_violations(PROMISE, format!("{phases} phases on {} machines", journals.len()), &violations)
}

fn repeated(before: &Record, exit: Option<i32>, again: &Record) -> Option<&'static str> {
    match exit {
        // It asked for it.
        Some(75) => None,
        Some(0) => Some("begun again after it had ended well"),
        Some(_) => Some("begun again after it had failed"),
        None if TOLD_ONLY.contains(&again.hook.as_str()) => Some("begun a second time"),
        None if before.boot == again.boot => Some("begun again in the same boot"),
        None => None,
    }
}

/// What the recorder was told and the machine forgot: its disk, or whoever wrote to it, doesn't keep what was synced.
fn forgotten(journals: &BTreeMap<String, Vec<Record>>, witnessed: &[Record]) -> Vec<String> {
    let same = |own: &Record, told: &Record| {
        (own.event, own.pid, &own.hook, &own.boot) == (told.event, told.pid, &told.hook, &told.boot)
    };
    witnessed
        .iter()
        .filter(|told| told.event != EventKind::Killed)
        .filter(|told| !journals.get(&told.node).is_some_and(|own| own.iter().any(|own| same(own, told))))
        .map(|told| format!("{} forgot the {:?} of {} that it had synced", told.node, told.event, told.hook))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome;
    use std::time::Duration;

    fn record(event: EventKind, hook: &str, exit: Option<i32>, boot: &str) -> Record {
        let mut record = Record::new(Duration::ZERO, event, "a", hook);
        (record.rollout, record.attempt, record.exit, record.boot) = ("r2".into(), 1, exit, boot.into());
        record
    }

    fn begin(hook: &str, boot: &str) -> Record {
        record(EventKind::Begin, hook, None, boot)
    }

    fn end(hook: &str, exit: i32, boot: &str) -> Record {
        record(EventKind::End, hook, Some(exit), boot)
    }

    fn judge(records: Vec<Record>) -> Verdict {
        check(&BTreeMap::from([("a".to_owned(), records)]), &[])
    }

    #[test]
    fn a_phase_may_be_entered_again_only_where_the_power_went_in_the_middle_of_it() {
        assert_eq!(judge(vec![begin("install", "1"), begin("install", "2")]).outcome, Outcome::Held);
        assert_eq!(judge(vec![begin("install", "1"), begin("install", "1")]).outcome, Outcome::Violated);
        let ended = vec![begin("install", "1"), end("install", 0, "1"), begin("install", "2")];
        assert!(judge(ended).evidence.contains("after it had ended well"));
        let failed = vec![begin("install", "1"), end("install", 1, "1"), begin("install", "1")];
        assert!(judge(failed).evidence.contains("after it had failed"));
    }

    #[test]
    fn what_asked_to_be_called_again_may_be() {
        let records = vec![begin("drain", "1"), end("drain", 75, "1"), begin("drain", "1"), end("drain", 0, "1")];
        assert_eq!(judge(records).outcome, Outcome::Held);
    }

    #[test]
    fn what_is_only_told_is_told_once() {
        assert_eq!(judge(vec![begin("pre-stop", "1"), begin("pre-stop", "2")]).outcome, Outcome::Violated);
    }

    #[test]
    fn another_attempt_may_begin_anew() {
        let mut again = begin("install", "1");
        again.attempt = 2;
        assert_eq!(judge(vec![begin("install", "1"), end("install", 1, "1"), again]).outcome, Outcome::Held);
    }

    #[test]
    fn a_journal_that_lost_what_was_witnessed_is_seen() {
        let journals = BTreeMap::from([("a".to_owned(), vec![begin("install", "1")])]);
        let told = [begin("install", "1"), end("install", 0, "1")];
        assert!(check(&journals, &told).evidence.contains("forgot"));
        assert_eq!(check(&BTreeMap::new(), &[]).outcome, Outcome::Unknown);
    }
}
