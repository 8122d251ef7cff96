//! From a source into a folder: archives are unpacked, folders copied, and everything that leads out is refused by name.

use std::fs::{self, File};
use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rollcall_ident::ReleaseIdent;
use tar::EntryType;

use super::tree::{EntryKind, MAX_BYTES, MAX_ENTRIES, is_inside, link_is_inside, walk};
use super::{FetchError, Found};

/// Brings what was found into the new folder `into`, and syncs every file and folder of it.
///
/// # Errors
/// [`FetchError`] names the entry that is refused; what was written so far is the caller's to remove.
pub(super) fn bring(found: &Found, into: &Path, ident: &ReleaseIdent) -> Result<(), FetchError> {
    let mut target = Target { root: into, ident, bytes: 0, entries: 0, links: Vec::new() };
    match found {
        Found::Folder(path) => target.copy_folder(path)?,
        Found::TarZst(path) => {
            let file = BufReader::new(File::open(path).map_err(FetchError::io(path))?);
            let reader =
                zstd::Decoder::with_buffer(file).map_err(|error| target.damaged(format!("not zstd: {error}")))?;
            target.unpack(reader)?;
        }
        Found::TarGz(path) => {
            let file = BufReader::new(File::open(path).map_err(FetchError::io(path))?);
            target.unpack(flate2::bufread::GzDecoder::new(file))?;
        }
    }
    target.make_links()?;
    sync_folders(into)
}

struct Target<'a> {
    root: &'a Path,
    ident: &'a ReleaseIdent,
    bytes: u64,
    entries: usize,
    /// Made last, so that no file is ever written through one.
    links: Vec<(PathBuf, PathBuf)>,
}

impl Target<'_> {
    fn damaged(&self, problem: String) -> FetchError {
        FetchError::Damaged { ident: self.ident.clone(), problem }
    }

    fn copy_folder(&mut self, from: &Path) -> Result<(), FetchError> {
        for entry in walk(from)? {
            match entry.kind {
                EntryKind::Folder => self.make_folder(&entry.path)?,
                EntryKind::File { is_executable } => {
                    let path = from.join(&entry.path);
                    let file = File::open(&path).map_err(FetchError::io(&path))?;
                    self.write_file(&entry.path, if is_executable { 0o755 } else { 0o644 }, file)?;
                }
                EntryKind::Link { target } => self.keep_link(entry.path, target)?,
            }
        }
        Ok(())
    }

    fn unpack(&mut self, reader: impl Read) -> Result<(), FetchError> {
        let mut archive = tar::Archive::new(reader);
        let entries = archive.entries().map_err(|error| self.damaged(format!("not a tar archive: {error}")))?;
        for entry in entries {
            let mut entry = entry.map_err(|error| self.damaged(format!("the archive breaks off: {error}")))?;
            let path = entry.path().map_err(|error| self.damaged(error.to_string()))?.into_owned();
            let kind = entry.header().entry_type();
            if matches!(kind, EntryType::XGlobalHeader) || (kind.is_dir() && path == Path::new("./")) {
                continue;
            }
            if !is_inside(&path) {
                return Err(self.damaged(format!("the entry {} leads out of the release", path.display())));
            }
            let mode = entry.header().mode().unwrap_or(0o644);
            let link = entry.link_name().map_err(|error| self.damaged(error.to_string()))?.map(|l| l.into_owned());
            match (kind, link) {
                (EntryType::Directory, _) => self.make_folder(&path)?,
                (EntryType::Regular | EntryType::Continuous, _) => {
                    self.write_file(&path, if mode & 0o100 != 0 { 0o755 } else { 0o644 }, &mut entry)?;
                }
                (EntryType::Symlink, Some(target)) => self.keep_link(path, target)?,
                (EntryType::Link, Some(target)) => self.copy_hard_link(&path, &target)?,
                (kind, _) => {
                    return Err(self.damaged(format!("the entry {} is a {kind:?}, which is refused", path.display())));
                }
            }
        }
        Ok(())
    }

    fn count(&mut self, path: &Path) -> Result<(), FetchError> {
        self.entries += 1;
        if self.entries > MAX_ENTRIES {
            return Err(self.damaged(format!("more than {MAX_ENTRIES} entries, at {}", path.display())));
        }
        Ok(())
    }

    fn make_folder(&mut self, path: &Path) -> Result<(), FetchError> {
        self.count(path)?;
        let full = self.root.join(path);
        fs::create_dir_all(&full).map_err(FetchError::io(&full))
    }

    fn write_file(&mut self, path: &Path, mode: u32, mut content: impl Read) -> Result<(), FetchError> {
        self.count(path)?;
        let full = self.root.join(path);
        let left = MAX_BYTES - self.bytes;
        let mut write = || -> io::Result<u64> {
            if let Some(parent) = full.parent() {
                fs::create_dir_all(parent)?;
            }
            let mut file = File::options().write(true).create_new(true).mode(mode).open(&full)?;
            let bytes = io::copy(&mut content.by_ref().take(left + 1), &mut file)?;
            file.flush()?;
            // Whatever the umask is: the run bit counts.
            file.set_permissions(fs::Permissions::from_mode(mode))?;
            file.sync_all()?;
            Ok(bytes)
        };
        let bytes = write().map_err(FetchError::io(&full))?;
        self.bytes += bytes;
        if bytes > left {
            return Err(self.damaged(format!("more than {MAX_BYTES} bytes, at {}", path.display())));
        }
        Ok(())
    }

    fn keep_link(&mut self, path: PathBuf, target: PathBuf) -> Result<(), FetchError> {
        self.count(&path)?;
        if !link_is_inside(&path, &target) {
            let (path, target) = (path.display(), target.display());
            return Err(self.damaged(format!("the link {path} leads out of the release, to {target}")));
        }
        self.links.push((path, target));
        Ok(())
    }

    /// A hard link becomes a second file.
    fn copy_hard_link(&mut self, path: &Path, target: &Path) -> Result<(), FetchError> {
        if !is_inside(target) {
            let (path, target) = (path.display(), target.display());
            return Err(self.damaged(format!("the link {path} leads out of the release, to {target}")));
        }
        let full = self.root.join(target);
        let file = File::open(&full).map_err(FetchError::io(&full))?;
        let mode = file.metadata().map_err(FetchError::io(&full))?.permissions().mode();
        self.write_file(path, mode & 0o777, file)
    }

    fn make_links(&self) -> Result<(), FetchError> {
        for (path, target) in &self.links {
            let full = self.root.join(path);
            let parent = full.parent().unwrap_or(self.root);
            fs::create_dir_all(parent).and_then(|()| symlink(target, &full)).map_err(FetchError::io(&full))?;
        }
        Ok(())
    }
}

fn sync_folders(root: &Path) -> Result<(), FetchError> {
    let folders = walk(root)?.into_iter().filter(|entry| matches!(entry.kind, EntryKind::Folder));
    for path in folders.map(|entry| root.join(entry.path)).chain([root.to_owned()]) {
        File::open(&path).and_then(|folder| folder.sync_all()).map_err(FetchError::io(&path))?;
    }
    Ok(())
}
