//! One agent per data folder.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

use super::DiskError;

/// Held as long as it lives; the kernel releases it with the process, whatever happens to that.
#[derive(Debug)]
pub struct DataDirLock {
    _file: File,
}

/// Why a data folder couldn't be locked.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another agent has it.
    #[error(
        "another agent ({holder}) uses the data folder {}: stop it, or give this one a data_dir of its own",
        path.display()
    )]
    Held {
        /// The folder.
        path: PathBuf,
        /// Who, as far as the lock file tells.
        holder: String,
    },
    /// The lock file couldn't be used.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

impl DataDirLock {
    /// Takes the lock.
    ///
    /// # Errors
    /// [`LockError::Held`] names the process that has it.
    pub fn acquire(data_dir: &Path) -> Result<Self, LockError> {
        let path = data_dir.join("lock");
        let mut file = File::options()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&path)
            .map_err(DiskError::new("open", &path))?;
        if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            let mut pid = String::new();
            let _ = file.read_to_string(&mut pid);
            let holder = match pid.trim() {
                "" => "of unknown pid".to_owned(),
                pid => format!("pid {pid}"),
            };
            return Err(LockError::Held { path: data_dir.to_owned(), holder });
        }
        file.set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| write!(file, "{}", std::process::id()))
            .map_err(DiskError::new("write", &path))?;
        Ok(Self { _file: file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_agent_is_told_who_has_the_folder() {
        let dir = tempfile::tempdir().unwrap();
        let _held = DataDirLock::acquire(dir.path()).unwrap();
        let error = DataDirLock::acquire(dir.path()).unwrap_err().to_string();
        assert!(error.contains(&format!("pid {}", std::process::id())), "{error}");
        assert!(error.contains(&dir.path().display().to_string()), "{error}");
    }
}
