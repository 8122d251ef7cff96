//! Building a snapshot: from a copy of the state, beside the path on which entries are applied.

use rollcall_ident::Revision;
use rollcall_rollout::{ChainHead, ChainedRecord, State};

use super::chain::ChainWalk;
use super::error::StorageError;
use super::history::{History, HistoryError, MAX_PAGE_RECORDS};
use super::snapshot_file::{HeadV1, SnapshotFile, SnapshotWriter};
use super::snapshot_store::SnapshotStore;
use super::state_machine::AppliedState;
use super::types::Snapshot;

/// A view of the state at one moment, to be written as a snapshot.
#[derive(Debug, Clone)]
pub struct SnapshotBuilder {
    view: AppliedState,
    history: History,
    snapshots: SnapshotStore,
}

impl SnapshotBuilder {
    /// Of `view`, whose events are in `history`.
    pub fn new(view: AppliedState, history: History, snapshots: SnapshotStore) -> Self {
        Self { view, history, snapshots }
    }

    /// Writes the snapshot and makes it the current one. Blocks.
    pub(super) fn build(&self) -> Result<Snapshot, StorageError> {
        let (mut writer, path) = self.snapshots.create(head_of(&self.view), State::clone(&self.view.state))?;
        let Copied { floor, anchor } = self.copy_history(&mut writer)?;
        writer.finish(floor, anchor)?;
        self.snapshots.publish(self.view.meta(), &path)
    }

    /// Writes the snapshot into a file that is gone with its last handle, and leaves the current one alone. Blocks.
    ///
    /// # Errors
    /// What the system says.
    pub fn export(&self) -> Result<SnapshotFile, StorageError> {
        let path = self.snapshots.export_path();
        let mut writer = SnapshotWriter::create(&path, head_of(&self.view), State::clone(&self.view.state))?;
        let unfinished = SnapshotFile::open_unfinished(&path)?;
        let Copied { floor, anchor } = self.copy_history(&mut writer)?;
        writer.finish(floor, anchor)?;
        unfinished.reopened()
    }

    /// Writes into `to` the snapshot of what succeeds this view: `records` is what happened between the two. Blocks.
    pub(super) fn build_successor(
        &self,
        to: &SnapshotStore,
        successor: &AppliedState,
        records: Vec<ChainedRecord>,
    ) -> Result<Snapshot, StorageError> {
        let (mut writer, path) = to.create(head_of(successor), State::clone(&successor.state))?;
        let Copied { floor, anchor } = self.copy_history(&mut writer)?;
        for page in records.chunks(MAX_PAGE_RECORDS) {
            writer.page(page.to_vec())?;
        }
        writer.finish(floor, anchor)?;
        to.publish(successor.meta(), &path)
    }

    /// Copies the history up to this view.
    fn copy_history(&self, writer: &mut SnapshotWriter) -> Result<Copied, StorageError> {
        let last = self.view.revision();
        let nothing = Copied { floor: last, anchor: self.view.state.audit_head() };
        let mut floor = self.history.bounds().floor;
        let mut chain = ChainWalk::default();
        let mut next = Revision(floor.0 + 1);
        while next <= last {
            match self.history.read_blocking(next, MAX_PAGE_RECORDS) {
                Ok(page) if page.applied < last => return Ok(nothing),
                Ok(page) => {
                    next = page.next;
                    let records: Vec<_> =
                        page.records.into_iter().filter(|record| record.record.revision <= last).collect();
                    // INVARIANT I-18: only what leads to the head in the state travels on.
                    for broken in records.iter().filter_map(|record| chain.take(record).err()) {
                        warn_of_broken_chain(broken);
                        floor = broken;
                    }
                    if !records.is_empty() {
                        writer.page(records)?;
                    }
                }
                // Trimmed while it is read: the copy is complete from here on only.
                Err(HistoryError::Compacted { floor: trimmed }) => {
                    floor = trimmed;
                    chain = ChainWalk::default();
                    next = Revision(floor.0 + 1);
                }
                // A snapshot without history is a snapshot; its readers are told that there is none.
                Err(HistoryError::Unavailable { .. }) => return Ok(nothing),
            }
        }
        match chain.anchor(nothing.anchor) {
            Ok(anchor) => Ok(Copied { floor: floor.min(last), anchor }),
            Err(broken) => {
                warn_of_broken_chain(broken);
                Ok(nothing)
            }
        }
    }
}

fn head_of(view: &AppliedState) -> HeadV1 {
    HeadV1 { last_log_id: view.last_applied.as_ref().map(Into::into), membership: (&view.membership).into() }
}

/// After which revision the copy of the history is complete, and where the audit chain stands before its first record.
struct Copied {
    floor: Revision,
    anchor: ChainHead,
}

fn warn_of_broken_chain(revision: Revision) {
    tracing::error!(
        revision = revision.0,
        "the event history on this disk was changed at revision {revision}: snapshots don't carry it. `rollcall audit \
         --verify` with all peers as endpoints says which copies are whole; this one is filled again if the peer is \
         stopped, its `history` folder moved away, and the peer started"
    );
}
