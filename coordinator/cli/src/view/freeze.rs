//! Change freezes.

use rollcall_proto::v1;
use serde::Serialize;

use super::common::{empty_as_none, time};

/// Groups that nothing is to disturb for a while.
#[derive(Debug, Serialize)]
pub struct FreezeView {
    pub freeze_id: String,
    /// None: all.
    pub groups: Vec<String>,
    pub from_at: Option<String>,
    /// `None`: until it is lifted.
    pub until_at: Option<String>,
    pub by: Option<String>,
    pub reason: Option<String>,
}

/// What a new freeze is called.
#[derive(Debug, Serialize)]
pub struct FreezeCreatedView {
    pub freeze_id: String,
}

impl From<v1::Freeze> for FreezeView {
    fn from(freeze: v1::Freeze) -> Self {
        Self {
            freeze_id: freeze.freeze_id,
            groups: freeze.groups,
            from_at: time(freeze.from.as_ref()),
            until_at: time(freeze.until.as_ref()),
            by: empty_as_none(freeze.by),
            reason: empty_as_none(freeze.reason),
        }
    }
}
