//! Files and folders that are there after a power cut.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use super::error::{IoContext as _, StorageError};

/// How a file that isn't finished is named: it is never read, and removed at the next start.
const TEMP_SUFFIX: &str = "tmp";

/// Syncs a folder: new, renamed and removed names in it are durable.
pub(super) fn sync_dir(dir: &Path) -> Result<(), StorageError> {
    File::open(dir).and_then(|dir| dir.sync_all()).at("sync the folder", dir)
}

/// Creates a folder, with those above it that are missing; it is there after a power cut.
pub(super) fn create_dir_durable(dir: &Path) -> Result<(), StorageError> {
    if dir.is_dir() {
        return Ok(());
    }
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
    if let Some(parent) = parent {
        create_dir_durable(parent)?;
    }
    match fs::create_dir(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        result => result.at("create the folder", dir)?,
    }
    sync_dir(parent.unwrap_or(Path::new(".")))
}

/// The name under which `path` is written before it is whole.
pub(super) fn temp_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(TEMP_SUFFIX);
    name.into()
}

/// Gives a finished temporary file its name. The file must be synced.
///
/// CRASH: before the rename the old file, or none, is there under the name; after it the new one. The sync of the folder
/// decides which of them a power cut leaves, and it has happened when this returns.
pub(super) fn rename_durable(from: &Path, to: &Path) -> Result<(), StorageError> {
    fs::rename(from, to).at("rename a new file to", to)?;
    sync_dir(to.parent().unwrap_or(Path::new(".")))
}

/// Writes a small file so that, whenever the power fails, either the old or the new content is there.
pub(super) fn write_atomic(path: &Path, bytes: &[u8]) -> Result<(), StorageError> {
    let temp = temp_path(path);
    let mut file = File::create(&temp).at("create", &temp)?;
    file.write_all(bytes).at("write", &temp)?;
    file.sync_all().at("sync", &temp)?;
    rename_durable(&temp, path)
}

/// Removes what interrupted writes left in `dir`.
pub(super) fn remove_leftovers(dir: &Path) -> Result<(), StorageError> {
    let mut removed = false;
    for entry in fs::read_dir(dir).at("read", dir)? {
        let path = entry.at("read", dir)?.path();
        if path.extension().is_some_and(|extension| extension == TEMP_SUFFIX) {
            tracing::info!(path = %path.display(), "removing what an interrupted write left");
            fs::remove_file(&path).at("remove", &path)?;
            removed = true;
        }
    }
    if removed { sync_dir(dir) } else { Ok(()) }
}
