//! A snapshot for somebody outside: of what this peer has applied, written while it goes on applying.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use rollcall_ident::Revision;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout_at};

use super::consensus::Consensus;
use crate::storage::{SnapshotBuilder, SnapshotFile};
use crate::world::off_the_runtime;

/// Why there is no snapshot.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// BOUND: one at a time: each takes the disk's space for the state and its history once more.
    #[error("this peer writes a snapshot for somebody else already; ask another peer, or again in a few seconds")]
    Busy,
    /// The history follows the state a moment later, and didn't.
    #[error("the event history of this peer doesn't get to revision {wanted} in time; ask another peer")]
    HistoryBehind {
        /// What the snapshot would cover.
        wanted: Revision,
    },
    /// The disk doesn't take it.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The right to write one.
pub struct ExportTurn {
    consensus: Consensus,
    permit: OwnedSemaphorePermit,
}

/// A snapshot that was written. Its file is gone with it.
pub struct Export {
    /// Everything up to it is in the snapshot.
    pub revision: Revision,
    file: SnapshotFile,
    _permit: OwnedSemaphorePermit,
}

impl Consensus {
    /// Asks to write a snapshot.
    ///
    /// # Errors
    /// [`ExportError::Busy`].
    pub fn export_turn(&self) -> Result<ExportTurn, ExportError> {
        let permit = Arc::clone(&self.inner.exporting).try_acquire_owned().map_err(|_| ExportError::Busy)?;
        Ok(ExportTurn { consensus: self.clone(), permit })
    }
}

impl ExportTurn {
    /// Writes all that is applied on this peer now.
    ///
    /// # Errors
    /// [`ExportError`] says why not.
    pub async fn write(self, deadline: Instant) -> Result<Export, ExportError> {
        let inner = &self.consensus.inner;
        let view = inner.applied.borrow().clone();
        let revision = view.revision();
        let mut bounds = inner.history.subscribe();
        let recorded = bounds.wait_for(|bounds| bounds.applied >= revision);
        if !matches!(timeout_at(deadline, recorded).await, Ok(Ok(_))) {
            return Err(ExportError::HistoryBehind { wanted: revision });
        }
        let builder = SnapshotBuilder::new(view, inner.history.clone(), inner.snapshots.clone());
        let written = off_the_runtime(move || builder.export()).await.map_err(io::Error::other)?;
        Ok(Export { revision, file: written.map_err(io::Error::from)?, _permit: self.permit })
    }
}

impl Export {
    /// How large it is.
    pub fn bytes(&self) -> u64 {
        self.file.bytes()
    }

    /// Up to `max` bytes from `offset`; empty at its end.
    ///
    /// # Errors
    /// What the system says.
    pub async fn read_chunk(&self, offset: u64, max: usize) -> io::Result<Bytes> {
        self.file.read_chunk(offset, max).await
    }
}
