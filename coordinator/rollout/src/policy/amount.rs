//! How many: counts, shares, ratios.

use std::fmt;
use std::str::FromStr;

use bincode::{Decode, Encode};

/// A count of members, or a share of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Amount {
    /// So many.
    Count(u32),
    /// So many of a hundred, 1 to 100.
    Percent(u32),
}

impl Amount {
    /// How many of `members` that is; a percentage never rounds below 1.
    #[must_use]
    pub fn of(self, members: u32) -> u32 {
        match self {
            Self::Count(count) => count,
            Self::Percent(percent) => {
                let share = u64::from(members) * u64::from(percent) / 100;
                u32::try_from(share).unwrap_or(u32::MAX).max(1)
            }
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => count.fmt(f),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

impl FromStr for Amount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let error = || format!("{text:?} is neither a count from 1 on nor a percentage from 1% to 100%");
        match text.strip_suffix('%') {
            Some(digits) => {
                digits.parse().ok().filter(|percent| (1..=100).contains(percent)).map(Self::Percent).ok_or_else(error)
            }
            None => text.parse().ok().filter(|count| *count > 0).map(Self::Count).ok_or_else(error),
        }
    }
}

/// A share from 0.0 to 1.0, in thousandths: floating point isn't the same everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct Ratio(u32);

impl Ratio {
    /// Nothing of it.
    pub const NONE: Self = Self(0);
    const WHOLE: u32 = 1_000;

    /// Whether `part` of `whole` is more than this share.
    #[must_use]
    pub fn is_exceeded_by(self, part: usize, whole: usize) -> bool {
        part as u128 * u128::from(Self::WHOLE) > whole as u128 * u128::from(self.0)
    }

    /// So many thousandths, of 1,000 at most.
    #[must_use]
    pub fn from_permille(thousandths: u32) -> Option<Self> {
        (thousandths <= Self::WHOLE).then_some(Self(thousandths))
    }

    /// In thousandths.
    #[must_use]
    pub fn permille(self) -> u32 {
        self.0
    }

    /// As a fraction.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / f64::from(Self::WHOLE)
    }
}

impl TryFrom<f64> for Ratio {
    type Error = String;

    fn try_from(share: f64) -> Result<Self, String> {
        if (0.0..=1.0).contains(&share) {
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is between 0 and 1")]
            let thousandths = (share * f64::from(Self::WHOLE)).round() as u32;
            Ok(Self(thousandths))
        } else {
            Err(format!("{share} is not a share from 0.0 to 1.0"))
        }
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_f64().fmt(f)
    }
}

impl FromStr for Ratio {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let share: f64 = text.parse().map_err(|_| format!("{text:?} is not a share from 0.0 to 1.0"))?;
        Self::try_from(share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_never_rounds_below_one() {
        assert_eq!(Amount::Percent(25).of(3), 1);
        assert_eq!(Amount::Percent(25).of(9), 2);
        assert_eq!(Amount::Percent(100).of(9), 9);
        for bad in ["0", "0%", "101%", "-1", "", "%", "1.5", "ten"] {
            assert!(bad.parse::<Amount>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_ratio_trips_when_it_is_exceeded() {
        let tenth: Ratio = "0.1".parse().unwrap();
        assert!(!tenth.is_exceeded_by(1, 10) && tenth.is_exceeded_by(2, 10));
        assert!(Ratio::NONE.is_exceeded_by(1, 1_000) && !Ratio::NONE.is_exceeded_by(0, 1_000));
        for bad in ["1.1", "-0.1", "NaN", "half"] {
            assert!(bad.parse::<Ratio>().is_err(), "{bad}");
        }
    }
}
