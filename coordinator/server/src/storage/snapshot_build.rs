//! Building a snapshot: from a copy of the state, beside the path on which entries are applied.

use rollcall_ident::Revision;
use rollcall_rollout::State;

use super::error::StorageError;
use super::history::{History, HistoryError, MAX_PAGE_RECORDS};
use super::snapshot_file::{HeadV1, SnapshotWriter};
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
    pub(super) fn new(view: AppliedState, history: History, snapshots: SnapshotStore) -> Self {
        Self { view, history, snapshots }
    }

    /// Writes the snapshot and makes it the current one. Blocks.
    pub(super) fn build(&self) -> Result<Snapshot, StorageError> {
        let head = HeadV1 {
            last_log_id: self.view.last_applied.as_ref().map(Into::into),
            membership: (&self.view.membership).into(),
        };
        let (mut writer, path) = self.snapshots.create(head, State::clone(&self.view.state))?;
        let floor = self.copy_history(&mut writer)?;
        writer.finish(floor)?;
        self.snapshots.publish(self.view.meta(), &path)
    }

    /// Copies the history up to this view, and tells after which revision the copy is complete.
    fn copy_history(&self, writer: &mut SnapshotWriter) -> Result<Revision, StorageError> {
        let last = self.view.revision();
        let mut floor = self.history.bounds().floor;
        let mut next = Revision(floor.0 + 1);
        while next <= last {
            match self.history.read_blocking(next, MAX_PAGE_RECORDS) {
                Ok(page) if page.applied < last => return Ok(last),
                Ok(page) => {
                    next = page.next;
                    let records: Vec<_> = page.records.into_iter().filter(|record| record.revision <= last).collect();
                    if !records.is_empty() {
                        writer.page(records)?;
                    }
                }
                // Trimmed while it is read: the copy is complete from here on only.
                Err(HistoryError::Compacted { floor: trimmed }) => {
                    floor = trimmed;
                    next = Revision(floor.0 + 1);
                }
                // A snapshot without history is a snapshot; its readers are told that there is none.
                Err(HistoryError::Unavailable { .. }) => return Ok(last),
            }
        }
        Ok(floor.min(last))
    }
}
