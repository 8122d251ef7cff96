//! R1: never more members not healthy at once than the budget allows.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::availability::Outage;
use crate::check::Verdict;

/// Fewer looks at a member than this prove nothing.
const LEAST_LOOKS: u64 = 20;

/// The most members that were not healthy at one moment, and which.
pub fn widest(outages: &[Outage]) -> (usize, Vec<String>, Option<Duration>) {
    let mut edges: Vec<(Duration, bool, &str)> = Vec::new();
    for outage in outages {
        edges.push((outage.from, true, &outage.member));
        if let Some(to) = outage.to {
            edges.push((to, false, &outage.member));
        }
    }
    // Where one ends at the very moment at which another begins, they did not overlap.
    edges.sort_by_key(|(at, begins, _)| (*at, *begins));
    let (mut down, mut most) = (BTreeSet::new(), (0, Vec::new(), None));
    for (at, begins, member) in edges {
        if begins {
            down.insert(member);
        } else {
            down.remove(member);
        }
        if down.len() > most.0 {
            most = (down.len(), down.iter().map(|member| (*member).to_owned()).collect(), Some(at));
        }
    }
    most
}

/// `least_looks` is how often the least-watched member was looked at.
pub fn check(outages: &[Outage], least_looks: u64, budget: usize) -> Verdict {
    let promise = format!("at most {budget} member not healthy at any moment");
    if least_looks < LEAST_LOOKS {
        return Verdict::unknown(&promise, format!("a member was looked at {least_looks} times only"));
    }
    let (count, members, at) = widest(outages);
    if count > budget {
        let at = at.unwrap_or_default();
        return Verdict::violated(&promise, format!("{count} at {:.2} s: {}", at.as_secs_f64(), members.join(", ")));
    }
    Verdict::held(&promise, format!("at most {count}, each member looked at {least_looks} times or more"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome;

    fn outage(member: &str, from: u64, to: u64) -> Outage {
        let (from, to) = (Duration::from_millis(from), Some(Duration::from_millis(to)));
        Outage { member: member.into(), from, to, why: String::new() }
    }

    #[test]
    fn one_after_the_other_is_fine() {
        assert_eq!(check(&[outage("a", 0, 100), outage("b", 100, 200)], 100, 1).outcome, Outcome::Held);
    }

    #[test]
    fn two_down_at_once_are_seen() {
        let verdict = check(&[outage("a", 0, 101), outage("b", 100, 200)], 100, 1);
        assert_eq!(verdict.outcome, Outcome::Violated);
        assert!(verdict.evidence.contains("a, b"), "{}", verdict.evidence);
    }

    #[test]
    fn an_outage_without_an_end_counts_until_the_end() {
        let lasting = Outage { to: None, ..outage("a", 0, 0) };
        assert_eq!(check(&[lasting, outage("b", 900, 950)], 100, 1).outcome, Outcome::Violated);
    }

    #[test]
    fn without_looks_nothing_is_known() {
        assert_eq!(check(&[], 3, 1).outcome, Outcome::Unknown);
    }
}
