//! Who this node is: a UUID on its disk, and where that lies.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rollcall_ident::{BootId, NodeId};

use super::{DiskError, read_optional, write_atomic};

/// The node's identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The UUID.
    pub node_id: NodeId,
    /// Machine id, file system and inode of the file it lies in, hashed: a copied data folder has another one. The file
    /// system's own id, because the number of its device may be another one after a reboot.
    pub locus: String,
}

impl Identity {
    /// Reads the identity, or makes one where there is none. A file that was cut off is healed from its copy.
    ///
    /// # Errors
    /// [`DiskError`]
    pub fn load_or_create(data_dir: &Path, machine_id: &str) -> Result<Self, DiskError> {
        let paths = [data_dir.join("identity"), data_dir.join("identity.copy")];
        let mut found = Vec::new();
        for path in &paths {
            let text = read_optional(path)?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            found.push(text.as_deref().and_then(|text| text.parse::<NodeId>().ok()));
        }
        let node_id = match found.iter().flatten().next() {
            Some(node_id) => *node_id,
            None => NodeId(*uuid::Uuid::new_v4().as_bytes()),
        };
        for (path, found) in paths.iter().zip(&found) {
            if *found != Some(node_id) {
                tracing::warn!(%node_id, path = %path.display(), "writing the node's identity");
                write_atomic(path, format!("{node_id}\n").as_bytes())?;
            }
        }
        let metadata = fs::metadata(&paths[0]).map_err(DiskError::new("read", &paths[0]))?;
        let file_system =
            rustix::fs::statvfs(&paths[0]).map_err(|error| DiskError::new("read", &paths[0])(error.into()))?;
        let place = format!("{machine_id}\n{}\n{}", file_system.f_fsid, metadata.ino());
        let locus = blake3::hash(place.as_bytes()).to_hex()[..32].to_owned();
        Ok(Self { node_id, locus })
    }
}

/// This boot, from `/proc/sys/kernel/random/boot_id`: another id proves a reboot.
///
/// # Errors
/// [`DiskError`]
pub fn boot_id() -> Result<BootId, DiskError> {
    let path = Path::new("/proc/sys/kernel/random/boot_id");
    fs::read_to_string(path)
        .and_then(|text| text.parse().map_err(std::io::Error::other))
        .map_err(DiskError::new("read", path))
}

/// What `/etc/machine-id` says; empty where there is none.
#[must_use]
pub fn machine_id() -> String {
    fs::read_to_string("/etc/machine-id").map(|text| text.trim().to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_survives_truncation_at_every_byte() {
        let dir = tempfile::tempdir().unwrap();
        let identity = Identity::load_or_create(dir.path(), "m").unwrap();
        for name in ["identity", "identity.copy"] {
            for length in 0..37 {
                let file = fs::File::options().write(true).open(dir.path().join(name)).unwrap();
                file.set_len(length).unwrap();
                assert_eq!(Identity::load_or_create(dir.path(), "m").unwrap().node_id, identity.node_id);
            }
        }
    }

    #[test]
    fn a_copied_identity_has_another_locus() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let identity = Identity::load_or_create(one.path(), "m").unwrap();
        fs::copy(one.path().join("identity"), two.path().join("identity")).unwrap();
        let copy = Identity::load_or_create(two.path(), "m").unwrap();
        assert_eq!(copy.node_id, identity.node_id);
        assert_ne!(copy.locus, identity.locus);
        assert_eq!(Identity::load_or_create(one.path(), "m").unwrap(), identity);
    }
}
