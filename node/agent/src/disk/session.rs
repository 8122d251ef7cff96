//! What the agent remembers of its sessions: which cluster it belongs to, its last epoch, and where peers were.
//!
//! Losing it costs nothing but the endpoints that were learnt: the config has others.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{DiskError, Layout, read_optional, write_atomic};

/// BOUND: a cluster has 5 peers; a list longer than this is no cluster of ours.
const MAX_ENDPOINTS: usize = 64;

/// What stands in the `session` file.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
struct Remembered {
    cluster_id: String,
    epoch: u64,
    endpoints: Vec<String>,
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
        let text = read_optional(&path)?.unwrap_or_default();
        let remembered = toml::from_str(&String::from_utf8_lossy(&text)).unwrap_or_default();
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

    /// Remembers a new session. A disk that refuses is logged: the session itself doesn't need it.
    pub fn store(&mut self, cluster_id: &str, epoch: u64, endpoints: &[String]) {
        let remembered = Remembered {
            cluster_id: cluster_id.to_owned(),
            epoch,
            endpoints: endpoints.iter().take(MAX_ENDPOINTS).cloned().collect(),
        };
        if remembered == self.remembered {
            return;
        }
        self.remembered = remembered;
        let text = toml::to_string(&self.remembered).expect("strings and numbers always serialise");
        if let Err(error) = write_atomic(&self.path, text.as_bytes()) {
            tracing::warn!(%error, "the session isn't remembered");
        }
    }
}
