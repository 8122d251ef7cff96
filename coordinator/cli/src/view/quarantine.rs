//! Releases that aren't started again.

use rollcall_proto::v1;
use serde::Serialize;

use super::common::{cluster_ms, empty_as_none, wall};

/// One of them.
#[derive(Debug, Serialize)]
pub struct QuarantineView {
    pub ident: String,
    /// Who said so; `rollcall`, where the release has failed.
    pub by: Option<String>,
    pub reason: Option<String>,
    pub since_at: Option<String>,
    pub since_at_cluster_ms: Option<u64>,
    /// For `--expected-revision`.
    pub modified_revision: u64,
}

impl From<v1::QuarantinedRelease> for QuarantineView {
    fn from(release: v1::QuarantinedRelease) -> Self {
        Self {
            since_at: wall(release.since.as_ref()),
            since_at_cluster_ms: cluster_ms(release.since.as_ref()),
            ident: release.ident,
            by: empty_as_none(release.by),
            reason: empty_as_none(release.reason),
            modified_revision: release.modified_revision,
        }
    }
}
