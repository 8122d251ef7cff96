//! Ids and counters.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use bincode::{Decode, Encode};

use crate::ParseError;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Encode, Decode)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number! {
    /// The index of an entry in the log: the cursor of reads and watches.
    Revision
}
number! {
    /// The number of a grant: the log index of the entry that granted it, so it is monotonic over the cluster.
    Fence
}
number! {
    /// A coordinator peer. Given by the log and never used again once its disk is lost.
    PeerId
}
number! {
    /// One session of one node: the log index of the entry that opened it, so a later session has a higher epoch.
    SessionEpoch
}

/// A number with a letter before it, so that people and programs see what it numbers.
macro_rules! lettered {
    ($(#[$doc:meta])* $name:ident, $letter:literal, $what:literal, $expected:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Encode, Decode)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}{}", $letter, self.0)
            }
        }

        impl FromStr for $name {
            type Err = ParseError;

            fn from_str(text: &str) -> Result<Self, ParseError> {
                text.strip_prefix($letter)
                    .and_then(|digits| digits.parse().ok())
                    .map(Self)
                    .ok_or_else(|| ParseError::new($what, text, $expected))
            }
        }
    };
}

lettered! {
    /// One movement of a group to one target: the log index of the entry that started it, printed as `r42`. Never reused.
    RolloutId, 'r', "rollout id", "it looks like r42; `rollcall rollout list` shows them"
}
lettered! {
    /// A maintenance window of a group, numbered within it, printed as `w1`. Never reused.
    WindowId, 'w', "window id", "it looks like w1; `rollcall window list` shows them"
}
lettered! {
    /// A configuration of a group: the log index of the entry that declared it, printed as `c42`. Never reused.
    ConfigId, 'c', "config id", "it looks like c42, behind the @ of a group's target"
}
lettered! {
    /// A change freeze: the log index of the entry that made it, printed as `f42`. Never reused.
    FreezeId, 'f', "freeze id", "it looks like f42; `rollcall freeze list` shows them"
}

/// Bytes as lower-case hexadecimal digits.
fn write_hex(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

/// The bytes behind exactly `2 * N` hexadecimal digits.
fn parse_hex<const N: usize>(digits: &str) -> Option<[u8; N]> {
    if digits.len() != 2 * N || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let mut bytes = [0; N];
    for (i, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).ok()?;
    }
    Some(bytes)
}

macro_rules! uuid {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Encode, Decode)]
        pub struct $name(pub [u8; 16]);

        /// As bytes go, but in one comparison: every map of nodes asks for it at each look.
        impl Ord for $name {
            fn cmp(&self, other: &Self) -> Ordering {
                u128::from_be_bytes(self.0).cmp(&u128::from_be_bytes(other.0))
            }
        }

        impl PartialOrd for $name {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                for (i, part) in [&self.0[0..4], &self.0[4..6], &self.0[6..8], &self.0[8..10], &self.0[10..16]]
                    .into_iter()
                    .enumerate()
                {
                    if i > 0 {
                        f.write_str("-")?;
                    }
                    write_hex(f, part)?;
                }
                Ok(())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = ParseError;

            fn from_str(text: &str) -> Result<Self, ParseError> {
                let digits: String = text.trim().chars().filter(|c| *c != '-').collect();
                parse_hex(&digits)
                    .map(Self)
                    .ok_or_else(|| ParseError::new($what, text, "32 hexadecimal digits, with or without hyphens"))
            }
        }
    };
}

uuid! {
    /// A machine that runs the agent: a UUID on its disk.
    NodeId, "node id"
}
uuid! {
    /// A Raft cluster: made when it is initialised, on every message between its peers.
    ClusterId, "cluster id"
}
uuid! {
    /// One boot of a machine, from `/proc/sys/kernel/random/boot_id`: another id proves a reboot.
    BootId, "boot id"
}

/// A BLAKE3 digest of a release.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct Digest(pub [u8; 32]);

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(f, &self.0)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        parse_hex(text).map(Self).ok_or_else(|| ParseError::new("digest", text, "64 hexadecimal digits (BLAKE3)"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_print_as_they_parse() {
        let id: NodeId = "6f1c0d2e-0000-4000-8000-00000000000a".parse().unwrap();
        assert_eq!(id.to_string(), "6f1c0d2e-0000-4000-8000-00000000000a");
        assert_eq!("r42".parse::<RolloutId>().unwrap(), RolloutId(42));
        assert!("42".parse::<RolloutId>().is_err());
        assert!("6f1c".parse::<BootId>().is_err());
        let digest = Digest([0xab; 32]);
        assert_eq!(digest.to_string().parse::<Digest>().unwrap(), digest);
    }
}
