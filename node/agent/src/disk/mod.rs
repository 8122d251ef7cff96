//! Everything that the agent remembers, and how it gets onto the disk.
//!
//! A file is replaced as a whole (temp file, fsync, rename, fsync of the folder) or appended to (the journal). Whoever
//! reads one copes with it being missing, empty, cut off anywhere, or changed: everything that is believed carries a checksum.

mod error;
mod files;
mod identity;
mod journal;
mod layout;
mod lock;
mod salvage;
mod sealed;
mod session;

pub use error::DiskError;
pub use files::{create_dir, read_optional, remove_temporaries, sync_dir, write_atomic, write_volatile};
pub use identity::{Identity, boot_id, machine_id};
pub use journal::{Journal, JournalError, highest_fence};
pub use layout::{Layout, ServiceLayout};
pub use lock::{DataDirLock, LockError};
pub use sealed::{open_sealed_text, read_sealed_text, seal_text};
pub use session::SessionMemory;
