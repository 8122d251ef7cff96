//! L6: at each revision every peer's log has the same record, by the hash that chains it to all records before it.

use std::collections::BTreeMap;

use crate::check::Verdict;
use crate::hosts::evidence::{Logged, RECORDER};

const PROMISE: &str = "L6 all peers hold the same log";

/// Judges what the logs of `peer_count` peers say.
pub fn check(log: &[Logged], peer_count: usize) -> Verdict {
    let mut by_revision: BTreeMap<u64, (&str, &str)> = BTreeMap::new();
    let mut last: BTreeMap<&str, u64> = BTreeMap::new();
    let mut violations = Vec::new();
    for logged in log {
        let before = last.insert(&logged.peer, logged.revision);
        if before.is_some_and(|before| before >= logged.revision) {
            violations.push(format!("{} goes back at revision {}", logged.peer, logged.revision));
        }
        let (peer, hash) = by_revision.entry(logged.revision).or_insert((&logged.peer, &logged.hash));
        if *hash != logged.hash {
            violations.push(format!("{peer} and {} differ at revision {}", logged.peer, logged.revision));
        }
    }
    last.remove(RECORDER);
    if last.len() < peer_count {
        return Verdict::unknown(PROMISE, format!("{} of {peer_count} logs were read", last.len()));
    }
    let end = last.values().min().copied().unwrap_or(0);
    Verdict::from_violations(
        PROMISE,
        format!("{} records at {peer_count} peers, up to {end}", by_revision.len()),
        &violations,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome;

    fn logged(peer: &str, revision: u64, hash: &str) -> Logged {
        Logged { peer: peer.into(), revision, hash: hash.into(), ..Logged::default() }
    }

    #[test]
    fn another_record_at_the_same_revision_is_seen() {
        let mut log = vec![logged("a", 1, "x"), logged("a", 2, "y"), logged("b", 1, "x"), logged("b", 2, "y")];
        assert_eq!(check(&log, 2).outcome, Outcome::Held);
        assert_eq!(check(&log, 3).outcome, Outcome::Unknown);
        log[3].hash = "z".into();
        assert_eq!(check(&log, 2).outcome, Outcome::Violated);
    }
}
