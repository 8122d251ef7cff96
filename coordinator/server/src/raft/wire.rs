//! What peers say to each other, as it is on the wire.
//!
//! openraft's own encoding is no stable format, so each of its messages has a twin here: named with its version, never
//! edited once released. Every message is sealed as [`Kind::PEER_MESSAGE`].

use bincode::{CodecError, Decode, Encode, Kind};
use bytes::Bytes;
use rollcall_ident::{ClusterId, PeerId, Revision};
use rollcall_rollout::{Applied, Proposal};

use super::api::{MemberStatus, MembershipError, NotProposed, Origin, ReadError, Unknown};
use super::checkup::Checkup;
use crate::storage::{EntryV1, LogIdV1, StoredMembershipV1, VoteV1};

/// The gRPC service.
pub(super) const SERVICE: &str = "rollcall.peer.v1.Peer";
/// One request, one reply.
pub(super) const CALL: &str = "/rollcall.peer.v1.Peer/Call";
/// A stream of appends, each with its reply, in order.
pub(super) const APPEND: &str = "/rollcall.peer.v1.Peer/Append";
/// A snapshot: its head, then its chunks; one reply at the end.
pub(super) const SNAPSHOT: &str = "/rollcall.peer.v1.Peer/Snapshot";

/// BOUND: how much of a snapshot one message carries. Heartbeats share the connection with none of them, and a receiver
/// holds one at a time.
pub(super) const CHUNK_BYTES: usize = 1 << 20;

/// Addressed to whoever answers: only to ask who that is.
pub(super) const ANYBODY: PeerId = PeerId(0);

/// A message, from whom and for whom.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub(super) struct RequestV1 {
    /// The sender's cluster.
    pub cluster: ClusterId,
    /// The sender.
    pub from: PeerId,
    /// Whom it is for.
    pub to: PeerId,
    /// What it says.
    pub body: BodyV1,
}

/// What every [`RequestV1`] begins with.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub(super) struct RequestHeadV1 {
    pub cluster: ClusterId,
    pub from: PeerId,
    pub to: PeerId,
}

/// What a message says.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub(super) enum BodyV1 {
    Vote(VoteRequestV1),
    PreVote(VoteRequestV1),
    Append(AppendV1),
    SnapshotHead(SnapshotHeadV1),
    SnapshotChunk(Vec<u8>),
    TransferLeader(TransferLeaderV1),
    Identify,
    Join,
    Propose { proposal: Box<Proposal>, timeout_ms: u64 },
    ReadIndex { timeout_ms: u64 },
    Change(ChangeV1),
    Members,
    Checkup,
    WhichProcess,
}

/// Drawn at each start: two processes with one identity aren't one.
pub(super) type ProcessId = u128;

/// Asks for a vote, or whether it would be given.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub(super) struct VoteRequestV1 {
    pub vote: VoteV1,
    pub last_log_id: Option<LogIdV1>,
    pub leadership_transfer: bool,
}

/// Entries to append; none in a heartbeat.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub(super) struct AppendV1 {
    pub vote: VoteV1,
    pub prev_log_id: Option<LogIdV1>,
    pub entries: Vec<EntryV1>,
    pub leader_commit: Option<LogIdV1>,
}

/// What a snapshot covers, in front of its chunks.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub(super) struct SnapshotHeadV1 {
    pub vote: VoteV1,
    pub last_log_id: Option<LogIdV1>,
    pub membership: StoredMembershipV1,
    pub bytes: u64,
}

/// The leader asks a follower to take over.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub(super) struct TransferLeaderV1 {
    pub from_leader: VoteV1,
    pub to: u64,
    pub last_log_id: Option<LogIdV1>,
}

/// A change of the peers, asked of the leader.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub(super) enum ChangeV1 {
    AddPeer { address: String, origin: Origin },
    RemovePeer { peer: PeerId, origin: Origin },
    MoveLeader { to: PeerId },
    PeerMoved { peer: PeerId, address: String },
}

