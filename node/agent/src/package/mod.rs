//! Releases: where they come from, what must be true of them, and where they lie.
//!
//! A release becomes visible under its name only after all of it was checked and synced, so whatever stands there is
//! whole. Nothing here disturbs a running service.

mod digest;
mod error;
mod manifest;
mod release;
mod source;
mod store;
mod tree;
mod unpack;

pub use digest::{digest_of_file, digest_of_tree};
pub use error::FetchError;
pub use manifest::{HookSettings, Manifest, StopSignal};
pub use release::{HookConfig, Release};
pub use source::{Found, Source};
pub use store::{PackageStore, TakenOut};
