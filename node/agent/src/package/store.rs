//! Releases on this node's disk: `pkgs/origin/name/version/release`, each whole and checked.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rollcall_ident::{Digest, ReleaseIdent};

use super::unpack::bring;
use super::{FetchError, Found, Release, Source, digest_of_file, digest_of_tree};
use crate::disk::{DiskError, create_dir, sync_dir, write_atomic};

/// In a release's folder: the digest of what it was fetched from.
const DIGEST_FILE: &str = ".rollcall-digest";

/// The folder of releases.
#[derive(Debug, Clone)]
pub struct PackageStore {
    root: PathBuf,
}

impl PackageStore {
    /// Opens the store; what was being fetched when the agent died is removed.
    ///
    /// # Errors
    /// [`DiskError`]
    pub fn open(root: &Path) -> Result<Self, DiskError> {
        let store = Self { root: root.to_owned() };
        let new = store.new_folder();
        if new.exists() {
            fs::remove_dir_all(&new).map_err(DiskError::new("remove", &new))?;
        }
        create_dir(&new)?;
        Ok(store)
    }

    fn new_folder(&self) -> PathBuf {
        self.root.join(".new")
    }

    fn folder(&self, ident: &ReleaseIdent) -> PathBuf {
        self.root.join(ident.bare().to_string())
    }

    /// Reads a release that lies here.
    ///
    /// # Errors
    /// [`FetchError::NotFound`], or what has been broken in it since.
    pub fn load(&self, ident: &ReleaseIdent) -> Result<Release, FetchError> {
        let folder = self.folder(ident);
        if !folder.is_dir() {
            return Err(FetchError::NotFound { ident: ident.clone(), place: self.root.display().to_string() });
        }
        Release::load(&folder, ident)
    }

    /// The digest of a release that lies here; none: it doesn't.
    #[must_use]
    pub fn digest(&self, ident: &ReleaseIdent) -> Option<Digest> {
        let text = fs::read_to_string(self.folder(ident).join(DIGEST_FILE)).ok()?;
        text.trim().parse().ok()
    }

    /// Whether a release lies here with the digest that it must have.
    #[must_use]
    pub fn has(&self, ident: &ReleaseIdent, expected: Option<Digest>) -> bool {
        self.digest(ident).is_some_and(|found| expected.is_none_or(|expected| expected == found))
    }

    /// Sees that a release lies here, verified, and gives its digest. Blocks while it copies.
    ///
    /// # Errors
    /// [`FetchError`]; whatever lay here still does.
    pub fn fetch(&self, source: &Source, ident: &ReleaseIdent, expected: Option<Digest>) -> Result<Digest, FetchError> {
        if let Some(found) = self.digest(ident).filter(|_| self.has(ident, expected)) {
            self.load(ident)?;
            return Ok(found);
        }
        let found = source.find(ident)?;
        let new = self.new_folder().join(uuid::Uuid::new_v4().to_string());
        let fetched = self.fetch_into(&new, &found, ident, expected);
        if fetched.is_err() {
            // Best effort: the store removes it at the next start too.
            let _ = fs::remove_dir_all(&new);
        }
        fetched
    }

    fn fetch_into(
        &self,
        new: &Path,
        found: &Found,
        ident: &ReleaseIdent,
        expected: Option<Digest>,
    ) -> Result<Digest, FetchError> {
        fs::create_dir(new).map_err(FetchError::io(new))?;
        let digest = match found {
            Found::TarZst(path) | Found::TarGz(path) => {
                let digest = digest_of_file(path)?;
                check_digest(ident, expected, digest)?;
                bring(found, new, ident)?;
                digest
            }
            // The copy is what counts: the folder may change while it is copied.
            Found::Folder(_) => {
                bring(found, new, ident)?;
                let digest = digest_of_tree(new)?;
                check_digest(ident, expected, digest)?;
                digest
            }
        };
        Release::load(new, ident)?;
        write_atomic(&new.join(DIGEST_FILE), format!("{digest}\n").as_bytes())?;
        self.publish(new, ident)?;
        Ok(digest)
    }

