//! The records of the Raft log on disk: how `raft-log` turns our types into bytes.
//!
//! `raft-log` brings the record's type before them and a checksum behind them. Between those stands, for each value, a
//! frame: `length u32 | check u32 | envelope`, big endian.
//!
//! # Invariants
//! - A record that is cut off and a record that was damaged look different. `raft-log` takes "unexpected end" in its last
//!   file for a torn write and drops what is behind it; so a flipped bit must never be read as a length that leads past
//!   the end. The check holds the length and the kind a second time: whatever flips in the record's type or in the
//!   length is seen before anything is read by it.

use std::io::{self, Read, Write};
use std::sync::Arc;

use bincode::{Decode, Kind};
use raft_log::codeq;

use super::disk::{LogIdV1, PayloadV1, VoteV1};
use super::error::StorageError;

/// BOUND: no entry is larger. Proposals are far below (4 MiB is the largest message of the API); a length over this is
/// damage.
pub(super) const MAX_RECORD_BYTES: usize = 64 << 20;

/// The kind stands in the upper byte of the check, the inverted length in the rest: [`MAX_RECORD_BYTES`] fits there.
fn check(kind: Kind, length: u32) -> u32 {
    (u32::from(kind.id) << 27) ^ !length
}

fn write_frame<W: Write>(mut to: W, kind: Kind, envelope: &[u8]) -> io::Result<usize> {
    let length =
        u32::try_from(envelope.len()).ok().filter(|length| *length as usize <= MAX_RECORD_BYTES).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("a log record of {} bytes is over the limit of {MAX_RECORD_BYTES}", envelope.len()),
            )
        })?;
    to.write_all(&length.to_be_bytes())?;
    to.write_all(&check(kind, length).to_be_bytes())?;
    to.write_all(envelope)?;
    Ok(8 + envelope.len())
}

fn read_frame<R: Read>(mut from: R, kind: Kind) -> io::Result<Vec<u8>> {
    let mut header = [0; 8];
    from.read_exact(&mut header)?;
    let [l0, l1, l2, l3, c0, c1, c2, c3] = header;
    let length = u32::from_be_bytes([l0, l1, l2, l3]);
    if u32::from_be_bytes([c0, c1, c2, c3]) != check(kind, length) || length as usize > MAX_RECORD_BYTES {
        return Err(malformed(format!("a frame's header is damaged (length {length}, kind {})", kind.id)));
    }
    let mut envelope = vec![0; length as usize];
    from.read_exact(&mut envelope)?;
    let opened = bincode::decode_envelope(kind, &envelope).map_err(malformed)?;
    if opened.consumed != envelope.len() {
        return Err(malformed("bytes behind the envelope"));
    }
    Ok(envelope)
}

/// Never `UnexpectedEof`, which would be taken for a torn write.
fn malformed(what: impl ToString) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_string())
}

fn decode_framed<T: Decode<()>, R: Read>(from: R, kind: Kind) -> io::Result<T> {
    bincode::open(kind, &read_frame(from, kind)?).map_err(malformed)
}

impl codeq::Encode for LogIdV1 {
    fn encode<W: Write>(&self, to: W) -> io::Result<usize> {
        write_frame(to, Kind::LOG_META, &bincode::seal(Kind::LOG_META, self))
    }
}

impl codeq::Decode for LogIdV1 {
    fn decode<R: Read>(from: R) -> io::Result<Self> {
        decode_framed(from, Kind::LOG_META)
    }
}

impl codeq::Encode for VoteV1 {
    fn encode<W: Write>(&self, to: W) -> io::Result<usize> {
        write_frame(to, Kind::VOTE, &bincode::seal(Kind::VOTE, self))
    }
}

impl codeq::Decode for VoteV1 {
    fn decode<R: Read>(from: R) -> io::Result<Self> {
        decode_framed(from, Kind::VOTE)
    }
}

/// What an entry carries, sealed: encoded once before the log is locked, decoded after it was read, shared by the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SealedPayload(Arc<[u8]>);

impl SealedPayload {
    pub(super) fn seal(payload: &PayloadV1) -> Self {
        Self(bincode::seal(Kind::LOG_ENTRY, payload).into())
    }

    pub(super) fn open(&self) -> Result<PayloadV1, bincode::CodecError> {
        bincode::open(Kind::LOG_ENTRY, &self.0)
    }

