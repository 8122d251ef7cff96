//! What is due when: by time, to fire it, and by key, to move it.

use bincode::{Decode, Encode};

use crate::Map;

/// Things that are due, each under a key of its own.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Agenda<T: Ord + Copy, K: Ord + Clone> {
    by_time: Map<(T, K), ()>,
    by_key: Map<K, T>,
}

impl<T: Ord + Copy, K: Ord + Clone> Default for Agenda<T, K> {
    fn default() -> Self {
        Self { by_time: Map::default(), by_key: Map::default() }
    }
}

impl<T: Ord + Copy, K: Ord + Clone> Agenda<T, K> {
    /// Sets or moves it.
    pub fn set(&mut self, key: K, at: T) {
        self.clear(&key);
        self.by_key.insert(key.clone(), at);
        self.by_time.insert((at, key), ());
    }

    /// Sets, moves or takes it away; nothing is written where it stands so already.
    pub fn put(&mut self, key: K, at: Option<T>) {
        match at {
            at if self.get(&key) == at => {}
            Some(at) => self.set(key, at),
            None => self.clear(&key),
        }
    }

    /// Takes it away, if it is set.
    pub fn clear(&mut self, key: &K) {
        if let Some(at) = self.by_key.remove(key) {
            self.by_time.remove(&(at, key.clone()));
        }
    }

    /// When it is due.
    pub fn get(&self, key: &K) -> Option<T> {
        self.by_key.get(key).copied()
    }

    /// The next one.
    pub fn next(&self) -> Option<&(T, K)> {
        self.by_time.first().map(|(key, ())| key)
    }

    /// Takes the next one that is due at `now`.
    pub fn pop_due(&mut self, now: T) -> Option<K> {
        let (at, key) = self.next()?.clone();
        (at <= now).then(|| {
            self.clear(&key);
            key
        })
    }

    /// The first one whose key lies in `range`.
    pub fn first_in(&self, range: impl std::ops::RangeBounds<K>) -> Option<&K> {
        self.by_key.range(range).next().map(|(key, _)| key)
    }

    /// All of them, for the linter.
    pub fn iter(&self) -> impl Iterator<Item = &(T, K)> {
        self.by_time.keys()
    }

    /// Whether both views say the same.
    pub fn is_consistent(&self) -> bool {
        self.by_time.len() == self.by_key.len() && self.by_time.keys().all(|(at, key)| self.by_key.get(key) == Some(at))
    }
}
