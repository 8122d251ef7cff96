//! Whose disk this is: the data directory, its lock, and the identity of the peer that lives in it.
//!
//! # Invariants
//! - One process works in a data directory: the lock is held for as long as a [`DataDir`] lives, and the system lets go
//!   of it when the process dies.
//! - An identity never changes. A Raft id whose disk is lost is never used again, so a peer that starts without its
//!   identity is a new peer.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use bincode::{Decode, Encode, Kind};
use rollcall_ident::{ClusterId, PeerId};

use super::error::{IoContext as _, StorageError};
use super::files::{create_dir_durable, remove_leftovers, write_atomic};
use super::replace;

pub(super) const LOCK_FILE: &str = "lock";
pub(super) const IDENTITY_FILE: &str = "identity";

/// A peer's data directory, locked against other processes.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    /// Held, not read: closing it releases the lock.
    _lock: File,
}

/// Which peer of which cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// The cluster.
    pub cluster: ClusterId,
    /// The peer's Raft id in it.
    pub peer: PeerId,
}

/// What is free on a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct DiskSpace {
    /// To be used by everybody.
    pub free_bytes: u64,
    /// In all.
    pub total_bytes: u64,
}

/// [`Identity`] on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
struct IdentityV1 {
    cluster: ClusterId,
    peer: PeerId,
}

impl DataDir {
    /// Takes the folder for this process, creates it if it's missing, and removes what interrupted writes left.
    ///
    /// # Errors
    /// [`StorageError::Locked`] if another process has it, otherwise what the system says.
    pub fn lock(path: &Path) -> Result<Self, StorageError> {
        create_dir_durable(path)?;
        let lock_path = path.join(LOCK_FILE);
        let lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&lock_path)
            .at("open the lock of", &lock_path)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(StorageError::Locked { path: path.to_owned() }),
            Err(TryLockError::Error(error)) => return Err(error).at("lock", &lock_path),
        }
        remove_leftovers(path)?;
        replace::finish(path)?;
        Ok(Self { path: path.to_owned(), _lock: lock })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is free on the file system of the folder. Blocks.
    ///
    /// # Errors
    /// What the system says.
    pub fn disk_space(&self) -> io::Result<DiskSpace> {
        let stat = rustix::fs::statvfs(&self.path)?;
        let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
        // What only root may still use isn't free.
        Ok(DiskSpace { free_bytes: bytes(stat.f_bavail), total_bytes: bytes(stat.f_blocks) })
    }

    /// Who lives here: `None` in a folder that is new.
    ///
    /// # Errors
    /// A damaged file, or one of a newer version.
    pub fn load_identity(&self) -> Result<Option<Identity>, StorageError> {
        read_identity(&self.path.join(IDENTITY_FILE))
    }

    /// Records who lives here. It is on disk when this returns. Recording the same identity again changes nothing.
    ///
    /// # Errors
    /// [`StorageError::Foreign`] if another one is recorded already.
    pub fn store_identity(&self, identity: Identity) -> Result<(), StorageError> {
        let path = self.path.join(IDENTITY_FILE);
        match self.load_identity()? {
            Some(found) if found == identity => Ok(()),
            Some(found) => {
                Err(StorageError::Foreign { path, found: found.to_string(), expected: identity.to_string() })
            }
            None => {
                let Identity { cluster, peer } = identity;
                write_atomic(&path, &bincode::seal(Kind::PEER_IDENTITY, &IdentityV1 { cluster, peer }))
            }
        }
    }
}

/// Who a file says that it is; `None` where there is no file.
pub(super) fn read_identity(path: &Path) -> Result<Option<Identity>, StorageError> {
    let bytes = match std::fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        result => result.at("read", path)?,
    };
    let IdentityV1 { cluster, peer } =
        bincode::open(Kind::PEER_IDENTITY, &bytes).map_err(|error| StorageError::codec(path, error))?;
    Ok(Some(Identity { cluster, peer }))
}

impl std::fmt::Display for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "peer {} of cluster {}", self.peer, self.cluster)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOMEBODY: Identity = Identity { cluster: ClusterId([7; 16]), peer: PeerId(300) };

    #[test]
    fn golden_bytes_of_version_1() {
        let sealed = bincode::seal(Kind::PEER_IDENTITY, &IdentityV1 { cluster: SOMEBODY.cluster, peer: SOMEBODY.peer });
        let mut golden = vec![0xC5, 6, 1, 0, 19, 0, 0, 0];
        golden.extend(&sealed[8..12]);
        golden.extend([7; 16]);
        golden.extend([251, 0x2C, 1]);
        assert_eq!(sealed, golden);
    }

    #[test]
    fn an_identity_is_kept_and_never_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/data");
        let dir = DataDir::lock(&path).unwrap();
        assert_eq!(dir.load_identity().unwrap(), None);
        dir.store_identity(SOMEBODY).unwrap();
        dir.store_identity(SOMEBODY).unwrap();
        drop(dir);

        let dir = DataDir::lock(&path).unwrap();
        assert_eq!(dir.load_identity().unwrap(), Some(SOMEBODY));
        let other = Identity { peer: PeerId(301), ..SOMEBODY };
        let error = dir.store_identity(other).unwrap_err();
        assert!(matches!(error, StorageError::Foreign { .. }), "{error}");
        assert!(error.to_string().contains("data_dir"), "{error}");
    }

    #[test]
    fn a_folder_has_one_owner() {
        let folder = tempfile::tempdir().unwrap();
        let first = DataDir::lock(folder.path()).unwrap();
        assert!(matches!(DataDir::lock(folder.path()), Err(StorageError::Locked { .. })));
        drop(first);
        DataDir::lock(folder.path()).unwrap();
    }

    #[test]
    fn leftovers_of_an_interrupted_write_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("identity.tmp"), b"half").unwrap();
        let dir = DataDir::lock(folder.path()).unwrap();
        assert_eq!(dir.load_identity().unwrap(), None);
        assert!(!folder.path().join("identity.tmp").exists());
    }

    #[test]
    fn a_damaged_identity_names_the_file_and_the_way_out() {
        let folder = tempfile::tempdir().unwrap();
        let dir = DataDir::lock(folder.path()).unwrap();
        dir.store_identity(SOMEBODY).unwrap();
        let path = folder.path().join(IDENTITY_FILE);
        let whole = std::fs::read(&path).unwrap();
        for byte in 0..whole.len() {
            for bit in 0..8 {
                let mut bytes = whole.clone();
                bytes[byte] ^= 1 << bit;
                std::fs::write(&path, bytes).unwrap();
                let text = dir.load_identity().unwrap_err().to_string();
                assert!(text.contains("identity"), "{text}");
            }
            std::fs::write(&path, &whole[..byte]).unwrap();
            let text = dir.load_identity().unwrap_err().to_string();
            assert!(text.contains("identity") && text.contains("remove-peer"), "{text}");
        }
    }
}