    pub(super) fn bytes(&self) -> usize {
        self.0.len()
    }
}

impl codeq::Encode for SealedPayload {
    fn encode<W: Write>(&self, to: W) -> io::Result<usize> {
        write_frame(to, Kind::LOG_ENTRY, &self.0)
    }
}

impl codeq::Decode for SealedPayload {
    fn decode<R: Read>(from: R) -> io::Result<Self> {
        Ok(Self(read_frame(from, Kind::LOG_ENTRY)?.into()))
    }
}

/// Tells the one who waits for a sync how it went. Sent by `raft-log`'s own thread.
pub(super) type SyncDone = std::sync::mpsc::SyncSender<io::Result<()>>;

/// The types of the log for `raft-log`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Wal;

impl raft_log::Types for Wal {
    type LogId = LogIdV1;
    type LogPayload = SealedPayload;
    type Vote = VoteV1;
    type Callback = SyncDone;
    type UserData = ();

    fn log_index(log_id: &LogIdV1) -> u64 {
        log_id.index
    }

    fn payload_size(payload: &SealedPayload) -> u64 {
        payload.bytes() as u64
    }
}

/// Whether an entry of this size can be stored at all.
pub(super) fn check_size(payload: &SealedPayload, path: &std::path::Path) -> Result<(), StorageError> {
    if payload.bytes() <= MAX_RECORD_BYTES {
        return Ok(());
    }
    let what = format!("an entry of {} bytes is over the limit of {MAX_RECORD_BYTES}", payload.bytes());
    Err(StorageError::io("append to", path, io::Error::new(io::ErrorKind::InvalidInput, what)))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use codeq::{Decode as _, Encode as _};
    use rollcall_rollout::{Actor, Command, LogEntry, Proposal, Stamp};

    use super::super::disk::MembershipV1;
    use super::super::types::PeerNode;
    use super::*;

    fn encoded(value: &impl codeq::Encode) -> String {
        value.encode_to_vec().unwrap().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn command() -> PayloadV1 {
        PayloadV1::Command(LogEntry {
            stamp: Stamp::default(),
            proposal: Proposal {
                actor: Actor("ann".into()),
                reason: Some("why".into()),
                request_id: None,
                expected_revision: None,
                command: Command::AdvanceClock,
            },
        })
    }

    fn membership() -> PayloadV1 {
        let nodes = BTreeMap::from([(1, PeerNode { grpc_addr: "a:1".into() })]);
        PayloadV1::Membership(MembershipV1 { configs: vec![BTreeSet::from([1])], nodes })
    }

    /// The bytes of format version 1, for ever.
    #[test]
    fn golden_bytes_of_version_1() {
        assert_eq!(encoded(&LogIdV1 { term: 3, index: 300 }), "00000010bfffffefc5080100040000008a5dde5f03fb2c01");
        assert_eq!(
            encoded(&VoteV1 { term: 3, node: 2, committed: true }),
            "0000000feffffff0c502010003000000d85a9b86030201"
        );
        assert_eq!(encoded(&SealedPayload::seal(&PayloadV1::Blank)), "0000000df7fffff2c501010001000000f3fd9f3200");
        assert_eq!(
            encoded(&SealedPayload::seal(&command())),
            "0000001bf7ffffe4c50101000f0000003f4bedaa01000003616e6e0103776879000003"
        );
        assert_eq!(
            encoded(&SealedPayload::seal(&membership())),
            "00000016f7ffffe9c50101000a0000000f94ae9202010101010103613a31"
        );
    }

    /// Whatever bit of a frame flips, it must not look like a write that was cut off.
    #[test]
    fn a_flipped_bit_is_never_taken_for_a_torn_write() {
        let whole = SealedPayload::seal(&command()).encode_to_vec().unwrap();
        for bit in 0..whole.len() * 8 {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let error = SealedPayload::decode(&bytes[..]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "bit {bit}: {error}");
        }
        for length in 0..whole.len() {
            let error = SealedPayload::decode(&whole[..length]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{length} bytes: {error}");
        }
    }

    #[test]
    fn one_kind_is_not_read_as_another() {
        let vote = VoteV1 { term: 3, node: 2, committed: true }.encode_to_vec().unwrap();
        assert_eq!(<LogIdV1 as codeq::Decode>::decode(&vote[..]).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(SealedPayload::decode(&vote[..]).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
