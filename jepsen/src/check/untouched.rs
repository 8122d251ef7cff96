//! A rollout that fails at its first node leaves the others alone: the same processes run on.

use std::collections::{BTreeMap, BTreeSet};

use crate::availability::Look;
use crate::check::Verdict;
use crate::history::History;

/// Judges who was disturbed on the way to `target`: by the witness, and by the processes before and after.
pub fn check(
    history: &History,
    target: &str,
    before: &BTreeMap<String, Look>,
    after: &BTreeMap<String, Look>,
) -> Verdict {
    let promise = format!("paused after its first node, the other {} untouched", before.len().saturating_sub(1));
    let disturbing = ["drain", "pre-stop", "post-stop", "install", "run"];
    let touched: BTreeSet<&str> = history
        .records
        .iter()
        .filter(|record| record.to == target || record.ident == target)
        .filter(|record| disturbing.contains(&record.hook.as_str()))
        .map(|record| record.node.as_str())
        .collect();
    if touched.len() != 1 {
        let names: Vec<&str> = touched.into_iter().collect();
        return Verdict::violated(&promise, format!("touched: {}", names.join(" ")));
    }
    let violations: Vec<String> = before
        .iter()
        .filter(|(member, _)| !touched.contains(member.as_str()))
        .filter(|(member, look)| {
            let now = after.get(*member);
            look.pid.is_none() || now.is_none_or(|now| now.pid != look.pid || now.ailment.is_some())
        })
        .map(|(member, _)| format!("{member} is not the healthy process that it was"))
        .collect();
    Verdict::from_violations(&promise, format!("{} only", touched.into_iter().collect::<String>()), &violations)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome;
    use crate::history::{EventKind, Record};
    use std::time::Duration;

    fn drain(node: &str) -> Record {
        let mut record = Record::new(Duration::ZERO, EventKind::Begin, node, "drain");
        record.to = "r3".into();
        record
    }

    fn looks(pids: [u32; 2]) -> BTreeMap<String, Look> {
        let look = |pid| Look { pid: Some(pid), ..Look::default() };
        [("a".to_owned(), look(pids[0])), ("b".to_owned(), look(pids[1]))].into()
    }

    #[test]
    fn a_second_node_that_was_touched_is_seen() {
        let judge = |records, after| check(&History { records }, "r3", &looks([1, 2]), &after).outcome;
        assert_eq!(judge(vec![drain("a")], looks([9, 2])), Outcome::Held);
        assert_eq!(judge(vec![drain("a"), drain("b")], looks([9, 2])), Outcome::Violated);
        assert_eq!(judge(vec![drain("a")], looks([9, 3])), Outcome::Violated);
        assert_eq!(judge(vec![], looks([1, 2])), Outcome::Violated);
    }
}
