//! openraft's own suite for storage, against ours.

use openraft::StorageError;
use openraft::testing::log::{StoreBuilder, Suite};
use rollcall_coordinator::storage::types::TypeConfig;
use rollcall_coordinator::storage::{DataDir, LogStore, Sizes, StateMachine, Storage};

use crate::storage_support::folder::scratch;

struct Builder;

/// The folder and its lock live as long as the stores.
struct Guard {
    _dir: DataDir,
    _folder: tempfile::TempDir,
}

impl StoreBuilder<TypeConfig, LogStore, StateMachine, Guard> for Builder {
    async fn build(&self) -> Result<(Guard, LogStore, StateMachine), StorageError<TypeConfig>> {
        let folder = scratch();
        let dir = DataDir::lock(folder.path()).unwrap();
        // Files of a few records: rotation and removal take part.
        let storage = Storage::open(&dir, Sizes { log_chunk_bytes: 512, ..Sizes::default() }).unwrap();
        Ok((Guard { _dir: dir, _folder: folder }, storage.log, storage.state_machine))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn openrafts_suite_passes() {
    Suite::test_all(Builder).await.unwrap();
}
