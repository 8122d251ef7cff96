//! What happened, in order: one line per event, and a digest of them all. Two runs of one seed have the same digest, or
//! something in them isn't determined by the seed.

use std::fmt::Display;
use std::io::Write;

/// The trace of one run.
pub struct Trace {
    hasher: blake3::Hasher,
    count: u64,
    sinks: Vec<Box<dyn Write + Send>>,
}

impl Trace {
    /// Written to these as it goes.
    #[must_use]
    pub fn new(sinks: Vec<Box<dyn Write + Send>>) -> Self {
        Self { hasher: blake3::Hasher::new(), count: 0, sinks }
    }

    /// `who` did `what`, so long after the beginning.
    pub fn note(&mut self, at_ms: u64, who: &str, what: impl Display) {
        let line = format!("{:>8}.{:03} {who:<4} {what}\n", at_ms / 1000, at_ms % 1000);
        self.hasher.update(line.as_bytes());
        self.count += 1;
        for sink in &mut self.sinks {
            // Whoever reads it may have gone; the digest is what counts.
            let _ = sink.write_all(line.as_bytes());
        }
    }

    /// How many events there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Of all lines so far.
    #[must_use]
    pub fn digest(&self) -> String {
        self.hasher.finalize().to_hex()[..16].to_owned()
    }
}
