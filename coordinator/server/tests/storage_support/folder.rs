//! Data directories of tests: copies that stand for a crash, and damage.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// What a process that is killed now would leave: its files as the system has them. Nothing is closed or flushed first.
pub fn as_if_killed(dir: &Path) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    copy_folder(dir, copy.path());
    copy
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

/// Every `step`-th number up to `end`, or all of them if `ROLLCALL_FULL` is set.
pub fn sampled(end: u64, step: u64) -> impl Iterator<Item = u64> {
    let step = if std::env::var_os("ROLLCALL_FULL").is_some() { 1 } else { step };
    (0..end).step_by(usize::try_from(step).unwrap())
}
