//! What a disk refuses while it is ill: nothing, whatever needs room, or whatever is to be written.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// Why it refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Illness {
    /// ENOSPC: there is no room for anything new. What is there can be synced.
    FullDisk,
    /// EIO: nothing can be written any more.
    BadDisk,
}

/// What is asked of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// A new file, folder or link.
    Create,
    /// Bytes.
    Write,
    /// Durability.
    Sync,
}

/// The state of one disk's health, and how often it showed.
#[derive(Debug, Default)]
pub struct Ailment {
    illness: AtomicU8,
    refused_count: AtomicU64,
}

impl Ailment {
    /// It falls ill, or with `None` is well again.
    pub fn set(&self, illness: Option<Illness>) {
        let number = match illness {
            None => 0,
            Some(Illness::FullDisk) => 1,
            Some(Illness::BadDisk) => 2,
        };
        self.illness.store(number, Ordering::SeqCst);
    }

    /// Whether it is ill.
    pub fn is_ill(&self) -> bool {
        self.illness.load(Ordering::SeqCst) != 0
    }

    /// How many calls it has refused in its life.
    pub fn refused_count(&self) -> u64 {
        self.refused_count.load(Ordering::SeqCst)
    }

    /// Why it refuses such a call now, which is counted.
    pub(crate) fn refuses(&self, call: Call) -> Option<Illness> {
        let illness = match (self.illness.load(Ordering::SeqCst), call) {
            (1, Call::Create | Call::Write) => Illness::FullDisk,
            (2, Call::Create | Call::Write | Call::Sync) => Illness::BadDisk,
            _ => return None,
        };
        self.refused_count.fetch_add(1, Ordering::SeqCst);
        Some(illness)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_still_syncs_and_a_bad_one_does_nothing() {
        let ailment = Ailment::default();
        assert_eq!((ailment.refuses(Call::Write), ailment.is_ill()), (None, false));
        ailment.set(Some(Illness::FullDisk));
        assert_eq!((ailment.refuses(Call::Create), ailment.refuses(Call::Sync)), (Some(Illness::FullDisk), None));
        ailment.set(Some(Illness::BadDisk));
        assert_eq!((ailment.refuses(Call::Sync), ailment.is_ill()), (Some(Illness::BadDisk), true));
        ailment.set(None);
        assert_eq!((ailment.refuses(Call::Sync), ailment.refused_count()), (None, 2));
    }
}
