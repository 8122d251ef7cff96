//! The witness: a recorder outside of the system that hooks must reach before they act.
//!
//! A hook sends one line and goes on only after the answer `ok`, which is given once the record is on the recorder's
//! disk. So what the witness does not know did not happen, and its order of begins is the order of deeds.

use std::fs::File;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
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
    /// Who is asked before an answer is given.
    gate: Mutex<Option<mpsc::UnboundedSender<Told>>>,
}

/// A record that is on disk, while its hook still waits for the answer. Dropped, it leaves the hook without one.
#[derive(Debug)]
pub struct Told {
    /// What the hook said.
    pub record: Record,
    answer: oneshot::Sender<()>,
}

impl Told {
    /// The hook may go on.
    pub fn answer(self) {
        // Where the hook is gone, nobody needs the answer.
        let _ = self.answer.send(());
    }
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
    /// Listens on a free port of loopback; records into the file at `path` as JSON lines.
    pub async fn start(path: &Path, clock: Clock) -> Result<Self> {
        Self::start_at(Ipv4Addr::LOCALHOST.into(), path, clock).await
    }

    /// The same on another of this machine's addresses.
    pub async fn start_at(host: IpAddr, path: &Path, clock: Clock) -> Result<Self> {
        let file = File::create(path).with_context(|| format!("can't create {}", path.display()))?;
        let listener = TcpListener::bind((host, 0)).await?;
        let address = listener.local_addr()?.to_string();
        let book = Arc::new(Book { pages: Mutex::new((file, History::default())), gate: Mutex::default() });
        let accepting = tokio::spawn(accept(listener, book.clone(), clock));
        Ok(Self { address, book, clock, accepting })
    }

    /// host:port, as hooks reach it.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// From here on every record waits for an answer from whoever holds the receiver, until that is dropped.
    pub fn hold(&self) -> mpsc::UnboundedReceiver<Told> {
        let (sender, receiver) = mpsc::unbounded_channel();
        *self.book.gate.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender);
        receiver
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
            let _ = serve(stream, book, clock).await;
        });
    }
}

async fn serve(stream: TcpStream, book: Arc<Book>, clock: Clock) -> Result<()> {
    let mut stream = BufReader::new(stream.take(LONGEST_LINE));
    let mut line = String::new();
    tokio::time::timeout(SPEAKS_WITHIN, stream.read_line(&mut line)).await??;
    let answer: &[u8] = match Record::parse(clock.now(), &line) {
        Some(record) => {
            let (kept, told) = (book.clone(), record.clone());
            tokio::task::spawn_blocking(move || kept.record(record)).await??;
            if !may_go_on(&book, told).await {
                return Ok(());
            }
            b"ok\n"
        }
        None => b"not a record\n",
    };
    stream.get_mut().get_mut().write_all(answer).await?;
    Ok(())
}

/// Whether the hook gets its answer.
async fn may_go_on(book: &Book, record: Record) -> bool {
    let gate = book.gate.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let Some(gate) = gate else { return true };
    let (answer, answered) = oneshot::channel();
    // Nobody holds hooks any more.
    gate.send(Told { record, answer }).is_err() || answered.await.is_ok()
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

    #[tokio::test]
    async fn a_held_hook_goes_on_only_once_it_is_answered() {
        let folder = tempfile::tempdir().unwrap();
        let witness = Witness::start(&folder.path().join("witness"), Clock::start()).await.unwrap();
        let mut held = witness.hold();
        let line = "event=begin\thook=install\tpid=1\tnode=n1\n";
        let address = witness.address().to_owned();
        let hook = tokio::spawn(async move { tell(&address, line).await });
        let told = held.recv().await.unwrap();
        assert_eq!((told.record.hook.as_str(), witness.history().records.len()), ("install", 1));
        assert!(!hook.is_finished());
        told.answer();
        assert_eq!(hook.await.unwrap(), "ok\n");

        let address = witness.address().to_owned();
        let hook = tokio::spawn(async move { tell(&address, line).await });
        drop(held.recv().await.unwrap());
        assert_eq!(hook.await.unwrap(), "", "no answer");
        drop(held);
        assert_eq!(tell(witness.address(), line).await, "ok\n");
    }
}
