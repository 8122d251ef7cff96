//! Every member runs the release it should, as its process itself shows from outside.

use std::collections::BTreeMap;

use crate::availability::Look;
use crate::check::Verdict;

/// Judges the latest look at each member.
pub fn check(latest: &BTreeMap<String, Look>, release: &str, member_count: usize) -> Verdict {
    let promise = format!("every node runs {release} and is healthy");
    if latest.len() != member_count {
        return Verdict::unknown(&promise, format!("{} of {member_count} members were seen", latest.len()));
    }
    let violations: Vec<String> = latest
        .iter()
        .filter_map(|(member, look)| match (&look.ailment, look.release.as_deref()) {
            (Some(why), _) => Some(format!("{member}: {why}")),
            (None, Some(runs)) if runs == release => None,
            (None, runs) => Some(format!("{member} runs {}", runs.unwrap_or("nobody knows what"))),
        })
        .collect();
    Verdict::from_violations(&promise, format!("{member_count} of {member_count}"), &violations)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome;

    #[test]
    fn a_member_on_another_release_is_seen() {
        let look = |release: &str| Look { release: Some(release.into()), ..Look::default() };
        let mut latest: BTreeMap<String, Look> = [("a".into(), look("2")), ("b".into(), look("2"))].into();
        assert_eq!(check(&latest, "2", 2).outcome, Outcome::Held);
        assert_eq!(check(&latest, "2", 3).outcome, Outcome::Unknown);
        latest.insert("b".into(), look("1"));
        assert_eq!(check(&latest, "2", 2).evidence, "b runs 1");
        latest.insert("b".into(), Look { ailment: Some("down".into()), ..look("2") });
        assert_eq!(check(&latest, "2", 2).outcome, Outcome::Violated);
    }
}
