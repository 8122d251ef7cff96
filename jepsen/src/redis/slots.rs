//! Which of the 16,384 hash slots a key belongs to (Redis Cluster specification, "Key distribution model").

/// How many slots there are.
pub const SLOT_COUNT: u16 = 16_384;

/// The slot of a key without a hash tag.
pub fn slot_of(key: &str) -> u16 {
    crc16(key.as_bytes()) % SLOT_COUNT
}

/// CRC-16/XMODEM, as the specification names it.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc: u16, byte| {
        (0..8).fold(
            crc ^ (u16::from(*byte) << 8),
            |crc, _| {
                if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
            },
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_specifications_examples_hold() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(slot_of("foo"), 12_182);
    }
}
