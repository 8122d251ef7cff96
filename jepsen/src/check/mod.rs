//! Judgements of a run, one per file. Each is a pure function of what was seen from outside, and has a test in which a
//! planted fault makes it fail.

use std::fmt;

pub mod accepted_release;
pub mod available;
pub mod control;
pub mod coverage;
pub mod fences;
pub mod grants;
pub mod hook_journal;
pub mod installs;
pub mod linearizable;
pub mod lost_writes;
pub mod no_repeat;
pub mod no_skip;
pub mod one_outcome;
pub mod one_plan;
pub mod one_token;
pub mod order;
pub mod registers;
pub mod runs;
pub mod same_log;
pub mod serial;
pub mod unhealthy_stops;
pub mod untouched;
pub mod watches;
pub mod way_back;
pub mod width;

/// How a check came out. Unknown is not a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// What was promised, held.
    Held,
    /// There is not enough evidence for either.
    Unknown,
    /// What was promised, was broken.
    Violated,
}

/// One check's judgement.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Verdict {
    /// What was promised, for people.
    pub promise: String,
    /// How it came out.
    pub outcome: Outcome,
    /// The evidence in one line: numbers, or the first violation.
    pub evidence: String,
}

impl Verdict {
    /// The promise held.
    pub fn held(promise: &str, evidence: impl fmt::Display) -> Self {
        Self { promise: promise.to_owned(), outcome: Outcome::Held, evidence: evidence.to_string() }
    }

    /// The promise was broken.
    pub fn violated(promise: &str, evidence: impl fmt::Display) -> Self {
        Self { promise: promise.to_owned(), outcome: Outcome::Violated, evidence: evidence.to_string() }
    }

    /// Nothing can be said.
    pub fn unknown(promise: &str, evidence: impl fmt::Display) -> Self {
        Self { promise: promise.to_owned(), outcome: Outcome::Unknown, evidence: evidence.to_string() }
    }

    /// Held where there is no violation, else violated with the first of them.
    pub fn from_violations(promise: &str, evidence: impl fmt::Display, violations: &[String]) -> Self {
        match violations {
            [] => Self::held(promise, evidence),
            [only] => Self::violated(promise, only),
            [first, rest @ ..] => Self::violated(promise, format!("{first} (and {} more)", rest.len())),
        }
    }
}

/// The worst of all.
pub fn overall(verdicts: &[Verdict]) -> Outcome {
    verdicts.iter().map(|verdict| verdict.outcome).max().unwrap_or(Outcome::Unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_is_not_a_pass() {
        assert_eq!(overall(&[]), Outcome::Unknown);
        let (good, open) = (Verdict::held("a", ""), Verdict::unknown("b", ""));
        assert_eq!(overall(&[good.clone(), open.clone()]), Outcome::Unknown);
        assert_eq!(overall(&[good, open, Verdict::violated("c", "")]), Outcome::Violated);
    }
}
