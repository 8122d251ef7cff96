//! The service's own log: a file that it writes itself, so that it neither blocks nor dies when the agent does.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

/// BOUND: once the log is larger, its end is put aside and it begins anew.
const LOG_BYTES: u64 = 8 << 20;

/// How much of its end is put aside.
const KEPT_BYTES: u64 = 1 << 20;

/// Opens the log for a new process.
///
/// # Errors
/// What the system says.
pub(super) fn open_log(path: &Path) -> io::Result<File> {
    File::options().create(true).append(true).open(path)
}

/// Keeps the log bounded. The process goes on writing to the same file, at its new end.
pub(super) fn bound_log(path: &Path) {
    if fs::metadata(path).is_ok_and(|metadata| metadata.len() > LOG_BYTES)
        && let Err(error) = put_aside(path)
    {
        tracing::warn!(path = %path.display(), %error, "the service's log isn't bounded");
    }
}

fn put_aside(path: &Path) -> io::Result<()> {
    let mut file = File::options().read(true).write(true).open(path)?;
    file.seek(SeekFrom::End(-KEPT_BYTES.cast_signed()))?;
    let mut kept = File::create(path.with_extension("log.1"))?;
    io::copy(&mut file.by_ref().take(KEPT_BYTES), &mut kept)?;
    file.set_len(0)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_log_is_cut_while_it_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run.log");
        let mut writer = open_log(&path).unwrap();
        let chunk = vec![b'x'; 1 << 20];
        for _ in 0..9 {
            writer.write_all(&chunk).unwrap();
        }
        bound_log(&path);
        writer.write_all(b"after").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"after");
        assert_eq!(fs::metadata(dir.path().join("run.log.1")).unwrap().len(), KEPT_BYTES);
    }
}
