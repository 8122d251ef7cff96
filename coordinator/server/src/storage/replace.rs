//! A data directory takes the place of another one, as a whole.
//!
//! The new one is made in a folder of its own within the old one. One rename says that it counts; moving its parts to
//! their places is then finished by whoever locks the directory next, however often that is interrupted.
//!
//! # Invariants
//! - CRASH: before the rename the old directory is as it was; behind it nothing but the new one is ever started.
//! - Nothing is deleted: what was there before is kept in a folder named after its cluster.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::error::{IoContext as _, StorageError};
use super::files::{create_dir_durable, sync_dir};
use super::identity::{DataDir, IDENTITY_FILE, LOCK_FILE, read_identity};
use super::recover::{HISTORY_DIR, LOG_DIR, SNAPSHOT_DIR};

/// Where it is made. What is left of an interrupted try is removed by the next one.
const MAKING: &str = "replacement-unfinished";

/// Where it is once it counts.
const READY: &str = "replacement";

/// Within it: what was in the places of its parts.
const FORMER: &str = "former";

/// The identity last: with it the directory is a peer's again.
const PARTS: [&str; 4] = [LOG_DIR, SNAPSHOT_DIR, HISTORY_DIR, IDENTITY_FILE];

/// A data directory in the making, within the one that it will replace.
pub(super) struct Replacement<'a> {
    dir: &'a DataDir,
    path: PathBuf,
}

impl<'a> Replacement<'a> {
    /// Begins with an empty folder.
    pub(super) fn begin(dir: &'a DataDir) -> Result<Self, StorageError> {
        let path = dir.path().join(MAKING);
        remove_if_there(&path)?;
        create_dir_durable(&path)?;
        Ok(Self { dir, path })
    }

    /// Where it is made.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes it count. Its files must be synced. Returns where what was there before is kept, if there was anything.
    pub(super) fn commit(self) -> Result<Option<PathBuf>, StorageError> {
        let lock = self.path.join(LOCK_FILE);
        fs::remove_file(&lock).at("remove", &lock)?;
        // Empty: it is filled from the snapshot.
        create_dir_durable(&self.path.join(HISTORY_DIR))?;
        sync_dir(&self.path)?;
        let ready = self.dir.path().join(READY);
        fs::rename(&self.path, &ready).at("rename to", &ready)?;
        sync_dir(self.dir.path())?;
        finish(self.dir.path())
    }
}

/// Moves the parts of a replacement that counts to their places, if there is one. Returns where what was there before is.
pub(super) fn finish(dir: &Path) -> Result<Option<PathBuf>, StorageError> {
    let ready = dir.join(READY);
    if !ready.is_dir() {
        return Ok(None);
    }
    create_dir_durable(&ready.join(FORMER))?;
    let mut last = None;
    while let Some(step) = next_move(dir)? {
        step.make()?;
        last = Some(step.to);
    }
    remove_if_there(&ready)?;
    sync_dir(dir)?;
    // The last move is that of what was there before, if anything was.
    Ok(last.filter(|last| !PARTS.iter().any(|part| *last == dir.join(part))))
}

/// One rename.
#[derive(Debug)]
struct Move {
    from: PathBuf,
    to: PathBuf,
}

impl Move {
    /// It is on the disk when this returns.
    fn make(&self) -> Result<(), StorageError> {
        fs::rename(&self.from, &self.to).at("move to", &self.to)?;
        self.to.parent().map_or(Ok(()), sync_dir)?;
        self.from.parent().map_or(Ok(()), sync_dir)
    }
}

/// What comes next, by what lies on the disk alone: so it doesn't matter who did what came before.
fn next_move(dir: &Path) -> Result<Option<Move>, StorageError> {
    let (ready, former) = (dir.join(READY), dir.join(READY).join(FORMER));
    for part in PARTS {
        let (new, place) = (ready.join(part), dir.join(part));
        if exists(&new)? {
            return Ok(Some(match exists(&place)? {
                true => Move { from: place, to: former.join(part) },
                false => Move { from: new, to: place },
            }));
        }
    }
    // Its name is its cluster's; where nothing was, there is none.
    let Some(identity) = read_identity(&former.join(IDENTITY_FILE))? else { return Ok(None) };
    let mut kept = dir.join(format!("former-{}", identity.cluster));
    let mut number = 1;
    while exists(&kept)? {
        number += 1;
        kept = dir.join(format!("former-{}-{number}", identity.cluster));
    }
    Ok(Some(Move { from: former, to: kept }))
}

