//! How each peer is: what only its own process can tell, asked of all of them at once.

use std::time::Duration;

use bincode::{Decode, Encode};
use futures::future::join_all;
use rollcall_ident::{PeerId, Revision, WallTime};

use super::api::MemberStatus;
use super::client::Lane;
use super::consensus::Consensus;
use super::wire::{BodyV1, ReplyV1};
use crate::storage::DiskSpace;
use crate::world::{off_the_runtime, wall_clock};

/// BOUND: for a peer to answer. One that needs longer isn't well.
const ASK: Duration = Duration::from_secs(2);

/// What a peer says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Checkup {
    /// The version it runs.
    pub version: String,
    /// Its machine's wall clock.
    pub wall_clock: WallTime,
    /// The last entry that it has applied.
    pub applied: Revision,
    /// What is free where its data lies; or what the system says.
    pub disk: Result<DiskSpace, String>,
    /// How long the slowest sync of its log took since it started, in microseconds.
    pub slowest_sync_us: u64,
}

/// A peer that was asked, and by the wall clock of who asked, when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Examined {
    /// Who.
    pub peer: PeerId,
    /// Just before it was asked.
    pub asked_at: WallTime,
    /// Just after it answered.
    pub answered_at: WallTime,
    /// What it said; or why it didn't.
    pub outcome: Result<Checkup, String>,
}

impl Consensus {
    /// How this peer is.
    pub(super) async fn checkup(&self) -> Checkup {
        let dir = self.inner.dir.clone();
        // A file system that hangs must not hang the others.
        let disk = off_the_runtime(move || dir.disk_space().map_err(|error| error.to_string()));
        Checkup {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            wall_clock: wall_clock(),
            applied: self.state().revision,
            disk: disk.await.unwrap_or_else(|error| Err(error.to_string())),
            slowest_sync_us: u64::try_from(self.log_metrics().slowest_sync.as_micros()).unwrap_or(u64::MAX),
        }
    }

    /// Asks each of `members` how it is, this peer too.
    pub async fn examine(&self, members: &[MemberStatus]) -> Vec<Examined> {
        join_all(members.iter().map(|member| self.examine_one(member))).await
    }

    async fn examine_one(&self, member: &MemberStatus) -> Examined {
        let asked_at = wall_clock();
        let outcome = if member.peer == self.peer_id() {
            tokio::time::timeout(ASK, self.checkup()).await.map_err(|_| format!("it didn't answer within {ASK:?}"))
        } else {
            self.ask_checkup(member).await
        };
        Examined { peer: member.peer, asked_at, answered_at: wall_clock(), outcome }
    }

    async fn ask_checkup(&self, member: &MemberStatus) -> Result<Checkup, String> {
        let client = self.inner.addresses.client_at(member.peer, &member.address)?;
        match client.call(Lane::Control, BodyV1::Checkup, ASK).await {
            Ok(ReplyV1::Checkup(checkup)) => Ok(*checkup),
            Ok(other) => Err(client.unexpected(&other).to_string()),
            Err(error) => Err(error.to_string()),
        }
    }
}
