//! Since when each member is, and was, not healthy, and which role and release it had, as seen from outside.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// One look at one member.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Look {
    /// Why it isn't healthy; `None`: it is.
    pub ailment: Option<String>,
    /// Whether it is a primary; `None`: it could not be told.
    pub primary: Option<bool>,
    /// The release that it was started from, where it could be told.
    pub release: Option<String>,
    /// Its process, where it could be told.
    pub pid: Option<u32>,
}

/// A time in which a member was not healthy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outage {
    /// Whose.
    pub member: String,
    /// The first bad look.
    pub from: Duration,
    /// The first good look after it; `None`: it lasts.
    pub to: Option<Duration>,
    /// What the first bad look said.
    pub why: String,
}

/// All that was seen.
#[derive(Debug, Clone, Default)]
pub struct Availability {
    /// How often each member was looked at.
    pub looks: BTreeMap<String, u64>,
    /// In the order of their beginnings.
    pub outages: Vec<Outage>,
    /// Changes of role, in order.
    pub roles: Vec<(Duration, String, bool)>,
    /// The latest look at each member; role, release and process stay as last told.
    pub latest: BTreeMap<String, Look>,
}

impl Availability {
    /// Adds a look that was finished at `at`.
    pub fn add(&mut self, at: Duration, member: &str, look: Look) {
        *self.looks.entry(member.to_owned()).or_default() += 1;
        let open = self.outages.iter_mut().rev().find(|outage| outage.member == member && outage.to.is_none());
        match (&look.ailment, open) {
            (Some(why), None) => {
                self.outages.push(Outage { member: member.to_owned(), from: at, to: None, why: why.clone() });
            }
            (None, Some(outage)) => outage.to = Some(at),
            (Some(_), Some(_)) | (None, None) => {}
        }
        let latest = self.latest.entry(member.to_owned()).or_default();
        if let Some(primary) = look.primary
            && latest.primary != Some(primary)
        {
            self.roles.push((at, member.to_owned(), primary));
        }
        *latest = Look {
            ailment: look.ailment,
            primary: look.primary.or(latest.primary),
            release: look.release.or_else(|| latest.release.take()),
            pid: look.pid.or(latest.pid),
        };
    }

    /// Whether the member was a primary at that time, as last seen before it.
    pub fn was_primary(&self, member: &str, at: Duration) -> Option<bool> {
        self.roles.iter().rev().find(|(when, whose, _)| whose == member && *when <= at).map(|(_, _, primary)| *primary)
    }

    /// Members that are healthy now.
    pub fn healthy_count(&self) -> usize {
        self.latest.values().filter(|look| look.ailment.is_none()).count()
    }

    /// Outages that touch the time from `from` on.
    pub fn outages_since(&self, from: Duration) -> Vec<Outage> {
        self.outages.iter().filter(|outage| outage.to.is_none_or(|to| to > from)).cloned().collect()
    }
}

/// What samplers write and everybody reads.
#[derive(Debug, Clone, Default)]
pub struct SharedAvailability(Arc<Mutex<Availability>>);

impl SharedAvailability {
    /// Adds a look.
    pub fn add(&self, at: Duration, member: &str, look: Look) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).add(at, member, look);
    }

    /// Asks for something without a copy of it all.
    pub fn ask<T>(&self, question: impl FnOnce(&Availability) -> T) -> T {
        question(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// All that was seen so far.
    pub fn snapshot(&self) -> Availability {
        self.ask(Clone::clone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bad() -> Look {
        Look { ailment: Some("does not answer".into()), ..Look::default() }
    }

    #[test]
    fn an_outage_lasts_from_the_first_bad_to_the_first_good_look() {
        let mut seen = Availability::default();
        let at = Duration::from_millis;
        for (ms, look) in [(0, Look::default()), (50, bad()), (100, bad()), (150, Look::default()), (200, bad())] {
            seen.add(at(ms), "a", look);
        }
        let spans: Vec<_> = seen.outages.iter().map(|outage| (outage.from, outage.to)).collect();
        assert_eq!(spans, [(at(50), Some(at(150))), (at(200), None)]);
        assert_eq!(seen.outages_since(at(160)).len(), 1);
    }

    #[test]
    fn a_role_holds_until_another_one_is_seen() {
        let mut seen = Availability::default();
        let role = |primary| Look { primary: Some(primary), ..Look::default() };
        seen.add(Duration::from_secs(1), "a", role(true));
        seen.add(Duration::from_secs(2), "a", bad());
        seen.add(Duration::from_secs(3), "a", role(false));
        assert_eq!(seen.was_primary("a", Duration::from_millis(500)), None);
        assert_eq!(seen.was_primary("a", Duration::from_millis(2_500)), Some(true));
        assert_eq!(seen.was_primary("a", Duration::from_secs(3)), Some(false));
    }
}
