//! What can go wrong with a peer's disk, said so that an operator knows what to do.

use std::io;
use std::path::{Path, PathBuf};

use rollcall_rollout::TooOld;

/// Why durable state can't be used. Every case ends the process: a peer without its disk must not take part.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// Bytes on disk are not what was written, or something that must be there is missing.
    #[error(
        "{} is damaged: {what}. Nothing of it was used. Rebuild this peer from the others: on a healthy peer run \
         `rollcall cluster remove-peer ID` (`rollcall cluster status` lists the IDs), stop this peer, move its data \
         directory away, start it empty and run `rollcall cluster add-peer`",
        path.display()
    )]
    Damaged {
        /// The file, or the folder if no single file is to blame.
        path: PathBuf,
        /// What was found, in words.
        what: String,
    },
    /// The disk is full.
    #[error(
        "no space left for {}, while trying to {action}: free space on its file system and start the peer again; \
         nothing that was acknowledged is lost",
        path.display()
    )]
    Full {
        /// What was to be done.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file system or the folder doesn't let us write.
    #[error(
        "can't {action}: {} can't be written by this user or its file system is read-only; make it writable (a file \
         system that went read-only by itself reports a failing disk: see `dmesg`) and start the peer again",
        path.display()
    )]
    ReadOnly {
        /// What was to be done.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Any other failure of the system.
    #[error("can't {action} {}: {source}", path.display())]
    Io {
        /// What was to be done.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another process works in the folder.
    #[error(
        "{} is in use by another process: a data directory belongs to one peer; stop the other one, or give this one \
         its own `data_dir`",
        path.display()
    )]
    Locked {
        /// The data directory.
        path: PathBuf,
    },
    /// The data directory belongs to somebody else.
    #[error(
        "{} belongs to {found}, but this peer is configured as {expected}: point `data_dir` to its own folder, or \
         correct the configuration",
        path.display()
    )]
    Foreign {
        /// The identity file.
        path: PathBuf,
        /// Who it says it is.
        found: String,
        /// Who was expected.
        expected: String,
    },
    /// The files were written by a newer version of Rollcall.
    #[error(
        "{} has format version {found}, and this binary reads up to {supported}: start the version that wrote it, or \
         a newer one",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u16,
        /// The newest that this binary reads.
        supported: u16,
    },
    /// Whole, and not to be understood: its checksum is right.
    #[error(
        "{} holds what this binary ({version}, feature level {level}) doesn't know ({what}), and is undamaged: another \
         version of Rollcall wrote it. Start that version, or a newer one",
        path.display(),
        version = env!("CARGO_PKG_VERSION"),
        level = rollcall_rollout::LEVEL
    )]
    Unknown {
        /// The file or folder.
        path: PathBuf,
        /// What the decoder says.
        what: String,
    },
    /// The cluster has agreed on more than this binary knows.
    #[error(transparent)]
    TooOld(#[from] TooOld),
}

impl StorageError {
    /// Sorts a system error by what the operator can do about it.
    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>, source: io::Error) -> Self {
        let path = path.into();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full { action, path, source },
            io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
                Self::ReadOnly { action, path, source }
            }
            _ => Self::Io { action, path, source },
        }
    }

    /// Damage at `path`.
    pub(crate) fn damaged(path: impl Into<PathBuf>, what: impl Into<String>) -> Self {
        Self::Damaged { path: path.into(), what: what.into() }
    }

    /// What a value that doesn't open means: an envelope from the future, or damage.
    pub(crate) fn codec(path: impl Into<PathBuf>, error: bincode::CodecError) -> Self {
        match error {
            bincode::CodecError::Version { found, supported, .. } if found != 0 => {
                Self::Newer { path: path.into(), found, supported }
            }
            bincode::CodecError::Malformed(what) => Self::Unknown { path: path.into(), what },
            error => Self::damaged(path, error.to_string()),
        }
    }
}

/// Through openraft's traits every failure is an `io::Error`; ours stays inside, with its message.
impl From<StorageError> for io::Error {
    fn from(error: StorageError) -> Self {
        let kind = match &error {
            StorageError::Damaged { .. }
            | StorageError::Newer { .. }
            | StorageError::Unknown { .. }
            | StorageError::TooOld(_) => io::ErrorKind::InvalidData,
            StorageError::Full { source, .. }
            | StorageError::ReadOnly { source, .. }
            | StorageError::Io { source, .. } => source.kind(),
            StorageError::Locked { .. } => io::ErrorKind::ResourceBusy,
            StorageError::Foreign { .. } => io::ErrorKind::InvalidInput,
        };
        Self::new(kind, error)
    }
}

/// Adds what was being done, and where, to a system error.
pub(crate) trait IoContext<T> {
    /// The error says that it couldn't `action` `path`.
    fn at(self, action: &'static str, path: &Path) -> Result<T, StorageError>;
}

impl<T> IoContext<T> for io::Result<T> {
    fn at(self, action: &'static str, path: &Path) -> Result<T, StorageError> {
        self.map_err(|source| StorageError::io(action, path, source))
    }
}
