//! Where operations are written down as they happen: in memory, and as lines of JSON on disk.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::clock::Clock;
use crate::ops::{Kind, Op};

/// A history that grows. Copies write into the same one.
#[derive(Debug, Clone)]
pub struct Book {
    pages: Arc<Mutex<Pages>>,
    clock: Clock,
}

#[derive(Debug)]
struct Pages {
    file: File,
    ops: Vec<Op>,
    next_process: u64,
}

/// What is to be written down; place and time are the book's.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The logical process; none: the nemesis.
    pub process: Option<u64>,
    /// What it says.
    pub kind: Kind,
    /// What was asked.
    pub f: String,
    /// Arguments and answer.
    pub value: Value,
    /// Whom it was asked, or who answered.
    pub peer: Option<String>,
    /// Why it isn't `Ok`.
    pub error: Option<String>,
}

impl Book {
    /// An empty one, with its file at `path`.
    pub fn create(path: &Path, clock: Clock) -> Result<Self> {
        let file = File::create(path).with_context(|| format!("can't create {}", path.display()))?;
        let pages = Pages { file, ops: Vec::new(), next_process: 0 };
        Ok(Self { pages: Arc::new(Mutex::new(pages)), clock })
    }

    /// A logical process that nobody was before.
    pub fn new_process(&self) -> u64 {
        let mut pages = self.lock();
        pages.next_process += 1;
        pages.next_process - 1
    }

    /// Writes a line; its place. An invocation is written before anything is sent, a completion after the answer is there.
    pub fn add(&self, entry: Entry) -> u64 {
        let mut pages = self.lock();
        // Under the lock: places and times have the same order.
        let time = u64::try_from(self.clock.now().as_nanos()).unwrap_or(u64::MAX);
        let Entry { process, kind, f, value, peer, error } = entry;
        let index = pages.ops.len() as u64;
        let op = Op { index, time, process, kind, f, value, peer, error };
        if let Ok(mut line) = serde_json::to_vec(&op) {
            line.push(b'\n');
            // The memory has it all; the file is for whoever comes later, and for a run that is aborted.
            let _ = pages.file.write_all(&line);
        }
        pages.ops.push(op);
        index
    }

    /// How many operations came out so.
    pub fn count(&self, f: Option<&str>, kind: Kind) -> usize {
        let wanted = |op: &&Op| op.kind == kind && op.process.is_some() && f.is_none_or(|f| op.f == f);
        self.lock().ops.iter().filter(wanted).count()
    }

    /// All lines so far.
    pub fn ops(&self) -> Vec<Op> {
        self.lock().ops.clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads what a file of lines holds; a last line that was cut off is left out.
pub fn read_lines<T: serde::de::DeserializeOwned>(path: &Path) -> Result<Vec<T>> {
    let file = File::open(path).with_context(|| format!("can't open {}", path.display()))?;
    let lines: Vec<String> = BufReader::new(file).lines().collect::<Result<_, _>>()?;
    let last = lines.len().saturating_sub(1);
    let mut found = Vec::with_capacity(lines.len());
    for (place, line) in lines.iter().enumerate() {
        match serde_json::from_str(line) {
            Ok(item) => found.push(item),
            Err(_) if place == last => {}
            Err(error) => return Err(error).with_context(|| format!("{}, line {}", path.display(), place + 1)),
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_again_but_for_a_line_that_was_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history.jsonl");
        let book = Book::create(&path, Clock::start()).unwrap();
        let process = Some(book.new_process());
        for kind in [Kind::Invoke, Kind::Ok] {
            let (f, value) = ("read".to_owned(), Value::from(7));
            book.add(Entry { process, kind, f, value, peer: Some("peer-1".into()), error: None });
        }
        assert_eq!(book.count(Some("read"), Kind::Ok), 1);
        let mut text = std::fs::read_to_string(&path).unwrap();
        text.push_str("{\"index\":2,\"ti");
        std::fs::write(&path, text).unwrap();
        assert_eq!(read_lines::<Op>(&path).unwrap(), book.ops());
    }
}