/// The answer to a message.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub(super) enum ReplyV1 {
    Refused(RefusalV1),
    Vote(VoteReplyV1),
    Appended(AppendedV1),
    SnapshotInstalled {
        vote: VoteV1,
    },
    TransferLeader(TransferLeaderReplyV1),
    Identity(IdentityV1),
    Joined,
    Proposed(ProposedV1),
    ReadIndex(Result<Revision, ReadError>),
    /// With the id of the peer that was added.
    Changed(Result<Option<PeerId>, MembershipError>),
    Members(Result<Vec<MemberStatus>, MembershipError>),
    /// It was understood, and something went wrong on the peer.
    Failed(String),
    Checkup(Box<Checkup>),
    Process(ProcessId),
}

/// Who answers.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(super) struct IdentityV1 {
    /// None: it is blank.
    pub known_as: Option<(ClusterId, PeerId)>,
    /// The highest feature level that it knows.
    pub feature_level: u32,
}

/// Why a message was not even looked at. Whoever is refused has the wrong peer, or is wrong itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Encode, Decode)]
pub(super) enum RefusalV1 {
    /// The receiver has no identity.
    #[error(
        "peer {addressed} was addressed and this peer is blank: it has no data. If it was peer {addressed}, its disk was \
         lost or replaced: run `rollcall cluster remove-peer {addressed}`, then `rollcall cluster add-peer`"
    )]
    Blank { addressed: PeerId },
    /// The receiver belongs to another cluster.
    #[error(
        "this is peer {peer} of cluster {ours}, and the message comes from cluster {theirs}: one of the two was started \
         with the other cluster's data directory or address"
    )]
    WrongCluster { ours: ClusterId, peer: PeerId, theirs: ClusterId },
    /// The receiver is another peer of the same cluster.
    #[error(
        "this is peer {ours} of cluster {cluster}, and peer {addressed} was addressed: the address of peer {addressed} \
         leads here, or this peer was started with another one's data directory"
    )]
    WrongPeer { cluster: ClusterId, ours: PeerId, addressed: PeerId },
    /// The sender isn't a peer of the cluster any more.
    #[error(
        "peer {peer} was removed from cluster {cluster}, and an id is never used again: stop that peer and move its data \
         directory away; started empty it can be added again"
    )]
    Removed { cluster: ClusterId, peer: PeerId },
    /// The receiver has data already.
    #[error("this is peer {peer} of cluster {cluster} already and keeps its data")]
    AlreadyJoined { cluster: ClusterId, peer: PeerId },
    /// The receiver is stopping.
    #[error("the peer is stopping")]
    Stopping,
    /// The receiver can't take more of this at once.
    #[error("busy: {what}")]
    Busy { what: String },
}

/// A vote given, or not.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub(super) struct VoteReplyV1 {
    pub vote: VoteV1,
    pub granted: bool,
    pub last_log_id: Option<LogIdV1>,
}

/// What became of an append.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub(super) enum AppendedV1 {
    /// All up to here is on disk.
    Upto(Option<LogIdV1>),
    /// The entry in front of them isn't there.
    Conflict(LogIdV1),
    /// The sender doesn't lead any more.
    HigherVote(VoteV1),
}

/// Whether the follower takes over.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub(super) enum TransferLeaderReplyV1 {
    Accepted,
    VoteChanged { expected: VoteV1, actual: VoteV1 },
    LogNotFlushed { expected: Option<LogIdV1>, actual: Option<LogIdV1> },
}

/// What became of a forwarded write.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub(super) enum ProposedV1 {
    Applied(Box<Applied>),
    NotProposed(NotProposed),
    Unknown(Unknown),
}

pub(super) fn seal<T: Encode>(message: &T) -> Bytes {
    bincode::seal(Kind::PEER_MESSAGE, message).into()
}

pub(super) fn open<T: Decode<()>>(frame: &[u8]) -> Result<T, CodecError> {
    bincode::open(Kind::PEER_MESSAGE, frame)
}

