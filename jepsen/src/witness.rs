//! The witness: a recorder outside of the system that hooks must reach before they act.
//!
//! A hook sends one line and goes on only after the answer `ok`, which is given once the record is on the recorder's
//! disk. So what the witness does not know did not happen, and its order of begins is the order of deeds.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::clock::Clock;
use crate::history::{EventKind, History, Record};

/// BOUND: a line of a hook is some 400 bytes.
const LONGEST_LINE: u64 = 16 * 1024;

/// BOUND: a hook that connects and says nothing isn't waited for.
const SPEAKS_WITHIN: Duration = Duration::from_secs(5);

/// A running recorder. Dropping it ends it.
#[derive(Debug)]
pub struct Witness {
    address: String,
    book: Arc<Book>,
    clock: Clock,
    accepting: JoinHandle<()>,
}

/// What was recorded, in memory and on disk.
#[derive(Debug)]
struct Book {
    pages: Mutex<(File, History)>,
}

impl Book {
    /// Returns once the record is on disk.
    fn record(&self, record: Record) -> Result<()> {
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        let (file, history) = &mut *pages;
        serde_json::to_writer(&mut *file, &record)?;
        file.write_all(b"\n")?;
        file.sync_data()?;
        history.records.push(record);
        Ok(())
    }
}

impl Witness {
    /// Listens on a free port; records into the file at `path` as JSON lines.
    pub async fn start(path: &Path, clock: Clock) -> Result<Self> {
        let file = File::create(path).with_context(|| format!("can't create {}", path.display()))?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        let book = Arc::new(Book { pages: Mutex::new((file, History::default())) });
        let accepting = tokio::spawn(accept(listener, book.clone(), clock));
        Ok(Self { address, book, clock, accepting })
    }

    /// host:port, as hooks reach it.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// What it saw so far.
    pub fn history(&self) -> History {
        self.book.pages.lock().unwrap_or_else(PoisonError::into_inner).1.clone()
    }

    /// The harness killed `what` of a node, and nothing of that is left.
    pub fn killed(&self, node: &str, what: &str) -> Result<()> {
        self.book.record(Record::new(self.clock.now(), EventKind::Killed, node, what))
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, book: Arc<Book>, clock: Clock) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let book = book.clone();
        tokio::spawn(async move {
            // A hook that can't be answered does not act; there is nothing to do here.
            let _ = tokio::time::timeout(SPEAKS_WITHIN, serve(stream, book, clock)).await;
        });
    }
}

async fn serve(stream: TcpStream, book: Arc<Book>, clock: Clock) -> Result<()> {
    let mut stream = BufReader::new(stream.take(LONGEST_LINE));
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    let answer: &[u8] = match Record::parse(clock.now(), &line) {
        Some(record) => {
            tokio::task::spawn_blocking(move || book.record(record)).await??;
            b"ok\n"
        }
        None => b"not a record\n",
    };
    stream.get_mut().get_mut().write_all(answer).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn tell(address: &str, line: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(line.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn a_record_is_on_disk_before_its_answer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("witness");
        let witness = Witness::start(&path, Clock::start()).await.unwrap();
        assert_eq!(tell(witness.address(), "event=begin\thook=install\tpid=1\tnode=n1\n").await, "ok\n");
        assert!(std::fs::read_to_string(&path).unwrap().contains("\"install\""));
        assert_eq!(tell(witness.address(), "nonsense\n").await, "not a record\n");
        witness.killed("n1", "agent").unwrap();
        let kinds: Vec<EventKind> = witness.history().records.iter().map(|record| record.event).collect();
        assert_eq!(kinds, [EventKind::Begin, EventKind::Killed]);
    }
}
