//! A newer version is told from a damaged one.

#![allow(clippy::unwrap_used)]

use rollcall_codec::{CodecError, Kind, decode_envelope, encode_envelope};

#[test]
fn a_newer_version_is_told_from_a_flipped_bit() {
    let newer = Kind { version: Kind::JOURNAL.version + 1, ..Kind::JOURNAL };
    let written = encode_envelope(newer, b"later");
    let error = decode_envelope(Kind::JOURNAL, &written).unwrap_err();
    assert_eq!(error, CodecError::Version { kind: Kind::JOURNAL.id, found: newer.version, supported: 1 });

    // Bytes 2 and 3 are the version.
    let written = encode_envelope(Kind::JOURNAL, b"now");
    for bit in 16..32 {
        let mut flipped = written.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let error = decode_envelope(Kind::JOURNAL, &flipped).unwrap_err();
        assert!(matches!(error, CodecError::Checksum { .. }), "bit {bit}: {error}");
    }
}
