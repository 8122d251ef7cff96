//! Data directories of tests: copies that stand for a crash, and damage.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tempfile::TempDir;

/// A folder that is gone after the test: in memory where the system has that, because thousands of syncs add nothing here.
pub fn scratch() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// What a process that is killed now would leave: its files as the system has them. Nothing is closed or flushed first.
pub fn as_if_killed(dir: &Path) -> TempDir {
    loop {
        let (before, copy) = (listing(dir), scratch());
        copy_folder(dir, copy.path());
        // Its threads may be at work: a copy that mixes two moments is none that a crash leaves.
        if listing(dir) == before {
            return copy;
        }
    }
}

/// All files below a folder, with what shows that they were written to.
fn listing(dir: &Path) -> Vec<(PathBuf, u64, Option<SystemTime>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(listing(&path));
        } else if let Ok(metadata) = fs::metadata(&path) {
            found.push((path, metadata.len(), metadata.modified().ok()));
        }
    }
    found.sort();
    found
}

pub fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &target);
        } else if fs::copy(entry.path(), &target).is_err() {
            // Unlinked meanwhile by the thread that purges, as it may be at the moment of a crash.
            assert!(!entry.path().exists(), "{} can't be copied", entry.path().display());
        }
    }
}

/// The files in a folder with this extension, in order.
pub fn files_with(dir: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .collect();
    found.sort();
    found
}

/// Every `step`-th number up to `end`, or every `full_step`-th if `ROLLCALL_FULL` is set.
pub fn sampled(end: u64, step: usize, full_step: usize) -> impl Iterator<Item = u64> {
    let full = std::env::var_os("ROLLCALL_FULL").is_some();
    (0..end).step_by(if full { full_step } else { step })
}
