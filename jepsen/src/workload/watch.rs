//! Followers of the events: each holds a watch at one peer for a while, then goes on at another from where it was, also
//! where the peer was taken from it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rollcall_proto::v1;
use rollcall_proto::v1::event_service_client::EventServiceClient;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::hosts::door::Door;
use crate::ops::Kind;
use crate::ops::book::{Book, Entry};
use crate::ops::outcome;

/// What this workload asks.
pub const DEEDS: [&str; 1] = ["watch"];

/// How many follow.
pub const FOLLOWERS: u64 = 4;

/// How long a follower stays at one peer, in milliseconds.
const STAYS_MS: std::ops::Range<u64> = 500..8_000;

/// BOUND: how long a follower may take to the end, once it is told where that is.
const CONVERGES_WITHIN: Duration = Duration::from_secs(20);

/// How long it waits where a peer gives it nothing.
const TRIES_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// One watch, from its opening to its end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Followed {
    /// Who follows.
    pub follower: u64,
    /// Behind which revision it asked.
    pub since: u64,
    /// Each message: its revision, and the kinds of its events; none: a mark of progress.
    pub messages: Vec<(u64, String)>,
}

/// One follower.
pub struct Follower {
    number: u64,
    doors: Vec<Door>,
    book: Book,
    random: StdRng,
    process: u64,
    since: u64,
}

impl Follower {
    /// The n-th.
    pub fn new(number: u64, doors: &[Door], book: &Book, seed: u64) -> Self {
        let random = StdRng::seed_from_u64(seed.wrapping_mul(31).wrapping_add(number));
        Self { number, doors: doors.to_vec(), book: book.clone(), random, process: book.new_process(), since: 0 }
    }

    /// Follows until it is told to stop, and then to the revision in `goal`.
    pub async fn work(mut self, stop: watch::Receiver<bool>, goal: Arc<AtomicU64>) {
        let mut deadline = None;
        loop {
            let end = *stop.borrow();
            if end {
                let deadline = *deadline.get_or_insert_with(|| Instant::now() + CONVERGES_WITHIN);
                if self.since >= goal.load(Ordering::SeqCst) || Instant::now() > deadline {
                    return;
                }
            }
            let Some(door) = self.doors.choose(&mut self.random).cloned() else { return };
            let stays = Duration::from_millis(if end { 1_000 } else { self.random.random_range(STAYS_MS) });
            self.follow(&door, stays, &stop).await;
        }
    }

    async fn follow(&mut self, door: &Door, stays: Duration, stop: &watch::Receiver<bool>) {
        let mut followed = Followed { follower: self.number, since: self.since, messages: Vec::new() };
        self.note(Kind::Invoke, &followed, door, None);
        let until = Instant::now() + stays;
        let request = v1::WatchEventsRequest { since_revision: self.since, group: String::new() };
        let mut client = EventServiceClient::new(door.channel.clone()).max_decoding_message_size(64 << 20);
        let was_stopping = *stop.borrow();
        let error = match tokio::time::timeout(stays, client.watch(request)).await {
            Err(_) => Some("no answer in time".to_owned()),
            Ok(Err(status)) => Some(outcome::name(&status)),
            Ok(Ok(stream)) => {
                let mut stream = stream.into_inner();
                loop {
                    if *stop.borrow() && !was_stopping {
                        break None;
                    }
                    // In pieces, so that the end of the run is heard of.
                    let piece = (Instant::now() + Duration::from_millis(300)).min(until);
                    match tokio::time::timeout_at(piece, stream.message()).await {
                        Err(_) if Instant::now() >= until => break None,
                        Err(_) => {}
                        Ok(Ok(Some(message))) => {
                            let kinds: Vec<&str> = message.events.iter().map(|event| event.kind.as_str()).collect();
                            followed.messages.push((message.revision, kinds.join("+")));
                        }
                        Ok(Ok(None)) => break Some("the watch ended".to_owned()),
                        Ok(Err(status)) => break Some(outcome::name(&status)),
                    }
                }
            }
        };
        if let Some((revision, _)) = followed.messages.last() {
            self.since = *revision;
        } else if error.is_some() {
            tokio::time::sleep(TRIES_AGAIN_AFTER).await;
        }
        let kind = if followed.messages.is_empty() && error.is_some() { Kind::Fail } else { Kind::Ok };
        self.note(kind, &followed, door, error);
    }

    fn note(&self, kind: Kind, followed: &Followed, door: &Door, error: Option<String>) {
        let value = serde_json::to_value(followed).unwrap_or_default();
        let (process, peer) = (Some(self.process), Some(door.name.clone()));
        self.book.add(Entry { process, kind, f: "watch".to_owned(), value, peer, error });
    }
}