    /// CRASH: between the two renames the release is missing; it is fetched again then.
    fn publish(&self, new: &Path, ident: &ReleaseIdent) -> Result<(), FetchError> {
        let folder = self.folder(ident);
        let parent = folder.parent().unwrap_or(&self.root);
        create_dir(parent)?;
        if folder.exists() {
            let old = new.with_extension("old");
            fs::rename(&folder, &old).map_err(FetchError::io(&folder))?;
            let _ = fs::remove_dir_all(&old);
        }
        fs::rename(new, &folder).map_err(FetchError::io(&folder))?;
        for dir in parent.ancestors().take_while(|dir| dir.starts_with(&self.root)) {
            sync_dir(dir)?;
        }
        Ok(())
    }

    /// Which releases of a package lie here.
    #[must_use]
    pub fn releases_of(&self, ident: &ReleaseIdent) -> Vec<ReleaseIdent> {
        let package = self.root.join(ident.package().to_string());
        let names = |dir: &Path| -> Vec<String> {
            let entries = fs::read_dir(dir).into_iter().flatten().flatten();
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
        };
        let mut releases: Vec<ReleaseIdent> = names(&package)
            .into_iter()
            .flat_map(|version| {
                names(&package.join(&version)).into_iter().map(move |release| format!("{version}/{release}"))
            })
            .filter_map(|rest| format!("{}/{rest}", ident.package()).parse().ok())
            .collect();
        releases.sort_unstable();
        releases
    }

    /// Takes a release out of the store; its files are deleted with what this returns. One that isn't there, as an agent
    /// died after it had taken it out, is out.
    ///
    /// # Errors
    /// [`DiskError`]: it is still there.
    pub fn take_out(&self, ident: &ReleaseIdent) -> Result<TakenOut, DiskError> {
        let folder = self.folder(ident);
        let doomed = self.new_folder().join(uuid::Uuid::new_v4().to_string());
        match fs::rename(&folder, &doomed) {
            Ok(()) => Ok(TakenOut(Some(doomed))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(TakenOut(None)),
            Err(error) => Err(DiskError::new("remove", &folder)(error)),
        }
    }
}

/// The files of a release that is in the store no more. What nobody deletes is deleted when the store is opened.
#[derive(Debug)]
#[must_use]
pub struct TakenOut(Option<PathBuf>);

impl TakenOut {
    /// Deletes them. Blocks, for as long as many files take.
    ///
    /// # Errors
    /// [`DiskError`]
    pub fn delete(self) -> Result<(), DiskError> {
        match self.0 {
            Some(doomed) => fs::remove_dir_all(&doomed).map_err(DiskError::new("remove", &doomed)),
            None => Ok(()),
        }
    }
}

fn check_digest(ident: &ReleaseIdent, expected: Option<Digest>, found: Digest) -> Result<(), FetchError> {
    match expected {
        Some(expected) if expected != found => Err(FetchError::DigestDiffers { ident: ident.clone(), expected, found }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_that_is_taken_out_is_out_whenever_its_files_go() {
        let folder = tempfile::tempdir().unwrap();
        let store = PackageStore::open(folder.path()).unwrap();
        let ident: ReleaseIdent = "acme/app/1.0/20260101000000".parse().unwrap();
        fs::create_dir_all(store.folder(&ident).join("hooks")).unwrap();
        let left = || fs::read_dir(store.new_folder()).unwrap().count();

        let taken_out = store.take_out(&ident).unwrap();
        assert!(matches!(store.load(&ident), Err(FetchError::NotFound { .. })));
        assert_eq!(left(), 1);
        // The agent dies here, does it once more, and has the store opened between.
        store.take_out(&ident).unwrap().delete().unwrap();
        PackageStore::open(folder.path()).unwrap();
        assert_eq!(left(), 0);
        drop(taken_out);
    }
}
