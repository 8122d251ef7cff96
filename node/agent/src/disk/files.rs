//! Files that are replaced as a whole.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::DiskError;

/// What a file that is being written is called until it is renamed.
const TEMPORARY: &str = ".tmp";

/// Replaces `path` durably: a reader sees the old content or the new, after a power cut too.
///
/// # Errors
/// [`DiskError`]; the old content still stands.
pub fn write_atomic(path: &Path, content: &[u8]) -> Result<(), DiskError> {
    let temporary = temporary_of(path);
    let write = || -> io::Result<()> {
        let mut file = File::create(&temporary)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    write().map_err(DiskError::new("write", path))?;
    sync_dir(path.parent().unwrap_or(Path::new("/")))
}

/// Replaces `path` without waiting for the disk: it survives the agent, not the machine.
///
/// # Errors
/// [`DiskError`]; the old content still stands.
pub fn write_volatile(path: &Path, content: &[u8]) -> Result<(), DiskError> {
    let temporary = temporary_of(path);
    fs::write(&temporary, content).and_then(|()| fs::rename(&temporary, path)).map_err(DiskError::new("write", path))
}

/// Makes the entries of a folder durable.
///
/// # Errors
/// [`DiskError`]
pub fn sync_dir(path: &Path) -> Result<(), DiskError> {
    File::open(path).and_then(|dir| dir.sync_all()).map_err(DiskError::new("sync", path))
}

/// Creates a folder and what is missing above it, durably: the sync of a file keeps its content, and not everywhere the
/// names of the folders that lead to it.
///
/// # Errors
/// [`DiskError`]
pub fn create_dir(path: &Path) -> Result<(), DiskError> {
    if path.is_dir() {
        return Ok(());
    }
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    create_dir(parent)?;
    match fs::create_dir(path) {
        // Somebody else was faster.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
        made => made.map_err(DiskError::new("create", path))?,
    }
    sync_dir(parent)
}

/// The content of a file; none where there is no file.
///
/// # Errors
/// [`DiskError`]
pub fn read_optional(path: &Path) -> Result<Option<Vec<u8>>, DiskError> {
    match fs::read(path) {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(DiskError::new("read", path)(error)),
    }
}

/// Removes what an interrupted [`write_atomic`] left in a folder.
///
/// # Errors
/// [`DiskError`]
pub fn remove_temporaries(dir: &Path) -> Result<(), DiskError> {
    let entries = fs::read_dir(dir).map_err(DiskError::new("read", dir))?;
    for entry in entries {
        let path = entry.map_err(DiskError::new("read", dir))?.path();
        if path.is_file() && path.to_string_lossy().ends_with(TEMPORARY) {
            fs::remove_file(&path).map_err(DiskError::new("remove", &path))?;
        }
    }
    Ok(())
}

fn temporary_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(TEMPORARY);
    PathBuf::from(name)
}
