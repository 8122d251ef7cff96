//! What the peers' own logs say: the audit trail of each, record by record. It settles what clients could not know, and it
//! has to be the same everywhere.
//!
//! It is read all the time: where the event history of each peer is damaged once in half an hour, none of them has all of it
//! in the end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use rollcall_proto::v1;
use rollcall_proto::v1::event_service_client::EventServiceClient;
use serde::{Deserialize, Serialize};
use tokio::task::JoinHandle;
use tonic::{Code, Status};

use crate::hosts::Hosts;
use crate::hosts::door::{Door, within};

/// BOUND: one page.
const PAGE_WITHIN: Duration = Duration::from_secs(10);

/// BOUND: tries of one page; a leader may change once more.
const TRIES: usize = 2;

/// In whose log stands what was read of any of them while the run went on.
pub const RECORDER: &str = "recorder";

/// How often what is new is read while the run goes on.
const EVERY: Duration = Duration::from_secs(5);

/// The largest answer that the peers give.
const MAX_BYTES: usize = 64 << 20;

/// One record in one peer's log.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Logged {
    /// Whose log.
    pub peer: String,
    /// Its revision.
    pub revision: u64,
    /// The hash that chains it to the one before.
    pub hash: String,
    /// Who did it.
    pub actor: String,
    /// Why.
    pub reason: String,
    /// What came of it: kinds of events.
    pub kinds: Vec<String>,
    /// The group that was declared, or else that of the first event: deadlines that are due come with any record.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The rollout of the first event that has one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub rollout: String,
    /// Nodes to which a token was granted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub granted: Vec<String>,
    /// Nodes whose token was taken from them by force.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub revoked: Vec<String>,
}

impl Logged {
    /// Whether it is a write of a register.
    pub fn is_register(&self) -> bool {
        self.actor == "register" && self.kinds.iter().any(|kind| kind == "group_applied")
    }

    /// As a register's write leaves it.
    #[cfg(test)]
    pub fn register(peer: &str, key: &str, value: u64, revision: u64) -> Self {
        Self {
            peer: peer.into(),
            revision,
            actor: "register".into(),
            reason: format!("v{value}"),
            kinds: vec!["group_applied".into()],
            group: format!("{key}.register"),
            ..Self::default()
        }
    }
}

/// What was collected.
#[derive(Debug, Default)]
pub struct Collected {
    /// The whole audit trail of each peer that shows one.
    pub log: Vec<Logged>,
    /// What somebody should know of how it was come by.
    pub notes: Vec<String>,
}

/// Reads the audit trails while the run goes on. Dropping it ends that.
#[derive(Debug)]
pub struct Recorder {
    read: Arc<Mutex<BTreeSet<Logged>>>,
    task: JoinHandle<()>,
}

impl Recorder {
    /// Reads from here on.
    pub fn start(doors: &[Door]) -> Self {
        let read = Arc::new(Mutex::new(BTreeSet::new()));
        let task = tokio::spawn(record(doors.to_vec(), read.clone()));
        Self { read, task }
    }

    /// What the peers show at the end, and behind it what was read. A record that was shown in two ways is there twice.
    pub async fn end(self, hosts: &Hosts) -> Result<Collected> {
        let Collected { mut log, notes } = collect(hosts).await?;
        log.extend(std::mem::take(&mut *self.read.lock().unwrap_or_else(PoisonError::into_inner)));
        Ok(Collected { log, notes })
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn record(doors: Vec<Door>, read: Arc<Mutex<BTreeSet<Logged>>>) {
    let mut reached: BTreeMap<String, u64> = BTreeMap::new();
    loop {
        for door in &doors {
            let since = reached.entry(door.name.clone()).or_default();
            loop {
                match ask(door, *since).await {
                    Ok(page) => {
                        let records = page.records.into_iter().map(|record| logged(RECORDER, record));
                        read.lock().unwrap_or_else(PoisonError::into_inner).extend(records);
                        *since = page.revision;
                        if page.more {
                            continue;
                        }
                    }
                    // Its history has begun anew, behind what was read: from its beginning.
                    Err(status) if status.code() == Code::OutOfRange => *since = 0,
                    // Asked again later.
                    Err(_) => {}
                }
                break;
            }
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// The whole audit trail of each peer. One that doesn't show it is started again, as its message says; that is noted.
async fn collect(hosts: &Hosts) -> Result<Collected> {
    let mut collected = Collected::default();
    for door in &hosts.doors {
        let mut found = read(door).await;
        if let Err(error) = &found {
            collected.notes.push(format!("{error:#}; started again"));
            let host = hosts.named(&door.name)?;
            if let Some(process) = host.process() {
                host.kill(process).await?;
            }
            if let Err(error) = hosts.await_recovery().await {
                collected.notes.push(format!("{error:#}"));
            }
            found = read(door).await;
        }
        match found {
            Ok(log) => collected.log.extend(log),
            Err(error) => collected.notes.push(format!("{error:#}")),
        }
    }
    Ok(collected)
}

async fn read(door: &Door) -> Result<Vec<Logged>> {
    let mut all = Vec::new();
    let mut since_revision = 0;
    loop {
        let page = page(door, since_revision).await?;
        all.extend(page.records.into_iter().map(|record| logged(&door.name, record)));
        since_revision = page.revision;
        if !page.more {
            return Ok(all);
        }
    }
}

async fn page(door: &Door, since_revision: u64) -> Result<v1::AuditResponse> {
    let mut latest = None;
    for _ in 0..TRIES {
        match ask(door, since_revision).await {
            Ok(answer) => return Ok(answer),
            Err(status) => latest = Some(status),
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    Err(latest.context("nobody was asked")?).with_context(|| format!("{} doesn't show its audit trail", door.name))
}

async fn ask(door: &Door, since_revision: u64) -> Result<v1::AuditResponse, Status> {
    let mut client = EventServiceClient::new(door.channel.clone()).max_decoding_message_size(MAX_BYTES);
    let request = within(PAGE_WITHIN, v1::AuditRequest { since_revision, limit: 1_000 });
    Ok(client.audit(request).await?.into_inner())
}

fn logged(peer: &str, record: v1::AuditRecord) -> Logged {
    let events = &record.events;
    let first = |pick: fn(&v1::Event) -> &String| {
        events.iter().map(pick).find(|text| !text.is_empty()).cloned().unwrap_or_default()
    };
    let nodes_of = |kind: &str| {
        events.iter().filter(|event| event.kind == kind).map(|event| event.node_name.clone()).collect::<Vec<_>>()
    };
    let declared = events.iter().find(|event| event.kind == "group_applied").map(|event| event.group.clone());
    Logged {
        peer: peer.to_owned(),
        revision: record.revision,
        hash: record.hash.iter().map(|byte| format!("{byte:02x}")).collect(),
        group: declared.unwrap_or_else(|| first(|event| &event.group)),
        rollout: first(|event| &event.rollout_id),
        granted: nodes_of("token_granted"),
        revoked: nodes_of("token_revoked"),
        kinds: events.iter().map(|event| event.kind.clone()).collect(),
        actor: record.actor,
        reason: record.reason,
    }
}
