//! What a hook prints: into a bounded log, and the last of it in memory.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

/// How much of the end is kept for the event of a failure.
pub const TAIL_BYTES: usize = 4 << 10;

/// BOUND: of one run this much goes to the log; what follows is counted.
const RUN_BYTES: usize = 256 << 10;

/// BOUND: a log that has grown to this size is put aside (one generation) before the next run.
const LOG_BYTES: u64 = 1 << 20;

/// The last bytes of a stream.
#[derive(Debug, Default)]
struct Tail(Vec<u8>);

impl Tail {
    fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
        // Amortised: the front is cut only when as much again has gathered.
        if self.0.len() > 2 * TAIL_BYTES {
            self.0.drain(..self.0.len() - TAIL_BYTES);
        }
    }

    fn text(&self) -> String {
        let from = self.0.len().saturating_sub(TAIL_BYTES);
        String::from_utf8_lossy(&self.0[from..]).into_owned()
    }
}

/// Which stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stream {
    Out,
    Err,
}

/// Takes what one run prints.
#[derive(Debug)]
pub(super) struct Collector {
    log: Option<File>,
    logged: usize,
    skipped: u64,
    both: Tail,
    out: Tail,
}

/// What one run has printed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HookOutput {
    /// The last 4 KiB of both streams, as they came.
    pub tail: String,
    /// The last 4 KiB of stdout.
    pub stdout: String,
}

impl Collector {
    /// A log that can't be written is no reason not to run the hook: the tail is kept all the same.
    pub(super) fn open(log: &Path, headline: &str) -> Self {
        let open = || -> std::io::Result<File> {
            if fs::metadata(log).is_ok_and(|metadata| metadata.len() > LOG_BYTES) {
                fs::rename(log, log.with_extension("log.1"))?;
            }
            let mut file = File::options().create(true).append(true).open(log)?;
            writeln!(file, "-- {headline}")?;
            Ok(file)
        };
        let log = open()
            .inspect_err(|error| tracing::warn!(log = %log.display(), %error, "a hook's output isn't logged"))
            .ok();
        Self { log, logged: 0, skipped: 0, both: Tail::default(), out: Tail::default() }
    }

    pub(super) fn push(&mut self, stream: Stream, bytes: &[u8]) {
        self.both.push(bytes);
        if stream == Stream::Out {
            self.out.push(bytes);
        }
        let room = (RUN_BYTES - self.logged).min(bytes.len());
        if let Some(file) = &mut self.log {
            // A full disk costs the log, not the hook.
            let _ = file.write_all(&bytes[..room]);
        }
        self.logged += room;
        self.skipped += (bytes.len() - room) as u64;
    }

    pub(super) fn finish(mut self) -> HookOutput {
        let output = HookOutput { tail: self.both.text(), stdout: self.out.text() };
        if let (Some(file), 1..) = (&mut self.log, self.skipped) {
            let _ = writeln!(file, "\n-- {} bytes left out, up to here:\n{}", self.skipped, output.tail);
        }
        output
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_bounded_and_its_end_kept() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("install.log");
        let mut collector = Collector::open(&log, "install");
        for _ in 0..1000 {
            collector.push(Stream::Out, &[b'x'; 8192]);
        }
        collector.push(Stream::Err, b"the end");
        let output = collector.finish();
        assert!(output.tail.ends_with("xxthe end") && output.tail.len() <= TAIL_BYTES);
        assert!(output.stdout.ends_with("xx"));
        assert!(fs::metadata(&log).unwrap().len() < (RUN_BYTES + 3 * TAIL_BYTES) as u64);
    }
}
