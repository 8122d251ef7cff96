//! The one place that turns values into persisted bytes and back.
//!
//! Everything that outlives a process or crosses between peers is a bincode body in an [`Envelope`] that says what it
//! is, which version of its format it has, how long it is, and what its checksum must be. Damage is detected here and
//! never served.
//!
//! # Invariants
//! - Only this crate depends on `bincode` (unmaintained, RUSTSEC-2025-0141). The derive macros write paths that begin
//!   with `::bincode`, so crates with persisted types depend on this crate under that name:
//!   `bincode = { package = "rollcall-codec", … }`.
//! - The configuration (little endian, variable integers, [`MAX_BODY_BYTES`]) is frozen: it is part of the format.
//! - A released struct is never edited; a changed format is a new [`Kind`] version with golden bytes beside the old.
//!
//! # Deliberately absent
//! Serde, borrowed decoding of whole files, compression: a reader that has to be right after a power cut is short.

mod envelope;

pub use bincode::*;
pub use envelope::{
    Envelope, HEADER_BYTES, Kind, MAX_BODY_BYTES, decode_envelope, encode_envelope, open, open_beginning, seal,
};

/// What can be wrong with bytes that should have been a value.
#[derive(Debug, thiserror::Error, PartialEq, Eq, Clone)]
pub enum CodecError {
    /// Fewer bytes than the header or the body needs: a torn or truncated write.
    #[error("truncated: {have} bytes where {need} are needed")]
    Truncated {
        /// Bytes that are there.
        have: usize,
        /// Bytes that the header or its length field asks for.
        need: usize,
    },
    /// The first byte isn't the envelope's magic.
    #[error("not a Rollcall envelope: it starts with {found:#04x} instead of {MAGIC:#04x}", MAGIC = envelope::MAGIC)]
    Magic {
        /// The byte that was found.
        found: u8,
    },
    /// An envelope of another kind than the one asked for.
    #[error("kind {found} where kind {expected} was expected")]
    Kind {
        /// The kind that was asked for.
        expected: u8,
        /// The kind in the header.
        found: u8,
    },
    /// A format version that this binary doesn't know.
    #[error("format version {found} of kind {kind}; this binary reads up to {supported}")]
    Version {
        /// The envelope's kind.
        kind: u8,
        /// The version in the header.
        found: u16,
        /// The newest version this binary knows.
        supported: u16,
    },
    /// The checksum doesn't match: the bytes were damaged.
    #[error("damaged: checksum {found:#010x} where {expected:#010x} was written")]
    Checksum {
        /// The checksum in the header.
        expected: u32,
        /// The checksum of the body as it was read.
        found: u32,
    },
    /// The body is larger than [`MAX_BODY_BYTES`].
    #[error("a body of {bytes} bytes is over the limit of {MAX_BODY_BYTES}")]
    TooLarge {
        /// The body's size.
        bytes: usize,
    },
    /// The body doesn't decode to the value asked for, or something is left behind it.
    #[error("malformed body: {0}")]
    Malformed(String),
}
