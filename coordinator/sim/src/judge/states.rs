//! What peers hold: each applied state is lawful by itself, follows from the one before it, and is the same on all peers.

use std::collections::BTreeMap;
use std::sync::Arc;

use rollcall_codec::{Kind, seal};
use rollcall_rollout::{Phase, State, check};

use super::Violation;

/// The applied states of all peers.
#[derive(Default)]
pub struct States {
    /// By revision, and who showed it first.
    hashes: BTreeMap<u64, (String, String)>,
    last: BTreeMap<String, Arc<State>>,
}

impl States {
    /// A peer shows this state. Its hash, and what is wrong with it.
    pub fn applied(&mut self, peer: &str, state: &Arc<State>) -> (String, Vec<Violation>) {
        let hash = blake3::hash(&seal(Kind::SNAPSHOT, &**state)).to_hex()[..12].to_owned();
        let mut found: Vec<_> = check(state)
            .into_iter()
            .map(|it| Violation::new(it.invariant, format_args!("{peer}: {}", it.detail)))
            .collect();
        if let Some(before) = self.last.insert(peer.to_owned(), state.clone()) {
            found
                .extend(unlawful(&before, state).map(|detail| Violation::new("R12", format_args!("{peer}: {detail}"))));
        }
        let revision = state.revision().0;
        let (known, by) = self.hashes.entry(revision).or_insert_with(|| (hash.clone(), peer.to_owned()));
        if *known != hash {
            let detail = format!("at revision {revision} {by} holds {known}, {peer} holds {hash}");
            found.push(Violation::new("L6", detail));
        }
        (hash, found)
    }

    /// Whether these peers hold the same revision, and no later one was ever seen.
    pub fn agree(&self, peers: &[String]) -> bool {
        let newest = self.hashes.keys().next_back();
        peers.iter().all(|peer| self.last.get(peer).map(|state| state.revision().0).as_ref() == newest)
    }

    /// What a peer shows next may be older than what it showed last.
    pub fn restarted(&mut self, peer: &str) {
        self.last.remove(peer);
    }
}

/// What can't have happened between two states of one peer, if anything.
fn unlawful(before: &State, after: &State) -> Option<String> {
    if after.clock() < before.clock() || after.revision() < before.revision() {
        return Some(format!("time went back from {} to {}", before.revision(), after.revision()));
    }
    for rollout in after.rollouts().values() {
        let Some(earlier) = before.rollouts().get(&rollout.id) else { continue };
        if !earlier.is_active() && earlier.status != rollout.status {
            return Some(format!("{} rose from the dead: {} is {}", rollout.id, earlier.status, rollout.status));
        }
        for step in rollout.steps.values() {
            let Some(was) = earlier.steps.get(&step.node) else { continue };
            if step.fence < was.fence || step.attempt < was.attempt {
                return Some(format!("{} {}: its fence or attempt fell", rollout.id, step.node));
            }
            let stood_still = step.fence == was.fence && !was.phase.holds_token() && was.phase != Phase::Failed;
            if step.phase.holds_token() && stood_still {
                return Some(format!("{} {} is {} without a grant", rollout.id, step.node, step.phase));
            }
        }
    }
    None
}
