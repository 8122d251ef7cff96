//! Watches everything from outside, and stops the run at the first thing that must not happen.
//!
//! It is the only clock, and nothing of the product is asked for a verdict: what hooks did is told by the hooks, what peers
//! hold is compared between them, and what was acknowledged is looked for again.

mod pledges;
mod states;
mod trail;
mod trail_state;
mod witness;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rollcall_ident::Revision;
use rollcall_rollout::{ChainedRecord, Event, Phase, State};
use rollcall_steps::Hook;

pub use pledges::Pledges;
pub use states::States;
pub use trail::{Limits, Trail};
pub use witness::{Begin, Witness};

use crate::trace::Trace;

/// Something that must not happen, and happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The rule: an invariant's number, or that of an observation from outside (`docs/testing.md`).
    pub rule: String,
    /// What broke it.
    pub detail: String,
}

impl Violation {
    /// Of this rule.
    pub fn new(rule: &str, detail: impl fmt::Display) -> Self {
        Self { rule: rule.to_owned(), detail: detail.to_string() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.detail)
    }
}

/// A handle on the judge of one run.
#[derive(Clone)]
pub struct Judge {
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    at_ms: u64,
    trace: Trace,
    verdict: Option<Violation>,
    witness: Witness,
    states: States,
    pledges: Pledges,
    trail: Trail,
    /// Up to where the trace tells what the log says.
    told: Revision,
    leader: Option<String>,
    counts: BTreeMap<&'static str, u64>,
}

impl Judge {
    /// A judge who writes down what happens, and knows what the group's policy allows.
    #[must_use]
    pub fn new(trace: Trace, limits: Limits) -> Self {
        let inner = Inner {
            at_ms: 0,
            trace,
            verdict: None,
            witness: Witness::new(limits.max_unavailable),
            states: States::default(),
            pledges: Pledges::default(),
            trail: Trail::new(limits),
            told: Revision(0),
            leader: None,
            counts: BTreeMap::new(),
        };
        Self { inner: Arc::new(Mutex::new(inner)) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Time has come to this.
    pub fn advance(&self, at_ms: u64) {
        self.lock().at_ms = at_ms;
    }

    /// What time it is.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.lock().at_ms
    }

    /// Writes into the trace.
    pub fn note(&self, who: &str, what: impl fmt::Display) {
        let mut inner = self.lock();
        let at_ms = inner.at_ms;
        inner.trace.note(at_ms, who, what);
    }

    /// Counts something, as evidence of what the run has seen.
    pub fn count(&self, what: &'static str) {
        *self.lock().counts.entry(what).or_default() += 1;
    }

    /// What was counted.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.lock().counts.clone()
    }

    /// The first violation counts; what follows may follow from it.
    pub fn accuse(&self, violation: Violation) {
        let mut inner = self.lock();
        if inner.verdict.is_none() {
            let at_ms = inner.at_ms;
            inner.trace.note(at_ms, "!!", &violation);
            inner.verdict = Some(violation);
        }
    }

    /// The violation, once there is one.
    #[must_use]
    pub fn verdict(&self) -> Option<Violation> {
        self.lock().verdict.clone()
    }

    /// Length and digest of the trace.
    #[must_use]
    pub fn trace(&self) -> (u64, String) {
        let inner = self.lock();
        (inner.trace.count(), inner.trace.digest())
    }

    /// Lets the witness see something; what it says against it is a violation.
    pub fn witness(&self, see: impl FnOnce(&mut Witness, u64) -> Option<Violation>) {
        let found = {
            let mut inner = self.lock();
            let at_ms = inner.at_ms;
            see(&mut inner.witness, at_ms)
        };
        found.into_iter().for_each(|violation| self.accuse(violation));
    }

    /// Who has begun which hook since this was asked last.
    #[must_use]
    pub fn fresh_hooks(&self) -> Vec<(String, Hook)> {
        self.lock().witness.take_fresh()
    }

    /// A peer shows this state.
    pub fn applied(&self, peer: &str, state: &Arc<State>) {
        let found = {
            let mut inner = self.lock();
            let (hash, found) = inner.states.applied(peer, state);
            let at_ms = inner.at_ms;
            let revision = state.revision();
            inner.trace.note(at_ms, peer, format_args!("applied {revision} {hash}"));
            inner.witness.granted(state);
            found
        };
        found.into_iter().for_each(|violation| self.accuse(violation));
    }

    /// Whether these peers hold the same revision, the newest that was seen.
    #[must_use]
    pub fn agree(&self, peers: &[String]) -> bool {
        self.lock().states.agree(peers)
    }

    /// A peer has begun anew: what it shows next may be older.
    pub fn restarted(&self, peer: &str) {
        self.lock().states.restarted(peer);
    }

    /// A peer's history holds this record.
    pub fn recorded(&self, peer: &str, record: &ChainedRecord) {
        let found = {
            let Inner { at_ms, trace, told, pledges, trail, witness, .. } = &mut *self.lock();
            let revision = record.record.revision;
            if *told < revision {
                *told = revision;
                let actor = &record.record.actor.0;
                for event in &record.record.events {
                    trace.note(*at_ms, "log", format_args!("{revision} {actor}: {event}"));
                    if let Event::StepEntered { name, phase: Phase::Stopping, .. } = event {
                        witness.let_go(name.as_str(), *at_ms);
                    }
                }
            }
            let mut found = trail.shown(record, witness);
            trail.take_given_back().into_iter().for_each(|fence| witness.given_back(fence));
            found.extend(pledges.recorded(peer, record));
            found
        };
        found.into_iter().for_each(|violation| self.accuse(violation));
    }

    /// A peer leads, or doesn't any more.
    pub fn leads(&self, peer: &str, leads: bool) {
        let mut inner = self.lock();
        match leads {
            true => inner.leader = Some(peer.to_owned()),
            false if inner.leader.as_deref() == Some(peer) => inner.leader = None,
            false => {}
        }
    }

    /// The peer that began to lead last, if it still does.
    #[must_use]
    pub fn leader(&self) -> Option<String> {
        self.lock().leader.clone()
    }

    /// Records of the history that couldn't be judged, as the one before them was never shown.
    #[must_use]
    pub fn unread(&self) -> usize {
        self.lock().trail.missing()
    }

    /// What operators were promised.
    pub fn pledge<T>(&self, give: impl FnOnce(&mut Pledges) -> T) -> T {
        give(&mut self.lock().pledges)
    }
}
