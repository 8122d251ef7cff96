//! Packets that come late, and out of order: they wait in a queue of the kernel's (NFQUEUE) until this program, inside the
//! machine's network, lets each of them go after a time of its own.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::ErrorKind;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use nfq::{Message, Queue, Verdict};
use rand::Rng;

/// BOUND: packets that wait at once; what comes beyond that is lost, as on a real line.
const LONGEST_QUEUE: u32 = 4_096;

/// How exactly packets are late. The library's socket can't be waited for and timed at once.
const EXACT_TO: Duration = Duration::from_millis(1);

/// What the delayer has to know.
#[derive(Debug, Args)]
pub struct Delayer {
    /// The queue's number
    #[arg(long)]
    queue: u16,
    /// No packet waits less, in milliseconds
    #[arg(long)]
    least: u64,
    /// No packet waits longer, in milliseconds
    #[arg(long)]
    most: u64,
}

/// A packet that waits, ordered by when it may go.
struct Waiting {
    until: Instant,
    message: Message,
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.until == other.until
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.until.cmp(&other.until)
    }
}

/// Delays packets until it is killed. What waits then is lost.
pub fn delay(delayer: &Delayer) -> Result<()> {
    let mut queue = Queue::open().context("the kernel has no NFQUEUE")?;
    queue.bind(delayer.queue)?;
    queue.set_queue_max_len(delayer.queue, LONGEST_QUEUE)?;
    let mut random = rand::rng();
    let mut waiting: BinaryHeap<Reverse<Waiting>> = BinaryHeap::new();
    loop {
        let now = Instant::now();
        while waiting.peek().is_some_and(|Reverse(first)| first.until <= now) {
            if let Some(Reverse(Waiting { mut message, .. })) = waiting.pop() {
                message.set_verdict(Verdict::Accept);
                queue.verdict(message)?;
            }
        }
        // While nothing waits, it waits for the next packet.
        queue.set_nonblocking(!waiting.is_empty());
        match queue.recv() {
            Ok(message) => {
                let time = random.random_range(delayer.least..=delayer.most.max(delayer.least));
                waiting.push(Reverse(Waiting { until: Instant::now() + Duration::from_millis(time), message }));
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(EXACT_TO),
            Err(error) => return Err(error).context("can't read from the queue"),
        }
    }
}
