//! A client that writes to one shard and reads back what was acknowledged to it.
//!
//! Redis replicates asynchronously: a write counts as acknowledged only once a replica has confirmed it, so each `SET`
//! is followed by `WAIT 1` on the same connection. A shard whose replica is away therefore acknowledges nothing; its
//! writers wait, those of the other shards don't.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use rand::Rng;
use redis::{RedisError, RedisResult};
use tokio_stream::StreamExt;

use crate::clock::Clock;
use crate::redis::ledger::{Fate, Ledger, Write};
use crate::redis::link::{Link, redirected_to};
use crate::redis::slots::{SLOT_COUNT, slot_of};
use crate::redis::topology::Topology;

/// How many shards the slots are divided into: as many as the cluster has primaries.
pub const SHARD_COUNT: usize = 3;

/// Milliseconds that a replica has to confirm a write.
const CONFIRMED_WITHIN_MS: &str = "250";

/// The pace of one writer: a steady load that a small machine carries beside everything else.
const PACE: Duration = Duration::from_millis(10);

/// BOUND: redirections followed for one write; a role that moves costs one, sometimes two.
const REDIRECTIONS: usize = 5;

/// Every so many writes one that was acknowledged earlier is read back.
const READ_EVERY: u64 = 5;

/// One client.
pub struct Writer {
    name: String,
    shard: usize,
    topology: Topology,
    ledger: Ledger,
    clock: Clock,
    links: BTreeMap<SocketAddr, Link>,
    acknowledged: Vec<(String, String)>,
}

/// Why an operation has no good answer.
enum Trouble {
    /// It certainly had no effect, and may be tried elsewhere.
    Redirected,
    /// Nobody knows.
    Unknown,
}

impl Writer {
    /// A client named `name` for one shard.
    pub fn new(name: String, shard: usize, topology: Topology, ledger: Ledger, clock: Clock) -> Self {
        Self { name, shard, topology, ledger, clock, links: BTreeMap::new(), acknowledged: Vec::new() }
    }

    /// Writes until it is aborted. A write in flight then is in no ledger: nobody was told anything about it.
    pub async fn run(mut self) {
        let mut ticks = tokio_stream::wrappers::IntervalStream::new(tokio::time::interval(PACE));
        let mut number: u64 = 0;
        while ticks.next().await.is_some() {
            number += 1;
            self.write(number).await;
            if number.is_multiple_of(READ_EVERY) {
                self.read_one_back().await;
            }
        }
    }

    async fn write(&mut self, number: u64) {
        let (key, value) = (key_in_shard(&self.name, number, self.shard), format!("{}:{number}", self.name));
        let mut fate = Fate::Unknown;
        for _ in 0..REDIRECTIONS {
            match self.set_and_wait(&key, &value).await {
                Ok(confirmed_by) => {
                    fate = if confirmed_by >= 1 { Fate::Acknowledged } else { Fate::Unknown };
                    break;
                }
                Err(Trouble::Redirected) => {}
                Err(Trouble::Unknown) => break,
            }
        }
        if fate == Fate::Acknowledged {
            self.acknowledged.push((key.clone(), value.clone()));
        }
        self.ledger.wrote(Write { key, value, fate, shard: self.shard, ended_at: self.clock.now() });
    }

    async fn set_and_wait(&mut self, key: &str, value: &str) -> Result<i64, Trouble> {
        let slot = slot_of(key);
        let primary = self.primary_of(slot).await?;
        let link = self.link_to(primary).await?;
        let answer: RedisResult<i64> = async {
            link.ask::<String>(&["SET", key, value]).await?;
            link.ask::<i64>(&["WAIT", "1", CONFIRMED_WITHIN_MS]).await
        }
        .await;
        match answer {
            Ok(confirmed_by) => Ok(confirmed_by),
            Err(error) => Err(self.trouble(slot, primary, &error).await),
        }
    }

    async fn read_one_back(&mut self) {
        if self.acknowledged.is_empty() {
            return;
        }
        let (key, value) = self.acknowledged[rand::rng().random_range(0..self.acknowledged.len())].clone();
        for _ in 0..REDIRECTIONS {
            let slot = slot_of(&key);
            let Ok(primary) = self.primary_of(slot).await else { return };
            let Ok(link) = self.link_to(primary).await else { return };
            match link.ask::<Option<String>>(&["GET", &key]).await {
                Ok(found) => {
                    let missed = (found.as_ref() != Some(&value))
                        .then(|| format!("{key} was {found:?} at {:.2} s", self.clock.now().as_secs_f64()));
                    return self.ledger.read(missed);
                }
                // A read that fails says nothing.
                Err(error) => match self.trouble(slot, primary, &error).await {
                    Trouble::Redirected => {}
                    Trouble::Unknown => return,
                },
            }
        }
    }

    async fn primary_of(&self, slot: u16) -> Result<SocketAddr, Trouble> {
        if self.topology.primary_of(slot).is_none() {
            self.topology.refresh().await.map_err(|_| Trouble::Unknown)?;
        }
        self.topology.primary_of(slot).ok_or(Trouble::Unknown)
    }

    async fn link_to(&mut self, primary: SocketAddr) -> Result<&mut Link, Trouble> {
        if !self.links.contains_key(&primary) {
            let Ok(link) = Link::connect(primary).await else {
                // Whoever served these slots may be gone.
                let _ = self.topology.refresh().await;
                return Err(Trouble::Unknown);
            };
            self.links.insert(primary, link);
        }
        self.links.get_mut(&primary).ok_or(Trouble::Unknown)
    }

    /// What an error means, and what is learned from it.
    async fn trouble(&mut self, slot: u16, primary: SocketAddr, error: &RedisError) -> Trouble {
        if error.code() == Some("MOVED")
            && let Some(elsewhere) = redirected_to(error)
        {
            self.topology.moved(slot, elsewhere);
            return Trouble::Redirected;
        }
        self.links.remove(&primary);
        let _ = self.topology.refresh().await;
        Trouble::Unknown
    }
}

/// The key of a writer's n-th write, so that it falls into the shard. No two writes have the same.
fn key_in_shard(writer: &str, number: u64, shard: usize) -> String {
    let mut salt = 0_u32;
    loop {
        let key = format!("{writer}:{number}:{salt}");
        if usize::from(slot_of(&key)) * SHARD_COUNT / usize::from(SLOT_COUNT) == shard {
            return key;
        }
        salt += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_fall_into_their_shard_and_differ() {
        let mut keys = std::collections::BTreeSet::new();
        for shard in 0..SHARD_COUNT {
            for number in 0..100 {
                let key = key_in_shard("w", number, shard);
                assert_eq!(usize::from(slot_of(&key)) * SHARD_COUNT / usize::from(SLOT_COUNT), shard);
                assert!(keys.insert(format!("{shard}/{key}")));
            }
        }
    }
}
