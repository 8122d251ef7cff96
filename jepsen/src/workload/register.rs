//! Registers: groups whose configuration is the value. Several clients write, write on condition of a revision, read with
//! and without the leader, and send requests a second time; each through whichever peer comes next.

use std::collections::BTreeMap;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rollcall_proto::v1;
use rollcall_proto::v1::group_service_client::GroupServiceClient;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tonic::Status;

use crate::hosts::door::{Door, within};
use crate::ops::Kind;
use crate::ops::book::{Book, Entry};
use crate::ops::outcome;
use crate::workload::Plant;

/// What this workload asks; a run has at least one `Ok` of each.
pub const DEEDS: [&str; 5] = ["write", "cas", "read", "stale_read", "resend"];

/// BOUND: one try. About as long as an election: some fall short of it, and nobody knows what came of them.
const TRY_FOR: Duration = Duration::from_secs(1);

/// BOUND: tries of one write whose outcome isn't known, all with the same request id.
const TRIES: usize = 3;

/// Arguments and answer of an operation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    /// Which register.
    pub key: String,
    /// What was written, or read. Nobody writes a value twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<u64>,
    /// A conditional write: the revision that it expects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<u64>,
    /// A conditional write: the value at that revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
    /// A write: its own revision. A read: the revision of the state that was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<u64>,
    /// A read: the revision that last changed the register.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified: Option<u64>,
    /// A write's request id; the log carries it too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// One client.
pub struct Client {
    doors: Vec<Door>,
    book: Book,
    random: StdRng,
    process: u64,
    /// Keys, and what this client last saw in them: value and revision.
    seen: BTreeMap<String, Option<(u64, u64)>>,
    /// Its last write that took effect.
    latest_write: Option<Access>,
    /// The first value that this client writes, and how many it has written.
    values: (u64, u64),
    /// How long it rests between two operations, on average.
    rest: Duration,
    /// What is wrong with it.
    plant: Option<Plant>,
}

impl Client {
    /// The n-th client; its values are its own.
    pub fn new(number: u64, doors: &[Door], book: &Book, keys: usize, seed: u64, rest: Duration) -> Self {
        let seen = (0..keys).map(|key| (format!("k{key}"), None)).collect();
        Self {
            doors: doors.to_vec(),
            book: book.clone(),
            random: StdRng::seed_from_u64(seed.wrapping_add(number)),
            process: book.new_process(),
            seen,
            latest_write: None,
            values: ((number + 1) * 1_000_000_000, 0),
            rest,
            plant: None,
        }
    }

    /// The same with a fault in it.
    pub fn with(self, plant: Option<Plant>) -> Self {
        Self { plant, ..self }
    }

    /// Writes each register once, so that there is something to read. Until that has an outcome nothing else begins.
    pub async fn write_all(&mut self) {
        for key in self.keys() {
            while self.seen.get(&key).copied().flatten().is_none() {
                self.write(&key, false).await;
            }
        }
    }

    /// Works until it is told to stop.
    pub async fn work(mut self, stop: watch::Receiver<bool>) {
        while !*stop.borrow() {
            self.act().await;
            let rest = u64::try_from(self.rest.as_micros()).unwrap_or(u64::MAX);
            let rest = Duration::from_micros(self.random.random_range(0..=2 * rest));
            tokio::time::sleep(rest).await;
        }
    }

    /// The end of a run: at each peer every register is read and written once more. An error names what failed.
    pub async fn last_look(&mut self) -> anyhow::Result<()> {
        for door in self.doors.clone() {
            for key in self.keys() {
                let kind = self.read_at(&door, &key, false).await;
                anyhow::ensure!(kind == Kind::Ok, "the last read of {key} at {} failed", door.name);
            }
            let key = self.keys().first().cloned().unwrap_or_default();
            let kind = self.write_at(&door, &key, false).await;
            anyhow::ensure!(kind == Kind::Ok, "the last write at {} has no outcome", door.name);
        }
        Ok(())
    }

    async fn act(&mut self) {
        let keys = self.keys();
        let Some(key) = keys.choose(&mut self.random).cloned() else { return };
        match self.random.random_range(0..100) {
            0..30 => self.read(&key, false).await,
            30..42 => self.read(&key, true).await,
            42..67 => self.write(&key, false).await,
            67..94 => self.write(&key, true).await,
            _ => self.send_again().await,
        }
    }

    async fn read(&mut self, key: &str, stale: bool) {
        let Some(door) = self.any_door() else { return };
        self.read_at(&door, key, stale).await;
    }

    async fn read_at(&mut self, door: &Door, key: &str, stale: bool) -> Kind {
        let f = if stale { "stale_read" } else { "read" };
        let mut access = Access { key: key.to_owned(), ..Access::default() };
        self.note(Kind::Invoke, f, &access, door, None);
        let name = format!("{key}.register");
        let stale = stale || self.plant == Some(Plant::StaleReads);
        let request = v1::GetGroupRequest { name, options: Some(v1::ReadOptions { stale }) };
        match within_try(GroupServiceClient::new(door.channel.clone()).get(within(TRY_FOR, request))).await {
            Ok(answer) => {
                let group = answer.group.unwrap_or_default();
                access.value = group.spec.and_then(|spec| value_of(&spec.config.unwrap_or_default()));
                (access.revision, access.modified) = (Some(answer.revision), Some(group.modified_revision));
                if let Some(value) = access.value {
                    self.seen.insert(key.to_owned(), Some((value, group.modified_revision)));
                }
                self.note(Kind::Ok, f, &access, door, None);
                Kind::Ok
            }
            Err(status) => {
                self.note(Kind::Fail, f, &access, door, Some(outcome::name(&status)));
                Kind::Fail
            }
        }
    }

