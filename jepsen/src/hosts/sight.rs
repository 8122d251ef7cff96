//! What each peer says of the cluster, looked at all the time: faults are timed by it, and the report shows who led when.
//! It proves nothing: verdicts come from elsewhere.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use rollcall_proto::v1;
use rollcall_proto::v1::cluster_service_client::ClusterServiceClient;
use rollcall_proto::v1::token_service_client::TokenServiceClient;
use serde::{Deserialize, Serialize};
use tokio::task::JoinHandle;

use crate::clock::Clock;
use crate::hosts::door::{Door, within};

/// How often each peer is looked at.
const EVERY: Duration = Duration::from_millis(200);

/// BOUND: how long a look may take.
pub const LOOKS_FOR: Duration = Duration::from_millis(400);

/// What changed at one look.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sight {
    /// Nanoseconds since the run began.
    pub at: u64,
    /// Who was looked at.
    pub peer: String,
    /// Whom it takes for the leader, by name; none: nobody, or it doesn't answer.
    pub leader: Option<String>,
    /// Whether it answered.
    pub answers: bool,
    /// Nodes that hold a token, as it knows.
    pub holders: Vec<String>,
}

/// The latest looks. Dropping it ends them.
#[derive(Debug)]
pub struct Lookout {
    latest: Arc<Mutex<BTreeMap<String, v1::ClusterStatusResponse>>>,
    tasks: Vec<JoinHandle<()>>,
}

impl Lookout {
    /// Looks at all peers from here on; changes are written to the file at `path`.
    pub fn start(doors: &[Door], path: &Path, clock: Clock) -> Result<Self> {
        let file = Arc::new(Mutex::new(std::fs::File::create(path)?));
        let latest = Arc::new(Mutex::new(BTreeMap::new()));
        let watch = |door: &Door| {
            let (door, names) = (door.clone(), doors.iter().map(|d| (d.address.clone(), d.name.clone())).collect());
            tokio::spawn(look_at(door, names, latest.clone(), file.clone(), clock))
        };
        let tasks = doors.iter().map(watch).collect();
        Ok(Self { latest, tasks })
    }

    /// What each peer that answered last time said.
    pub fn latest(&self) -> BTreeMap<String, v1::ClusterStatusResponse> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The address of the peer that takes itself for the leader; of several the one that knows most.
    pub fn leader_address(&self) -> Option<String> {
        let latest = self.latest();
        let leaders = latest.values().filter(|status| status.leader_peer_id == status.answering_peer_id);
        let leader = leaders.filter(|status| status.leader_peer_id != 0).max_by_key(|status| status.revision)?;
        leader.peers.iter().find(|peer| peer.peer_id == leader.leader_peer_id).map(|peer| peer.address.clone())
    }
}

impl Drop for Lookout {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

async fn look_at(
    door: Door,
    names: BTreeMap<String, String>,
    latest: Arc<Mutex<BTreeMap<String, v1::ClusterStatusResponse>>>,
    file: Arc<Mutex<std::fs::File>>,
    clock: Clock,
) {
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    let mut before = None;
    loop {
        ticks.tick().await;
        let status = ask(&door).await;
        let holders = if status.is_some() { holders(&door).await } else { Vec::new() };
        let sight = Sight {
            at: u64::try_from(clock.now().as_nanos()).unwrap_or(u64::MAX),
            peer: door.name.clone(),
            leader: status.as_ref().and_then(leader_address).and_then(|address| names.get(&address).cloned()),
            answers: status.is_some(),
            holders,
        };
        let mut all = latest.lock().unwrap_or_else(PoisonError::into_inner);
        match status {
            Some(status) => all.insert(door.name.clone(), status),
            None => all.remove(&door.name),
        };
        drop(all);
        let what = (sight.leader.clone(), sight.answers, sight.holders.clone());
        if before.as_ref() != Some(&what)
            && let Ok(line) = serde_json::to_string(&sight)
        {
            // It serves the report only.
            let _ = writeln!(file.lock().unwrap_or_else(PoisonError::into_inner), "{line}");
        }
        before = Some(what);
    }
}

async fn ask(door: &Door) -> Option<v1::ClusterStatusResponse> {
    let request = v1::ClusterStatusRequest { options: Some(v1::ReadOptions { stale: true }) };
    let mut client = ClusterServiceClient::new(door.channel.clone());
    let answer = tokio::time::timeout(LOOKS_FOR, client.status(within(LOOKS_FOR, request))).await;
    Some(answer.ok()?.ok()?.into_inner())
}

async fn holders(door: &Door) -> Vec<String> {
    let request = v1::ListTokensRequest { options: Some(v1::ReadOptions { stale: true }) };
    let mut client = TokenServiceClient::new(door.channel.clone());
    let answer = tokio::time::timeout(LOOKS_FOR, client.list(within(LOOKS_FOR, request))).await;
    let Ok(Ok(answer)) = answer else { return Vec::new() };
    answer.into_inner().tokens.into_iter().map(|token| token.node_name).collect()
}

fn leader_address(status: &v1::ClusterStatusResponse) -> Option<String> {
    let leader = status.peers.iter().find(|peer| peer.peer_id == status.leader_peer_id)?;
    Some(leader.address.clone())
}
