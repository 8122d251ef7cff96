//! What lies in a release's folder, in one order everywhere.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use super::FetchError;

/// BOUND: entries of one release.
pub(super) const MAX_ENTRIES: usize = 100_000;

/// BOUND: bytes of one release on the disk.
pub(super) const MAX_BYTES: u64 = 16 << 30;

/// One thing in a release.
pub(super) struct Entry {
    /// Relative to the release's folder.
    pub path: PathBuf,
    /// What it is.
    pub kind: EntryKind,
}

/// What a release may hold.
pub(super) enum EntryKind {
    /// A folder.
    Folder,
    /// A file.
    File {
        /// For its owner.
        is_executable: bool,
    },
    /// A symbolic link.
    Link {
        /// As it is written.
        target: PathBuf,
    },
}

/// Everything below `root`, sorted by path as bytes. Links aren't followed.
pub(super) fn walk(root: &Path) -> Result<Vec<Entry>, FetchError> {
    let mut entries = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let full = root.join(&folder);
        for found in fs::read_dir(&full).map_err(FetchError::io(&full))? {
            let found = found.map_err(FetchError::io(&full))?;
            let path = folder.join(found.file_name());
            let kind = kind_of(&found.path())?;
            if matches!(kind, EntryKind::Folder) {
                folders.push(path.clone());
            }
            entries.push(Entry { path, kind });
            if entries.len() > MAX_ENTRIES {
                let error = std::io::Error::other(format!("more than {MAX_ENTRIES} files in one release"));
                return Err(FetchError::io(root)(error));
            }
        }
    }
    entries.sort_unstable_by(|a, b| a.path.as_os_str().as_bytes().cmp(b.path.as_os_str().as_bytes()));
    Ok(entries)
}

fn kind_of(path: &Path) -> Result<EntryKind, FetchError> {
    let metadata = fs::symlink_metadata(path).map_err(FetchError::io(path))?;
    if metadata.is_dir() {
        Ok(EntryKind::Folder)
    } else if metadata.is_file() {
        Ok(EntryKind::File { is_executable: metadata.permissions().mode() & 0o100 != 0 })
    } else if metadata.is_symlink() {
        Ok(EntryKind::Link { target: fs::read_link(path).map_err(FetchError::io(path))? })
    } else {
        let error = std::io::Error::other("it is neither a file, a folder nor a link: a release can't hold it");
        Err(FetchError::io(path)(error))
    }
}

/// Whether a path stays below the folder that it is relative to, whatever its parts are.
pub(super) fn is_inside(path: &Path) -> bool {
    path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
        && path.components().any(|part| matches!(part, Component::Normal(_)))
}

/// Whether a link at `path` (relative to the release) that points to `target` stays inside the release.
pub(super) fn link_is_inside(path: &Path, target: &Path) -> bool {
    let mut depth = path.components().filter(|part| matches!(part, Component::Normal(_))).count().saturating_sub(1);
    for part in target.components() {
        match part {
            Component::Normal(_) => depth += 1,
            Component::CurDir => {}
            Component::ParentDir if depth > 0 => depth -= 1,
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_may_not_lead_out() {
        assert!(link_is_inside(Path::new("bin/x"), Path::new("../lib/y")));
        assert!(link_is_inside(Path::new("x"), Path::new("./y")));
        assert!(!link_is_inside(Path::new("x"), Path::new("../y")));
        assert!(!link_is_inside(Path::new("bin/x"), Path::new("../../y")));
        assert!(!link_is_inside(Path::new("bin/x"), Path::new("/etc/passwd")));
        assert!(!link_is_inside(Path::new("bin/x"), Path::new("a/../../../y")));
    }

    #[test]
    fn paths_may_not_lead_out() {
        assert!(is_inside(Path::new("./hooks/run")));
        for bad in ["../x", "/x", "a/../../x", "a/../x", ".", ""] {
            assert!(!is_inside(Path::new(bad)), "{bad}");
        }
    }
}
