//! The envelope around every persisted or exchanged value:
//! `magic u8 | kind u8 | version u16 | length u32 | crc32 u32 | body`, little endian.

use bincode::config::{Configuration, Limit, LittleEndian, Varint};
use bincode::{Decode, Encode};

use crate::CodecError;

pub(crate) const MAGIC: u8 = 0xC5;

/// Size of the header before the body.
pub const HEADER_BYTES: usize = 12;

/// BOUND: no single value is larger; a length field that says more is damage, not a request for memory. Snapshots of
/// 100,000 nodes measure tens of MiB.
pub const MAX_BODY_BYTES: usize = 1 << 30;

/// Fixed once: variable integers are a third smaller for our small numbers, and the limit keeps a damaged length from
/// asking for memory.
const CONFIG: Configuration<LittleEndian, Varint, Limit<MAX_BODY_BYTES>> =
    bincode::config::standard().with_limit::<MAX_BODY_BYTES>();

/// What a body holds: the second byte of the envelope. Numbers are never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// The number on disk.
    pub id: u8,
    /// The version of the format that this binary writes, and the newest it reads.
    pub version: u16,
}

impl Kind {
    /// A Raft log entry.
    pub const LOG_ENTRY: Self = Self { id: 1, version: 1 };
    /// A Raft vote.
    pub const VOTE: Self = Self { id: 2, version: 1 };
    /// A snapshot of the state machine.
    pub const SNAPSHOT: Self = Self { id: 3, version: 1 };
    /// A record of the event history.
    pub const HISTORY: Self = Self { id: 4, version: 1 };
    /// A message between peers.
    pub const PEER_MESSAGE: Self = Self { id: 5, version: 1 };
    /// The identity of a peer on its disk.
    pub const PEER_IDENTITY: Self = Self { id: 6, version: 1 };
    /// A record of a node's step journal.
    pub const JOURNAL: Self = Self { id: 7, version: 1 };
    /// A log id (committed, purged) or other small Raft bookkeeping.
    pub const LOG_META: Self = Self { id: 8, version: 1 };
}

/// A header that was checked, and the body behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// Version of the body's format, at most the kind's.
    pub version: u16,
    /// The body, its checksum verified.
    pub body: &'a [u8],
    /// How many bytes the envelope took, header included.
    pub consumed: usize,
}

/// Puts `body` into an envelope.
///
/// # Panics
/// If the body is over [`MAX_BODY_BYTES`]: callers bound what they persist.
pub fn encode_envelope(kind: Kind, body: &[u8]) -> Vec<u8> {
    assert!(body.len() <= MAX_BODY_BYTES, "a body of {} bytes is over the limit", body.len());
    let length = u32::try_from(body.len()).expect("the limit is below 4 GiB");
    let mut out = Vec::with_capacity(HEADER_BYTES + body.len());
    out.push(MAGIC);
    out.push(kind.id);
    out.extend_from_slice(&kind.version.to_le_bytes());
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&checksum(kind, length, body).to_le_bytes());
    out.extend_from_slice(body);
    out
}

/// Reads one envelope from the front of `bytes`; what follows it is left to the caller.
///
/// # Errors
/// [`CodecError`] says what is wrong; nothing of the body is returned then.
pub fn decode_envelope(kind: Kind, bytes: &[u8]) -> Result<Envelope<'_>, CodecError> {
    let truncated = |need| CodecError::Truncated { have: bytes.len(), need };
    let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else { return Err(truncated(HEADER_BYTES)) };
    let [magic, id, v0, v1, l0, l1, l2, l3, c0, c1, c2, c3] = *header;
    if magic != MAGIC {
        return Err(CodecError::Magic { found: magic });
    }
    if id != kind.id {
        return Err(CodecError::Kind { expected: kind.id, found: id });
    }
    let version = u16::from_le_bytes([v0, v1]);
    let length = u32::from_le_bytes([l0, l1, l2, l3]);
    let size = length as usize;
    if size > MAX_BODY_BYTES {
        return Err(CodecError::TooLarge { bytes: size });
    }
    let body = bytes.get(HEADER_BYTES..HEADER_BYTES + size).ok_or_else(|| truncated(HEADER_BYTES + size))?;
    let expected = u32::from_le_bytes([c0, c1, c2, c3]);
    let found = checksum(Kind { id, version }, length, body);
    if found != expected {
        return Err(CodecError::Checksum { expected, found });
    }
    // Behind the checksum: a version that a flipped bit made isn't one of a newer binary.
    if version == 0 || version > kind.version {
        return Err(CodecError::Version { kind: id, found: version, supported: kind.version });
    }
    Ok(Envelope { version, body, consumed: HEADER_BYTES + size })
}

