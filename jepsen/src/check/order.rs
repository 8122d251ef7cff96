//! Replicas before primaries: once a primary's turn has come, no replica's turn comes after it.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::check::Verdict;
use crate::history::History;

const PROMISE: &str = "replicas before primaries";

/// A node's turn, and its role just before anything disturbed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// Whose.
    pub node: String,
    /// When its first disturbing hook began.
    pub at: Duration,
    /// `None`: it could not be told.
    pub primary: Option<bool>,
}

/// The turns of a rollout to `target`, by the first `drain` of each node; `role` tells a node's role at a time.
pub fn turns(history: &History, target: &str, role: impl Fn(&str, Duration) -> Option<bool>) -> Vec<Turn> {
    let mut seen = BTreeSet::new();
    history
        .begins("drain")
        .filter(|begin| begin.to == target && seen.insert(begin.node.clone()))
        .map(|begin| Turn { node: begin.node.clone(), at: begin.at, primary: role(&begin.node, begin.at) })
        .collect()
}

/// Judges the turns in their order.
pub fn check(turns: &[Turn]) -> Verdict {
    if turns.is_empty() {
        return Verdict::unknown(PROMISE, "nobody's turn came");
    }
    if let Some(turn) = turns.iter().find(|turn| turn.primary.is_none()) {
        return Verdict::unknown(PROMISE, format!("nobody knows the role of {}", turn.node));
    }
    let first_primary = turns.iter().position(|turn| turn.primary == Some(true)).unwrap_or(turns.len());
    if let Some(late) = turns[first_primary..].iter().find(|turn| turn.primary == Some(false)) {
        return Verdict::violated(PROMISE, format!("{} after {}, a primary", late.node, turns[first_primary].node));
    }
    let names: Vec<&str> = turns.iter().map(|turn| turn.node.as_str()).collect();
    let (replicas, primaries) = names.split_at(first_primary);
    Verdict::held(PROMISE, format!("{}, then {}", replicas.join(" "), primaries.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome;
    use crate::history::{EventKind, Record};

    fn turn(node: &str, primary: bool) -> Turn {
        Turn { node: node.into(), at: Duration::ZERO, primary: Some(primary) }
    }

    #[test]
    fn a_replica_after_a_primary_is_seen() {
        assert_eq!(check(&[turn("a", false), turn("b", true)]).outcome, Outcome::Held);
        let verdict = check(&[turn("a", false), turn("b", true), turn("c", false)]);
        assert_eq!((verdict.outcome, verdict.evidence.as_str()), (Outcome::Violated, "c after b, a primary"));
    }

    #[test]
    fn a_role_that_nobody_knows_is_not_a_pass() {
        assert_eq!(check(&[Turn { primary: None, ..turn("a", false) }]).outcome, Outcome::Unknown);
        assert_eq!(check(&[]).outcome, Outcome::Unknown);
    }

    #[test]
    fn a_drain_that_is_called_again_is_one_turn() {
        let drain = |ms, node: &str| {
            let mut record = Record::new(Duration::from_millis(ms), EventKind::Begin, node, "drain");
            record.to = "r2".into();
            record
        };
        let history = History { records: vec![drain(1, "a"), drain(2, "a"), drain(3, "b")] };
        let turns = turns(&history, "r2", |node, _| Some(node == "b"));
        assert_eq!(turns.iter().map(|turn| turn.node.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    }
}
