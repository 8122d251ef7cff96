//! What goes wrong with files, with the way out.

use std::io;
use std::path::{Path, PathBuf};

/// A file couldn't be read or written. Nothing that was there before is lost.
#[derive(Debug, thiserror::Error)]
#[error("can't {action} {}: {source}{}", path.display(), way_out(source))]
pub struct DiskError {
    /// What was tried: "write", "read", ….
    pub action: &'static str,
    /// On which file.
    pub path: PathBuf,
    /// What the system said.
    #[source]
    pub source: io::Error,
}

impl DiskError {
    /// For `map_err`.
    pub fn new(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self { action, path: path.to_owned(), source }
    }
}

fn way_out(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            ". Free some space there; nothing that was stored is lost"
        }
        io::ErrorKind::ReadOnlyFilesystem => ". Mount it writable, or set data_dir to a folder that is",
        io::ErrorKind::PermissionDenied => ". Give the agent's user the right to write there, or set another data_dir",
        _ => "",
    }
}