/// Something that makes a data directory one that is in use; none: it is empty.
pub(super) fn first_in(dir: &DataDir) -> Result<Option<String>, StorageError> {
    for entry in fs::read_dir(dir.path()).at("read", dir.path())? {
        let name = entry.at("read", dir.path())?.file_name().to_string_lossy().into_owned();
        if name != LOCK_FILE && name != MAKING {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

fn exists(path: &Path) -> Result<bool, StorageError> {
    path.try_exists().at("look for", path)
}

fn remove_if_there(path: &Path) -> Result<(), StorageError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error).at("remove", path),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use rollcall_ident::{ClusterId, PeerId};

    use super::super::identity::Identity;
    use super::*;

    const OLD: Identity = Identity { cluster: ClusterId([7; 16]), peer: PeerId(3) };
    const NEW: Identity = Identity { cluster: ClusterId([9; 16]), peer: PeerId(3) };

    /// A peer's folder, each part with a file that says whose it is.
    fn lay_out(path: &Path, identity: Identity, whose: &str) {
        let dir = DataDir::lock(path).unwrap();
        dir.store_identity(identity).unwrap();
        for part in [LOG_DIR, SNAPSHOT_DIR, HISTORY_DIR] {
            fs::create_dir_all(path.join(part)).unwrap();
            fs::write(path.join(part).join("whose"), whose).unwrap();
        }
    }

    fn whose(path: &Path) -> Vec<String> {
        [LOG_DIR, SNAPSHOT_DIR, HISTORY_DIR]
            .map(|part| fs::read_to_string(path.join(part).join("whose")).unwrap())
            .into()
    }

    /// A folder whose replacement counts, and no part of it has been moved.
    fn ready() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        lay_out(folder.path(), OLD, "old");
        let making = folder.path().join(MAKING);
        lay_out(&making, NEW, "new");
        fs::remove_file(making.join(LOCK_FILE)).unwrap();
        fs::rename(making, folder.path().join(READY)).unwrap();
        fs::create_dir(folder.path().join(READY).join(FORMER)).unwrap();
        folder
    }

    #[test]
    fn wherever_it_is_interrupted_the_next_start_finishes_it() {
        let mut moves = 0;
        loop {
            let folder = ready();
            for _ in 0..moves {
                next_move(folder.path()).unwrap().unwrap().make().unwrap();
            }
            let is_last = next_move(folder.path()).unwrap().is_none();
            let dir = DataDir::lock(folder.path()).unwrap();
            assert_eq!(dir.load_identity().unwrap(), Some(NEW), "after {moves} moves");
            assert_eq!(whose(folder.path()), ["new"; 3], "after {moves} moves");
            let kept = folder.path().join(format!("former-{}", OLD.cluster));
            assert_eq!(read_identity(&kept.join(IDENTITY_FILE)).unwrap(), Some(OLD));
            assert_eq!(whose(&kept), ["old"; 3]);
            assert!(!folder.path().join(READY).exists());
            if is_last {
                break;
            }
            moves += 1;
        }
        assert_eq!(moves, 9, "each part out of the way and into its place, and a name for what was there");
    }

    #[test]
    fn before_it_counts_the_old_folder_is_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        lay_out(folder.path(), OLD, "old");
        lay_out(&folder.path().join(MAKING), NEW, "half");
        let dir = DataDir::lock(folder.path()).unwrap();
        assert_eq!(dir.load_identity().unwrap(), Some(OLD));
        assert_eq!(whose(folder.path()), ["old"; 3]);
        let again = Replacement::begin(&dir).unwrap();
        assert_eq!(fs::read_dir(again.path()).unwrap().count(), 0, "what an interrupted try left is gone");
    }
}