    async fn write(&mut self, key: &str, on_condition: bool) {
        let Some(door) = self.any_door() else { return };
        self.write_at(&door, key, on_condition).await;
    }

    async fn write_at(&mut self, door: &Door, key: &str, on_condition: bool) -> Kind {
        self.values.1 += 1;
        let value = self.values.0 + self.values.1;
        let seen = self.seen.get(key).copied().flatten().filter(|_| on_condition);
        let access = Access {
            key: key.to_owned(),
            value: Some(value),
            expected: seen.map(|(_, revision)| revision),
            from: seen.map(|(value, _)| value),
            request_id: Some(format!("v{value}")),
            ..Access::default()
        };
        let f = if seen.is_some() { "cas" } else { "write" };
        self.note(Kind::Invoke, f, &access, door, None);
        let (kind, error, revision, door) = self.try_until_known(&access, door).await;
        let done = Access { revision, ..access };
        self.note(kind, f, &done, &door, error);
        match (kind, revision) {
            (Kind::Ok, Some(revision)) => {
                self.seen.insert(key.to_owned(), Some((value, revision)));
                self.latest_write = Some(done);
            }
            // It can't know what it has done: another one goes on in its place.
            (Kind::Info, _) => self.process = self.book.new_process(),
            _ => {}
        }
        kind
    }

    /// Sends it, and where the answer doesn't say what came of it often again, with the same request id, at another peer.
    /// What the log then says is said of the first one.
    async fn try_until_known(&mut self, access: &Access, first: &Door) -> (Kind, Option<String>, Option<u64>, Door) {
        let mut door = first.clone();
        let mut doubt: Option<String> = None;
        for _ in 0..TRIES {
            match self.send(access, &door).await {
                Ok(revision) => return (Kind::Ok, None, Some(revision), door),
                Err(status) => {
                    let name = outcome::name(&status);
                    let is_decided = outcome::is_the_logs_word(&status);
                    match outcome::of_write(&status) {
                        // Behind a doubt only the log's own word counts: that this try wasn't proposed says nothing of the
                        // one before.
                        Kind::Fail if doubt.is_none() || is_decided => return (Kind::Fail, Some(name), None, door),
                        Kind::Fail => {}
                        _ => doubt = Some(name),
                    }
                }
            }
            if self.random.random_bool(0.3) {
                break;
            }
            door = self.any_door().unwrap_or(door);
        }
        (Kind::Info, doubt, None, door)
    }

    /// A request that was answered is sent once more: it has one outcome.
    async fn send_again(&mut self) {
        let (Some(access), Some(door)) = (self.latest_write.clone(), self.any_door()) else { return };
        let asked = Access { revision: None, ..access.clone() };
        self.note(Kind::Invoke, "resend", &asked, &door, None);
        match self.send(&access, &door).await {
            Ok(revision) => {
                self.note(Kind::Ok, "resend", &Access { revision: Some(revision), ..asked }, &door, None);
            }
            Err(status) => {
                // Whatever came of it: the request it repeats took effect long ago.
                self.note(Kind::Fail, "resend", &asked, &door, Some(outcome::name(&status)));
            }
        }
    }

    async fn send(&mut self, access: &Access, door: &Door) -> Result<u64, Status> {
        let request_id = access.request_id.clone().unwrap_or_default();
        if self.plant == Some(Plant::LostWrites)
            && let Some((_, revision)) = self.seen.get(&access.key).copied().flatten()
            && self.random.random_bool(0.01)
        {
            return Ok(revision + 1);
        }
        let spec = v1::GroupSpec {
            name: format!("{}.register", access.key),
            package: Some("acme/register".to_owned()),
            config: Some(format!("value = {}\n", access.value.unwrap_or_default())),
            ..Default::default()
        };
        let options = v1::WriteOptions {
            reason: request_id.clone(),
            request_id: if self.plant == Some(Plant::NoRequestIds) { String::new() } else { request_id },
            expected_revision: access.expected.unwrap_or(0),
            actor: "register".to_owned(),
        };
        let request = v1::ApplyGroupRequest { spec: Some(spec), options: Some(options) };
        let call = GroupServiceClient::new(door.channel.clone());
        let answer = within_try({ call }.apply(within(TRY_FOR, request))).await?;
        Ok(answer.revision)
    }

    fn note(&self, kind: Kind, f: &str, access: &Access, door: &Door, error: Option<String>) {
        let value = serde_json::to_value(access).unwrap_or_default();
        let (process, peer) = (Some(self.process), Some(door.name.clone()));
        self.book.add(Entry { process, kind, f: f.to_owned(), value, peer, error });
    }

    fn any_door(&mut self) -> Option<Door> {
        self.doors.choose(&mut self.random).cloned()
    }

    fn keys(&self) -> Vec<String> {
        self.seen.keys().cloned().collect()
    }
}

/// The deadline that the server is told of is ours too: its answer may be lost.
async fn within_try<T>(call: impl Future<Output = Result<tonic::Response<T>, Status>>) -> Result<T, Status> {
    match tokio::time::timeout(TRY_FOR, call).await {
        Ok(answer) => Ok(answer?.into_inner()),
        Err(_) => Err(Status::deadline_exceeded("no answer in time")),
    }
}

/// The value in a configuration.
fn value_of(config: &str) -> Option<u64> {
    config.trim().strip_prefix("value = ")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_is_a_value() {
        assert_eq!(value_of("value = 17\n"), Some(17));
        assert_eq!(value_of(""), None);
    }
}