/// Encodes `value` and puts it into an envelope.
pub fn seal<T: Encode>(kind: Kind, value: &T) -> Vec<u8> {
    let body = bincode::encode_to_vec(value, CONFIG).expect("our types always encode; memory is the only limit");
    encode_envelope(kind, &body)
}

/// Opens an envelope that fills `bytes` exactly and decodes its value.
///
/// # Errors
/// [`CodecError`]: damage, another kind, a newer version, or bytes left over.
pub fn open<T: Decode<()>>(kind: Kind, bytes: &[u8]) -> Result<T, CodecError> {
    let envelope = decode_envelope(kind, bytes)?;
    if envelope.consumed != bytes.len() {
        return Err(CodecError::Malformed(format!("{} bytes behind the envelope", bytes.len() - envelope.consumed)));
    }
    let (value, read) =
        bincode::decode_from_slice(envelope.body, CONFIG).map_err(|error| CodecError::Malformed(error.to_string()))?;
    if read != envelope.body.len() {
        return Err(CodecError::Malformed(format!("{} bytes behind the value", envelope.body.len() - read)));
    }
    Ok(value)
}

/// Decodes the value that the body of an envelope begins with, whatever is behind it: what a newer version has written may
/// begin with something that this one knows.
///
/// # Errors
/// [`CodecError`]: damage, another kind, a newer version, or another beginning.
pub fn open_beginning<T: Decode<()>>(kind: Kind, bytes: &[u8]) -> Result<T, CodecError> {
    let body = decode_envelope(kind, bytes)?.body;
    let decoded = bincode::decode_from_slice(body, CONFIG);
    decoded.map(|(value, _)| value).map_err(|error| CodecError::Malformed(error.to_string()))
}

/// Over the fields that matter and the body, so that a flipped bit in either is found.
fn checksum(kind: Kind, length: u32, body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&[kind.id]);
    hasher.update(&kind.version.to_le_bytes());
    hasher.update(&length.to_le_bytes());
    hasher.update(body);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The bytes of format version 1, for ever.
    #[test]
    fn golden_bytes_of_version_1() {
        let sealed = seal(Kind::VOTE, &(7u64, String::from("roll"), Some(300u32)));
        let golden =
            [0xC5, 2, 1, 0, 10, 0, 0, 0, 0xE5, 0x3F, 0xD8, 0x21, 7, 4, b'r', b'o', b'l', b'l', 1, 251, 0x2C, 1];
        assert_eq!(sealed, golden);
    }

    #[test]
    fn every_truncation_is_detected() {
        let sealed = seal(Kind::JOURNAL, &vec![1u64, 2, 3]);
        for cut in 0..sealed.len() {
            assert!(matches!(open::<Vec<u64>>(Kind::JOURNAL, &sealed[..cut]), Err(CodecError::Truncated { .. })));
        }
    }

    proptest! {
        #[test]
        fn every_flipped_bit_is_detected(value: Vec<u64>, bit in 0usize..800) {
            let mut sealed = seal(Kind::SNAPSHOT, &value);
            let bit = bit % (sealed.len() * 8);
            sealed[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(open::<Vec<u64>>(Kind::SNAPSHOT, &sealed).is_err());
        }

        #[test]
        fn what_is_sealed_opens(value: Vec<String>) {
            prop_assert_eq!(open::<Vec<String>>(Kind::SNAPSHOT, &seal(Kind::SNAPSHOT, &value)).unwrap(), value);
        }
    }
}
