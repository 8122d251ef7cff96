//! The BLAKE3 digest of a release.
//!
//! Of an archive: of its bytes, so `b3sum release.tar.zst` prints it. Of a folder: of its files and links, sorted by path
//! (as bytes, `/` between parts), each as
//!
//! ```text
//! kind (1 byte: `f` file, `x` file with a run bit for its owner, `l` symbolic link)
//! length of the path (u64, little endian), path relative to the folder
//! length of the content (u64, little endian), content; of a link its target
//! ```
//!
//! Folders themselves, owners, times and other mode bits don't count.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rollcall_ident::Digest;

use super::FetchError;
use super::tree::{Entry, EntryKind, walk};

/// BOUND: how much of a file is in memory at once.
const CHUNK_BYTES: usize = 64 << 10;

/// The digest of an archive.
///
/// # Errors
/// [`FetchError::Io`]
pub fn digest_of_file(path: &Path) -> Result<Digest, FetchError> {
    let mut hasher = blake3::Hasher::new();
    File::open(path).and_then(|file| feed(&mut hasher, file)).map_err(FetchError::io(path))?;
    Ok(Digest(*hasher.finalize().as_bytes()))
}

/// The digest of a folder.
///
/// # Errors
/// [`FetchError::Io`], also for something that is neither file, folder nor link.
pub fn digest_of_tree(root: &Path) -> Result<Digest, FetchError> {
    let mut hasher = blake3::Hasher::new();
    for entry in walk(root)? {
        let path = root.join(&entry.path);
        add_entry(&mut hasher, &path, &entry).map_err(FetchError::io(&path))?;
    }
    Ok(Digest(*hasher.finalize().as_bytes()))
}

fn add_entry(hasher: &mut blake3::Hasher, path: &Path, entry: &Entry) -> io::Result<()> {
    let mut header = |kind: u8, bytes: u64| {
        let name = entry.path.as_os_str().as_bytes();
        hasher.update(&[kind]);
        hasher.update(&(name.len() as u64).to_le_bytes());
        hasher.update(name);
        hasher.update(&bytes.to_le_bytes());
    };
    match &entry.kind {
        EntryKind::Folder => {}
        EntryKind::File { is_executable } => {
            let file = File::open(path)?;
            let bytes = file.metadata()?.size();
            header(if *is_executable { b'x' } else { b'f' }, bytes);
            let fed = feed(hasher, file)?;
            if fed != bytes {
                return Err(io::Error::other("it changed while it was read"));
            }
        }
        EntryKind::Link { target } => {
            let target = target.as_os_str().as_bytes();
            header(b'l', target.len() as u64);
            hasher.update(target);
        }
    }
    Ok(())
}

fn feed(hasher: &mut blake3::Hasher, mut from: impl Read) -> io::Result<u64> {
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut total = 0;
    loop {
        match from.read(&mut chunk)? {
            0 => return Ok(total),
            read => {
                hasher.update(&chunk[..read]);
                total += read as u64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// The definition, for ever: what was promoted with a digest must match it on every node.
    #[test]
    fn golden_digest_of_a_tree() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("hooks")).unwrap();
        fs::write(dir.path().join("hooks/run"), "#!/bin/sh\n").unwrap();
        fs::set_permissions(dir.path().join("hooks/run"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(dir.path().join("a"), "hello").unwrap();
        fs::set_permissions(dir.path().join("a"), fs::Permissions::from_mode(0o644)).unwrap();
        std::os::unix::fs::symlink("a", dir.path().join("link")).unwrap();
        let mut bytes = Vec::new();
        for (kind, path, content) in [(b'f', "a", "hello"), (b'x', "hooks/run", "#!/bin/sh\n"), (b'l', "link", "a")] {
            bytes.push(kind);
            bytes.extend_from_slice(&(path.len() as u64).to_le_bytes());
            bytes.extend_from_slice(path.as_bytes());
            bytes.extend_from_slice(&(content.len() as u64).to_le_bytes());
            bytes.extend_from_slice(content.as_bytes());
        }
        let digest = digest_of_tree(dir.path()).unwrap();
        assert_eq!(digest.0, *blake3::hash(&bytes).as_bytes());

        fs::set_permissions(dir.path().join("a"), fs::Permissions::from_mode(0o755)).unwrap();
        assert_ne!(digest_of_tree(dir.path()).unwrap(), digest, "the run bit counts");
    }
}
