//! Who this node is: a UUID on its disk, and where that lies.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rollcall_ident::{BootId, NodeId};

use super::{DiskError, open_sealed_text, read_optional, seal_text, write_atomic};

/// The node's identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The UUID.
    pub node_id: NodeId,
    /// Machine id, file system and inode of the file it lies in, hashed: a copied data folder has another one. The file
    /// system's own id, because the number of its device may be another one after a reboot.
    pub locus: String,
    /// There was none that could be read: this node is a new one.
    pub is_new: bool,
    /// Its file was written just now: where that lies says nothing about where it lay before.
    pub is_rewritten: bool,
}

impl Identity {
    /// Reads the identity, or makes one where there is none. A file that was cut off or damaged is healed from its copy.
    ///
    /// # Errors
    /// [`DiskError`]
    pub fn load_or_create(data_dir: &Path, machine_id: &str) -> Result<Self, DiskError> {
        let paths = [data_dir.join("identity"), data_dir.join("identity.copy")];
        let found = [find(&paths[0])?, find(&paths[1])?];
        // Whole ones first: a flipped bit makes another UUID of it.
        let best = found.iter().rev().flatten().max_by_key(|found| found.is_sealed);
        let (node_id, is_new) = match best {
            Some(found) => (found.node_id, false),
            None => (NodeId(*uuid::Uuid::new_v4().as_bytes()), true),
        };
        let is_whole =
            |found: &Option<Found>| found.as_ref().is_some_and(|found| found.is_sealed && found.node_id == node_id);
        for (path, found) in paths.iter().zip(&found) {
            if !is_whole(found) {
                tracing::warn!(%node_id, path = %path.display(), "writing the node's identity");
                write_atomic(path, seal_text(&format!("{node_id}\n")).as_bytes())?;
            }
        }
        let metadata = fs::metadata(&paths[0]).map_err(DiskError::new("read", &paths[0]))?;
        let file_system =
            rustix::fs::statvfs(&paths[0]).map_err(|error| DiskError::new("read", &paths[0])(error.into()))?;
        let place = format!("{machine_id}\n{}\n{}", file_system.f_fsid, metadata.ino());
        let locus = blake3::hash(place.as_bytes()).to_hex()[..32].to_owned();
        Ok(Self { node_id, locus, is_new, is_rewritten: !is_whole(&found[0]) })
    }
}

/// An identity in a file.
struct Found {
    node_id: NodeId,
    /// By its checksum it is what was written. Earlier agents wrote none.
    is_sealed: bool,
}

fn find(path: &Path) -> Result<Option<Found>, DiskError> {
    let Some(bytes) = read_optional(path)? else { return Ok(None) };
    let sealed = open_sealed_text(&bytes);
    // A seal that is wrong tells of damage; none at all, of an older agent.
    let text = sealed.or_else(|| std::str::from_utf8(&bytes).ok().filter(|text| text.trim_end().len() == UUID_LENGTH));
    let node_id = text.and_then(|text| text.trim_end().parse().ok());
    Ok(node_id.map(|node_id| Found { node_id, is_sealed: sealed.is_some() }))
}

/// As text.
const UUID_LENGTH: usize = 36;

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
    fn an_identity_survives_a_cut_at_every_byte_and_every_flipped_bit() {
        let dir = tempfile::tempdir().unwrap();
        let node_id = Identity::load_or_create(dir.path(), "m").unwrap().node_id;
        for path in ["identity", "identity.copy"].map(|name| dir.path().join(name)) {
            let whole = fs::read(&path).unwrap();
            let cuts = (0..whole.len()).map(|cut| whole[..cut].to_vec());
            let flips = (0..whole.len() * 8).map(|bit| {
                let mut flipped = whole.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                flipped
            });
            for damaged in cuts.chain(flips) {
                fs::write(&path, &damaged).unwrap();
                let identity = Identity::load_or_create(dir.path(), "m").unwrap();
                assert_eq!((identity.node_id, identity.is_new), (node_id, false), "{damaged:?}");
                assert_eq!(fs::read(&path).unwrap(), whole, "it was healed");
            }
            fs::remove_file(&path).unwrap();
            assert_eq!(Identity::load_or_create(dir.path(), "m").unwrap().node_id, node_id);
        }
    }

    #[test]
    fn an_identity_without_a_checksum_is_kept_and_sealed() {
        let dir = tempfile::tempdir().unwrap();
        let old = "3b241101-e2bb-4255-8caf-4136c566a962";
        fs::write(dir.path().join("identity"), format!("{old}\n")).unwrap();
        assert_eq!(Identity::load_or_create(dir.path(), "m").unwrap().node_id.to_string(), old);
        assert!(open_sealed_text(&fs::read(dir.path().join("identity")).unwrap()).is_some());
    }

    #[test]
    fn a_copied_identity_has_another_locus() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let identity = Identity::load_or_create(one.path(), "m").unwrap();
        fs::copy(one.path().join("identity"), two.path().join("identity")).unwrap();
        let copy = Identity::load_or_create(two.path(), "m").unwrap();
        assert_eq!(copy.node_id, identity.node_id);
        assert_ne!(copy.locus, identity.locus);
        let again = Identity::load_or_create(one.path(), "m").unwrap();
        assert_eq!(again, Identity { is_new: false, is_rewritten: false, ..identity });
    }
}
