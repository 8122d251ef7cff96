//! The service is started once on each node, and once more only where its process had been killed.

use crate::check::Verdict;
use crate::history::History;

const PROMISE: &str = "run once per node, once more only where it was killed";

/// Judges the begins of `run` of the release `ident`.
pub fn check(history: &History, ident: &str, nodes: &[String]) -> Verdict {
    let mut violations = Vec::new();
    let mut again = Vec::new();
    for node in nodes {
        let mut begins = history.begins("run").filter(|begin| begin.node == *node && begin.ident == ident);
        let Some(mut before) = begins.next() else {
            violations.push(format!("never on {node}"));
            continue;
        };
        for begin in begins {
            let killed = history.service_kills(node).any(|kill| kill.at > before.at && kill.at < begin.at);
            if killed {
                again.push(node.as_str());
            } else {
                violations.push(format!("again on {node}, which nobody had killed"));
            }
            before = begin;
        }
    }
    let evidence = if again.is_empty() { "once everywhere".into() } else { format!("again on {}", again.join(" ")) };
    Verdict::from_violations(PROMISE, evidence, &violations)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome;
    use crate::history::{EventKind, Record};
    use std::time::Duration;

    #[test]
    fn a_start_without_a_kill_before_it_is_seen() {
        let run = |ms| {
            let mut record = Record::new(Duration::from_millis(ms), EventKind::Begin, "a", "run");
            record.ident = "r2".into();
            record
        };
        let kill = |what| Record::new(Duration::from_millis(2), EventKind::Killed, "a", what);
        let judge = |records| check(&History { records }, "r2", &["a".to_owned()]).outcome;
        assert_eq!(judge(vec![run(1)]), Outcome::Held);
        assert_eq!(judge(vec![run(1), kill("all"), run(3)]), Outcome::Held);
        assert_eq!(judge(vec![run(1), run(3)]), Outcome::Violated);
        assert_eq!(judge(vec![run(1), kill("agent"), run(3)]), Outcome::Violated);
        assert_eq!(judge(vec![run(1), kill("all"), run(3), run(4)]), Outcome::Violated);
        assert_eq!(judge(vec![]), Outcome::Violated);
    }
}
