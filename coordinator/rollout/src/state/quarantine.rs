//! Releases that aren't started again.

use bincode::{Decode, Encode};
use rollcall_ident::Revision;

use crate::{Actor, Stamp};

/// Why a release isn't started again.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Quarantine {
    /// Since when.
    pub at: Stamp,
    /// Who said so; the coordinator, where the release has failed.
    pub by: Actor,
    /// Why.
    pub reason: String,
    /// The revision that put it there.
    pub modified_revision: Revision,
}
