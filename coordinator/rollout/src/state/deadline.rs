//! Deadlines: what happens by itself when cluster time has come.

use bincode::{Decode, Encode};
use rollcall_ident::{ClusterTime, NodeId, RolloutId};

use crate::Map;

/// What is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum DeadlineKey {
    /// The node's health becomes unknown.
    StaleAfter(NodeId),
    /// The node counts as departed.
    LostAfter(NodeId),
    /// The service wasn't ready for too long.
    ReadyTimeout(RolloutId, NodeId),
    /// The drain took too long.
    DrainTimeout(RolloutId, NodeId),
    /// The new process wasn't healthy by then.
    HealthyDeadline(RolloutId, NodeId),
    /// The soak is complete.
    MinHealthyTime(RolloutId, NodeId),
    /// The node was away in its step for too long.
    RebootTimeout(RolloutId, NodeId),
    /// Nothing has moved.
    ProgressDeadline(RolloutId),
}

impl DeadlineKey {
    /// The policy's field that sets it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.into()
    }
}

/// All deadlines, by time and by key.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub(crate) struct Deadlines {
    by_time: Map<(ClusterTime, DeadlineKey), ()>,
    by_key: Map<DeadlineKey, ClusterTime>,
}

impl Deadlines {
    /// Sets or moves it.
    pub fn set(&mut self, key: DeadlineKey, at: ClusterTime) {
        self.clear(&key);
        self.by_key.insert(key, at);
        self.by_time.insert((at, key), ());
    }

    /// Takes it away, if it is set.
    pub fn clear(&mut self, key: &DeadlineKey) {
        if let Some(at) = self.by_key.remove(key) {
            self.by_time.remove(&(at, *key));
        }
    }

    /// When it is due.
    pub fn get(&self, key: &DeadlineKey) -> Option<ClusterTime> {
        self.by_key.get(key).copied()
    }

    /// The next one.
    pub fn next(&self) -> Option<(ClusterTime, DeadlineKey)> {
        self.by_time.keys().next().copied()
    }

    /// Takes the next one that is due at `now`.
    pub fn pop_due(&mut self, now: ClusterTime) -> Option<DeadlineKey> {
        let (at, key) = self.next()?;
        (at <= now).then(|| {
            self.clear(&key);
            key
        })
    }

    /// All of them, for the linter.
    pub fn iter(&self) -> impl Iterator<Item = (ClusterTime, DeadlineKey)> {
        self.by_time.keys().copied()
    }

    /// Whether both views say the same.
    pub fn is_consistent(&self) -> bool {
        self.by_time.len() == self.by_key.len() && self.by_time.keys().all(|(at, key)| self.by_key.get(key) == Some(at))
    }
}
