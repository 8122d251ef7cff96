//! The numbers with which a peer runs, and why.

use openraft::{Config, ConfigError, SnapshotPolicy, StepDownPolicy};

use crate::storage::RETAINED_REVISIONS;

/// What may be tuned. The defaults are for production; tests make snapshots small and elections short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tuning {
    /// A peer asks for an election once it has heard nothing of the leader for the leader's lease, which is
    /// `election_max_ms`, and behind it for a random time between this and `election_max_ms`.
    pub election_min_ms: u64,
    /// The longest such time, and the leader's lease: for so long after a leader's word nobody votes against it, and a
    /// leader that has heard of no majority for so long takes nothing in. The spread between the two keeps two peers from
    /// asking at once.
    pub election_max_ms: u64,
    /// How often the leader speaks up. Three heartbeats may be lost before the earliest election (lease and the shortest
    /// wait); each is answered within three quarters of it, or counts as lost, so it isn't shorter.
    pub heartbeat_ms: u64,
    /// Entries between two snapshots. At a few hundred bytes each it keeps the log at a few MiB, and a restart re-applies
    /// no more than that.
    pub snapshot_every: u64,
    /// Entries that stay in the log behind a snapshot, so that a peer that was away shortly needs no snapshot.
    pub keep_entries: u64,
    /// Entries purged at once: each purge is a record in the log, and unlinks whole files only.
    pub purge_batch: u64,
    /// BOUND: revisions of which a peer keeps the events, for watches and the audit trail.
    pub history_revisions: u64,
    /// How long a peer may take to check and install a snapshot it has received.
    pub install_snapshot_ms: u64,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            // Between 0.45 and 0.6 s of silence: `scripts/bench P4` holds that against its goal. An election is two
            // syncs, one after the other, and begins anew where it isn't through after such a time: disks have to sync within
            // about 100 ms for it. Who leads goes on leading on a slower one, as heartbeats wait for no disk.
            election_min_ms: 150,
            election_max_ms: 300,
            heartbeat_ms: 100,
            snapshot_every: 5_000,
            keep_entries: 1_000,
            purge_batch: 256,
            history_revisions: RETAINED_REVISIONS,
            install_snapshot_ms: 60_000,
        }
    }
}

/// BOUND: entries in one message. The log cuts batches at 1 MiB too.
const MAX_ENTRIES_PER_APPEND: u64 = 1_024;

/// A learner counts as caught up this close to the leader: what is left takes it a moment, and as a voter it is waited
/// for at once.
const CAUGHT_UP_WITHIN: u64 = 256;

/// BOUND: requests that wait for openraft's core; each is a few words here, its bytes were bounded before.
const CORE_QUEUE: u64 = 4_096;

/// A leader that was removed serves on for so long, so that those who stay hear of it.
const STEP_DOWN_AFTER_MS: u64 = 150;

impl Tuning {
    /// openraft's configuration.
    pub(super) fn to_config(self, cluster: &str) -> Result<Config, ConfigError> {
        Config {
            cluster_name: cluster.to_owned(),
            election_timeout_min: self.election_min_ms,
            election_timeout_max: self.election_max_ms,
            heartbeat_interval: self.heartbeat_ms,
            install_snapshot_timeout: self.install_snapshot_ms,
            max_payload_entries: MAX_ENTRIES_PER_APPEND,
            replication_lag_threshold: CAUGHT_UP_WITHIN,
            snapshot_policy: SnapshotPolicy::LogsSinceLast(self.snapshot_every),
            max_in_snapshot_log_to_keep: self.keep_entries,
            purge_batch_size: self.purge_batch,
            api_channel_size: Some(CORE_QUEUE),
            notification_channel_size: Some(CORE_QUEUE),
            removed_leader_step_down: StepDownPolicy::After(STEP_DOWN_AFTER_MS),
            // A peer that was cut off must not depose a healthy leader when it comes back.
            enable_pre_vote: Some(true),
            // The state machine is in memory and the committed index isn't synced, so a restarted leader may have applied
            // less than it had confirmed: it must be elected again before it serves.
            enable_leader_restore: Some(false),
            ..Config::default()
        }
        .validate()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_valid() {
        Tuning::default().to_config("test").unwrap();
    }
}