/// Who says what this version doesn't understand to whom, where that is so: the message came whole.
pub(super) fn not_understood(frame: &[u8]) -> Option<RequestHeadV1> {
    let is_whole = matches!(open::<RequestV1>(frame), Err(CodecError::Malformed(_)));
    is_whole.then(|| bincode::open_beginning(Kind::PEER_MESSAGE, frame).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use rollcall_ident::WallTime;

    use super::*;
    use crate::storage::DiskSpace;

    fn hex(frame: &[u8]) -> String {
        frame.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The bytes of format version 1, for ever: peers of two releases talk to each other while one is updated.
    #[test]
    fn golden_bytes_of_version_1() {
        let vote = VoteV1 { term: 7, node: 3, committed: true };
        let id = LogIdV1 { term: 6, index: 300 };
        let request = |body| RequestV1 { cluster: ClusterId([0xAB; 16]), from: PeerId(1), to: PeerId(3), body };
        let vote_request = VoteRequestV1 { vote, last_log_id: Some(id), leadership_transfer: true };
        let entry = EntryV1 { log_id: id, payload: crate::storage::PayloadV1::Blank };
        let append = AppendV1 { vote, prev_log_id: None, entries: vec![entry], leader_commit: Some(id) };
        let checkup = Checkup {
            version: "0.1.0".to_owned(),
            wall_clock: WallTime(1_780_000_000_000),
            applied: Revision(300),
            disk: Ok(DiskSpace { free_bytes: 1 << 30, total_bytes: 1 << 33 }),
            slowest_sync_us: 20_000,
        };
        let golden = [
            (
                seal(&request(BodyV1::Vote(vote_request))),
                "c50501001c000000bcfab253abababababababababababababababab0103000703010106fb2c0101",
            ),
            (
                seal(&request(BodyV1::Append(append))),
                "c505010022000000b354ed03abababababababababababababababab010302070301000106fb2c01000106fb2c01",
            ),
            (seal(&request(BodyV1::Identify)), "c505010013000000ee0d2906abababababababababababababababab010306"),
            (
                seal(&request(BodyV1::ReadIndex { timeout_ms: 250 })),
                "c50501001400000045395e7eabababababababababababababababab010309fa",
            ),
            (seal(&ReplyV1::Appended(AppendedV1::Upto(Some(id)))), "c505010007000000e07b86d902000106fb2c01"),
            (seal(&request(BodyV1::Checkup)), "c505010013000000f0e4fce6abababababababababababababababab01030c"),
            (
                seal(&ReplyV1::Checkup(Box::new(checkup))),
                "c5050100250000001b25f4840c05302e312e30fd008844709e010000fb2c0100fc00000040fd0000000002000000fb204e",
            ),
            (seal(&request(BodyV1::WhichProcess)), "c50501001300000066d4fb91abababababababababababababababab01030d"),
            (seal(&ReplyV1::Process(7)), "c5050100020000009a1b36060d07"),
            (seal(&ReplyV1::Refused(RefusalV1::Blank { addressed: PeerId(3) })), "c50501000300000056fc39ba000003"),
        ];
        for (frame, expected) in golden {
            assert_eq!(hex(&frame), expected);
        }
    }

    #[test]
    fn who_says_what_is_not_understood_is_known() {
        let head = RequestHeadV1 { cluster: ClusterId([0xAB; 16]), from: PeerId(1), to: PeerId(3) };
        let from_a_newer_version: Bytes = bincode::seal(Kind::PEER_MESSAGE, &(head.clone(), 99_u8)).into();
        assert_eq!(not_understood(&from_a_newer_version), Some(head.clone()));
        let mut damaged = from_a_newer_version.to_vec();
        *damaged.last_mut().unwrap() ^= 1;
        assert_eq!(not_understood(&damaged), None);
        let RequestHeadV1 { cluster, from, to } = head;
        assert_eq!(not_understood(&seal(&RequestV1 { cluster, from, to, body: BodyV1::Join })), None);
    }

    #[test]
    fn what_is_cut_short_or_of_another_kind_is_refused() {
        let frame = seal(&ReplyV1::Joined);
        assert_eq!(open::<ReplyV1>(&frame), Ok(ReplyV1::Joined));
        for cut in 0..frame.len() {
            assert!(open::<ReplyV1>(&frame[..cut]).is_err());
        }
        assert!(open::<ReplyV1>(&bincode::seal(Kind::VOTE, &ReplyV1::Joined)).is_err());
    }
}
