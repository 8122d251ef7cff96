//! Newtypes that every part of Rollcall shares: idents, names, ids, times.
//!
//! Two numbers that could be swapped are two types here. Parsing is the only way to make a name, so a value of one of
//! these types is well-formed wherever it is met.
//!
//! # Deliberately absent
//! Clocks, randomness, IO: whoever makes a new id brings its bytes along.

#![forbid(clippy::disallowed_types, clippy::disallowed_methods)]

mod id;
mod name;
mod release;
mod time;

pub use id::{
    BootId, ClusterId, ConfigId, Digest, Fence, FreezeId, NodeId, PeerId, Revision, RolloutId, SessionEpoch, WindowId,
};
pub use name::{ChannelName, GroupName, NodeName, RequestId};
pub use release::{PackageName, ReleaseIdent};
pub use time::{ClusterTime, Millis, WallTime};

/// Why a text isn't a well-formed name, ident, id or duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{value:?} is not a {what}: {expected}")]
pub struct ParseError {
    /// What was to be parsed, in words.
    pub what: &'static str,
    /// The text as it was given.
    pub value: String,
    /// What would have been accepted.
    pub expected: &'static str,
}

impl ParseError {
    pub(crate) fn new(what: &'static str, value: &str, expected: &'static str) -> Self {
        Self { what, value: value.chars().take(200).collect(), expected }
    }
}
