//! Entries whose content follows from their id, so that whoever reads one back knows what it must be.

use openraft::EntryPayload;
use rollcall_coordinator::storage::types::{Entry, log_id};
use rollcall_ident::{ChannelName, ClusterTime, WallTime};
use rollcall_rollout::{Command, LogEntry, Proposal, Stamp};

/// How many channels come and go.
const CHANNELS: u64 = 40;

/// Around the size of a step report, and a few that are much larger.
fn payload_bytes(term: u64, index: u64) -> usize {
    let mixed = (term ^ index.rotate_left(32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    match mixed >> 56 {
        0..=2 => 20_000,
        size => 100 + size as usize,
    }
}

/// The one command that may stand in entry `index` of `term`. Each of them has an effect, and so an event: channels come
/// and go, so that the state stays small.
pub fn command(term: u64, index: u64) -> LogEntry {
    let turn = index - 1;
    let channel: ChannelName = format!("channel-{}", turn % CHANNELS).parse().expect("a well-formed name");
    let command = if (turn / CHANNELS).is_multiple_of(2) {
        Command::CreateChannel { channel }
    } else {
        Command::DeleteChannel { channel }
    };
    let text = format!("{term}:{index};");
    let reason = text.chars().cycle().take(payload_bytes(term, index)).collect();
    let stamp = Stamp { cluster_time: ClusterTime(index), wall_time: WallTime::default() };
    LogEntry { stamp, proposal: Proposal { reason: Some(reason), ..Proposal::internal(command) } }
}

/// The one entry that may have this id. The very first of a log carries no command, as in Raft.
pub fn entry(term: u64, index: u64) -> Entry {
    let payload = if index == 0 { EntryPayload::Blank } else { EntryPayload::Normal(command(term, index).into()) };
    Entry { log_id: log_id(term, index), payload }
}
