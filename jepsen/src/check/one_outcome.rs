//! Exactly one recorded outcome per step: each member of a rollout ended once, and well. A step that a halt turns back
//! before anything was disturbed has not ended: it is granted anew, as another attempt.

use rollcall_proto::v1::{Phase, Rollout};

use crate::check::Verdict;

const PROMISE: &str = "one recorded outcome per step";

/// Judges a rollout that should have brought all of `nodes` to its target.
pub fn check(rollout: &Rollout, nodes: &[String]) -> Verdict {
    let mut violations = Vec::new();
    for node in nodes {
        let steps: Vec<_> = rollout.steps.iter().filter(|step| step.node_name == *node).collect();
        let [step] = steps.as_slice() else {
            violations.push(format!("{node} has {} steps", steps.len()));
            continue;
        };
        let is_end = |phase: Phase| matches!(phase, Phase::Succeeded | Phase::Failed | Phase::Skipped);
        let ends: Vec<Phase> = step.history.iter().map(|time| time.phase()).filter(|phase| is_end(*phase)).collect();
        if ends != [Phase::Succeeded] {
            violations.push(format!("{node}: {ends:?} in attempt {}", step.attempt));
        }
    }
    Verdict::from_violations(PROMISE, format!("{} steps, each ended once and well", nodes.len()), &violations)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome;
    use rollcall_proto::v1::{PhaseTime, Step};

    fn rollout(phases: &[Phase], attempt: u32) -> Rollout {
        let history = phases.iter().map(|phase| PhaseTime { phase: (*phase).into(), attempt, entered_at: None });
        let step = Step { node_name: "a".into(), attempt, history: history.collect(), ..Default::default() };
        Rollout { steps: vec![step], ..Default::default() }
    }

    #[test]
    fn a_second_outcome_and_none_are_seen() {
        let nodes = ["a".to_owned()];
        let judge = |phases: &[Phase], attempt| check(&rollout(phases, attempt), &nodes).outcome;
        assert_eq!(judge(&[Phase::Verifying, Phase::Succeeded], 1), Outcome::Held);
        assert_eq!(judge(&[Phase::Verifying], 1), Outcome::Violated);
        assert_eq!(judge(&[Phase::Succeeded, Phase::Granted, Phase::Succeeded], 1), Outcome::Violated);
        assert_eq!(judge(&[Phase::Failed, Phase::Succeeded], 1), Outcome::Violated);
        assert_eq!(judge(&[Phase::Draining, Phase::Queued, Phase::Succeeded], 2), Outcome::Held);
        assert_eq!(check(&rollout(&[], 1), &["a".to_owned(), "b".to_owned()]).outcome, Outcome::Violated);
    }
}
