//! What the agent remembers of its sessions: which cluster it belongs to, its last epoch, where peers were, the highest
//! fence that the cluster knows this node by, and where the data folder lay.
//!
//! Losing it costs nothing but the endpoints that were learnt: the config has others.

use std::path::PathBuf;

use rollcall_ident::Fence;
use serde::{Deserialize, Serialize};

use super::{DiskError, Layout, read_sealed_text, seal_text, write_atomic};

/// BOUND: a cluster has 5 peers; a list longer than this is no cluster of ours.
const MAX_ENDPOINTS: usize = 64;

/// What stands in the `session` file.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
struct Remembered {
    cluster_id: String,
    epoch: u64,
    endpoints: Vec<String>,
    fence: u64,
    locus: String,
}

/// The remembered session.
#[derive(Debug)]
pub struct SessionMemory {
    path: PathBuf,
    remembered: Remembered,
}

impl SessionMemory {
    /// Reads what is remembered; nothing where the file is missing or damaged.
    ///
    /// # Errors
    /// [`DiskError`] where it can't be read at all.
    pub fn load(layout: &Layout) -> Result<Self, DiskError> {
        let path = layout.root().join("session");
        let text = read_sealed_text(&path)?.unwrap_or_default();
        let remembered = toml::from_str(&text).unwrap_or_default();
        Ok(Self { path, remembered })
    }

    /// The cluster that the agent belongs to; empty: none yet.
    #[must_use]
    pub fn cluster_id(&self) -> &str {
        &self.remembered.cluster_id
    }

    /// The epoch of the last session; 0: none.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.remembered.epoch
    }

    /// Addresses that were learnt.
    #[must_use]
    pub fn endpoints(&self) -> &[String] {
        &self.remembered.endpoints
    }

    /// The highest fence that the cluster knew this node by.
    #[must_use]
    pub fn fence(&self) -> Fence {
        Fence(self.remembered.fence)
    }

    /// Whether the data folder lay elsewhere when a cluster last welcomed it: it was copied, moved, or restored.
    #[must_use]
    pub fn is_from_elsewhere(&self, locus: &str) -> bool {
        !self.remembered.locus.is_empty() && self.remembered.locus != locus
    }

    /// Remembers a new session.
    pub fn store(&mut self, cluster_id: &str, epoch: u64, endpoints: &[String]) {
        let endpoints = endpoints.iter().take(MAX_ENDPOINTS).cloned().collect();
        self.replace(Remembered { cluster_id: cluster_id.to_owned(), epoch, endpoints, ..self.remembered.clone() });
    }

    /// Remembers that the cluster takes the data folder at this place for the node's, and the fence it knows the node by.
    pub fn confirm(&mut self, locus: &str, fence: Fence) {
        let fence = fence.0.max(self.remembered.fence);
        self.replace(Remembered { locus: locus.to_owned(), fence, ..self.remembered.clone() });
    }

    /// A disk that refuses is logged: the session itself doesn't need it.
    fn replace(&mut self, remembered: Remembered) {
        if remembered == self.remembered {
            return;
        }
        self.remembered = remembered;
        let text = toml::to_string(&self.remembered).expect("strings and numbers always serialise");
        if let Err(error) = write_atomic(&self.path, seal_text(&text).as_bytes()) {
            tracing::warn!(%error, "the session isn't remembered");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_damaged_session_is_forgotten_and_never_half_believed() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::prepare(dir.path()).unwrap();
        let mut memory = SessionMemory::load(&layout).unwrap();
        memory.store("6f1c0d2e-0000-4000-8000-00000000000a", 7, &["127.0.0.1:7400".to_owned()]);
        memory.confirm("here", Fence(20));
        let path = dir.path().join("session");
        let whole = fs::read(&path).unwrap();
        let known = |memory: &SessionMemory| (memory.epoch(), memory.fence(), memory.is_from_elsewhere("there"));
        assert_eq!(known(&SessionMemory::load(&layout).unwrap()), (7, Fence(20), true));
        let cuts = (0..whole.len()).map(|cut| whole[..cut].to_vec());
        let flips = (0..whole.len() * 8).map(|bit| {
            let mut flipped = whole.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            flipped
        });
        for damaged in cuts.chain(flips) {
            fs::write(&path, &damaged).unwrap();
            let memory = SessionMemory::load(&layout).unwrap();
            assert_eq!(known(&memory), (0, Fence(0), false));
            assert!(memory.cluster_id().is_empty() && memory.endpoints().is_empty());
        }
    }
}
