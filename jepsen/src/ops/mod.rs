//! Operations of clients, as Jepsen writes them down: an invocation, and later its completion.
//!
//! What is certain decides the kind. `Ok`: it took effect, with this answer. `Fail`: it certainly had none, now or later.
//! `Info`: nobody knows. An `Info` is never taken for absent: its operation stays open until later evidence settles it, and
//! its process ends, as one that can't tell what it did may not go on.

pub mod book;
pub mod edn;
pub mod outcome;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a line of a history says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// It is about to be sent.
    Invoke,
    /// It took effect.
    Ok,
    /// It had no effect and never will.
    Fail,
    /// It may have had an effect, or still have it. The nemesis's lines are of this kind too.
    Info,
}

/// One line of a history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Op {
    /// Its place in the history: the only order there is.
    pub index: u64,
    /// Nanoseconds since the run began.
    pub time: u64,
    /// The logical process; none: the nemesis.
    pub process: Option<u64>,
    /// What the line says.
    #[serde(rename = "type")]
    pub kind: Kind,
    /// What was asked: `read`, `write`, …
    pub f: String,
    /// Arguments and answer, as the workload has them.
    pub value: Value,
    /// Whom it was asked, or who answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// Why it isn't `Ok`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// An operation as a whole: its invocation, and its completion where there is one.
#[derive(Debug, Clone, Copy)]
pub struct Pair<'a> {
    /// The invocation.
    pub invoked: &'a Op,
    /// The completion; none: the run ended before it.
    pub completed: Option<&'a Op>,
}

impl<'a> Pair<'a> {
    /// The completion's kind; an operation without one is as unknown as an `Info`.
    pub fn kind(&self) -> Kind {
        self.completed.map_or(Kind::Info, |op| op.kind)
    }

    /// When it was over for everybody else: the end of all time, where nobody knows.
    pub fn ends_at(&self) -> u64 {
        match self.completed {
            Some(op) if matches!(op.kind, Kind::Ok | Kind::Fail) => op.index,
            _ => u64::MAX,
        }
    }

    /// Its arguments and, once it is `Ok`, its answer.
    pub fn value(&self) -> &'a Value {
        self.completed.filter(|op| op.kind == Kind::Ok).map_or(&self.invoked.value, |op| &op.value)
    }

    /// From its invocation to its completion, in nanoseconds.
    pub fn took(&self) -> Option<u64> {
        Some(self.completed?.time.saturating_sub(self.invoked.time))
    }
}

/// The operations of clients, in the order of their invocations.
pub fn pairs(history: &[Op]) -> Vec<Pair<'_>> {
    let mut open: BTreeMap<u64, usize> = BTreeMap::new();
    let mut pairs: Vec<Pair> = Vec::new();
    for op in history {
        let Some(process) = op.process else { continue };
        if op.kind == Kind::Invoke {
            open.insert(process, pairs.len());
            pairs.push(Pair { invoked: op, completed: None });
        } else if let Some(pair) = open.remove(&process).and_then(|place| pairs.get_mut(place)) {
            pair.completed = Some(op);
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(index: u64, process: u64, kind: Kind) -> Op {
        let (f, value) = ("read".to_owned(), Value::Null);
        Op { index, time: index * 10, process: Some(process), kind, f, value, peer: None, error: None }
    }

    #[test]
    fn invocations_find_their_completions() {
        let history = [
            op(0, 0, Kind::Invoke),
            op(1, 1, Kind::Invoke),
            op(2, 0, Kind::Ok),
            op(3, 1, Kind::Info),
            op(4, 2, Kind::Invoke),
        ];
        let pairs = pairs(&history);
        let ends: Vec<u64> = pairs.iter().map(Pair::ends_at).collect();
        assert_eq!(ends, [2, u64::MAX, u64::MAX], "what is unknown never ends");
        assert_eq!((pairs[0].took(), pairs[2].took()), (Some(20), None));
        assert_eq!(pairs[2].kind(), Kind::Info);
    }
}
