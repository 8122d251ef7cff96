//! Times and durations. Cluster time is what deadlines are measured in; wall time travels along for people.

use std::fmt;
use std::ops::Add;
use std::str::FromStr;

use bincode::{Decode, Encode};

use crate::ParseError;

/// Milliseconds of cluster time since the cluster was initialised. Stands still while there is no leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Encode, Decode)]
pub struct ClusterTime(pub u64);

/// Milliseconds since the Unix epoch by the leader's wall clock. For people and maintenance windows, never for deadlines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Encode, Decode)]
pub struct WallTime(pub u64);

/// A duration in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Encode, Decode)]
pub struct Millis(pub u64);

impl ClusterTime {
    /// How long after `earlier` this is; zero if it isn't.
    #[must_use]
    pub fn since(self, earlier: Self) -> Millis {
        Millis(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Millis> for ClusterTime {
    type Output = Self;

    fn add(self, duration: Millis) -> Self {
        Self(self.0.saturating_add(duration.0))
    }
}

impl Millis {
    /// A duration of whole seconds.
    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs * 1000)
    }
}

const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

impl fmt::Display for Millis {
    /// The shortest exact form: `90s` is `1m30s`, zero is `0s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("0s");
        }
        let mut rest = self.0;
        for (unit, size) in UNITS {
            if rest >= size {
                write!(f, "{}{unit}", rest / size)?;
                rest %= size;
            }
        }
        Ok(())
    }
}

impl FromStr for Millis {
    type Err = ParseError;

    /// Numbers with a unit, largest first: `250ms`, `10s`, `1m30s`, `2h`, `1d`.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let error = || ParseError::new("duration", text, "numbers with a unit, like 250ms, 10s, 1m30s, 2h");
        let mut rest = text;
        let mut total: u64 = 0;
        let mut last_size = u64::MAX;
        while !rest.is_empty() {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let amount: u64 = rest[..digits].parse().map_err(|_| error())?;
            rest = &rest[digits..];
            let letters = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
            let (_, size) = UNITS.iter().find(|(unit, _)| *unit == &rest[..letters]).ok_or_else(error)?;
            rest = &rest[letters..];
            if *size >= last_size {
                return Err(error());
            }
            last_size = *size;
            total = amount.checked_mul(*size).and_then(|ms| total.checked_add(ms)).ok_or_else(error)?;
        }
        if text.is_empty() { Err(error()) } else { Ok(Self(total)) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_parse() {
        assert_eq!("1m30s".parse::<Millis>().unwrap(), Millis(90_000));
        assert_eq!("250ms".parse::<Millis>().unwrap(), Millis(250));
        assert_eq!("0s".parse::<Millis>().unwrap(), Millis(0));
        for bad in ["", "10", "s", "1s1m", "1s1s", "-1s", "1.5s", "1 s", "99999999999999999999s", "é"] {
            assert!(bad.parse::<Millis>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn durations_print_as_they_parse(ms: u64) {
            prop_assert_eq!(Millis(ms).to_string().parse::<Millis>().unwrap(), Millis(ms));
        }
    }
}
