//! The install hook of a release runs exactly once on each node.

use crate::check::Verdict;
use crate::history::History;

/// Judges the begins of `install` of the release `ident`.
pub fn check(history: &History, ident: &str, nodes: &[String]) -> Verdict {
    let release = ident.rsplit('/').next().unwrap_or(ident);
    let promise = format!("install of {release} ran exactly once on each node");
    let violations: Vec<String> = nodes
        .iter()
        .map(|node| (node, history.begins("install").filter(|b| b.node == *node && b.ident == ident).count()))
        .filter(|(_, count)| *count != 1)
        .map(|(node, count)| format!("{count} times on {node}"))
        .collect();
    Verdict::from_violations(&promise, format!("{} nodes, {} begins", nodes.len(), nodes.len()), &violations)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome;
    use crate::history::{EventKind, Record};
    use std::time::Duration;

    fn install(node: &str) -> Record {
        let mut record = Record::new(Duration::ZERO, EventKind::Begin, node, "install");
        record.ident = "acme/redis/7/2".into();
        record
    }

    #[test]
    fn a_second_and_a_missing_install_are_seen() {
        let nodes = ["a".to_owned(), "b".to_owned()];
        let judge = |records| check(&History { records }, "acme/redis/7/2", &nodes);
        assert_eq!(judge(vec![install("a"), install("b")]).outcome, Outcome::Held);
        assert_eq!(judge(vec![install("a"), install("b"), install("b")]).evidence, "2 times on b");
        let verdict = judge(vec![install("a")]);
        assert_eq!((verdict.outcome, verdict.evidence.as_str()), (Outcome::Violated, "0 times on b"));
    }
}
