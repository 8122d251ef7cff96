//! Walking along the audit chain over records that come from a disk.

use rollcall_ident::Revision;
use rollcall_rollout::{ChainHead, ChainedRecord};

/// The chain over the records taken so far. INVARIANT I-18: each of them is what was chained, and follows the one before.
#[derive(Debug, Default)]
pub(super) struct ChainWalk {
    /// Where it begins, and where it stands.
    ends: Option<(ChainHead, ChainHead)>,
}

impl ChainWalk {
    /// Goes on by a record.
    ///
    /// # Errors
    /// The record's revision, where it isn't what was chained. The walk then begins anew behind it.
    pub(super) fn take(&mut self, record: &ChainedRecord) -> Result<(), Revision> {
        let (anchor, head) = self.ends.unwrap_or((record.previous, record.previous));
        if record.previous == head && record.is_sound() {
            self.ends = Some((anchor, record.head()));
            return Ok(());
        }
        self.ends = Some((record.head(), record.head()));
        Err(record.record.revision)
    }

    /// Where the chain of the records begins, given where the replicated state says that it ends.
    ///
    /// # Errors
    /// The revision of the last record, where it ends elsewhere.
    pub(super) fn anchor(&self, end: ChainHead) -> Result<ChainHead, Revision> {
        match self.ends {
            None => Ok(end),
            Some((anchor, head)) if head == end => Ok(anchor),
            Some((_, head)) => Err(head.revision),
        }
    }
}
