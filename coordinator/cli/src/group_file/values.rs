//! Values of a group file that are more than a string or a number.

use std::fmt;
use std::str::FromStr;

use rollcall_ident::Millis;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};

/// A name, or the empty string for none.
#[derive(Debug, Clone)]
pub struct OrEmpty<T>(Option<T>);

impl<T: fmt::Display> OrEmpty<T> {
    pub fn into_wire(self) -> String {
        self.0.map(|value| value.to_string()).unwrap_or_default()
    }
}

impl<'de, T> Deserialize<'de> for OrEmpty<T>
where
    T: FromStr,
    T::Err: fmt::Display,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text.is_empty() { Ok(Self(None)) } else { text.parse().map(|name| Self(Some(name))).map_err(Error::custom) }
    }
}

/// How many: a count from 1, or a percentage from 1% to 100%.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share(String);

impl Share {
    pub fn into_wire(self) -> String {
        self.0
    }
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_valid = match text.strip_suffix('%') {
            Some(percent) => is_number(percent) && percent.parse::<u32>().is_ok_and(|n| (1..=100).contains(&n)),
            None => is_number(text) && text.parse::<u32>().is_ok_and(|n| n >= 1),
        };
        if is_valid {
            Ok(Self(text.to_owned()))
        } else {
            Err(format!("{text:?} is not a share: expected a count from 1, or a percentage from \"1%\" to \"100%\""))
        }
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

impl<'de> Deserialize<'de> for Share {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ShareVisitor;

        impl Visitor<'_> for ShareVisitor {
            type Value = Share;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a count from 1, or a percentage from \"1%\" to \"100%\"")
            }

            fn visit_i64<E: Error>(self, count: i64) -> Result<Share, E> {
                count.to_string().parse().map_err(E::custom)
            }

            fn visit_u64<E: Error>(self, count: u64) -> Result<Share, E> {
                count.to_string().parse().map_err(E::custom)
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Share, E> {
                text.parse().map_err(E::custom)
            }
        }

        deserializer.deserialize_any(ShareVisitor)
    }
}

/// A duration above zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span(pub Millis);

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse::<Millis>().map_err(|error| error.to_string())? {
            Millis(0) => Err(format!("{text:?} is too short: expected a duration above zero, like 10s")),
            duration => Ok(Self(duration)),
        }
    }
}

/// In whose turn nodes go.
#[derive(Debug, Clone)]
pub struct Order(String);

impl Order {
    pub fn is_inventory(&self) -> bool {
        self.0 == "inventory"
    }

    pub fn into_wire(self) -> String {
        self.0
    }
}

impl FromStr for Order {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_label = text.strip_prefix("label:").is_some_and(|key| !key.is_empty());
        if is_label || matches!(text, "name" | "inventory" | "priority") {
            Ok(Self(text.to_owned()))
        } else {
            Err(format!("{text:?} is not an order: expected name, inventory, priority or label:KEY"))
        }
    }
}

/// A ratio from 0.0 to 1.0, in thousandths.
#[derive(Debug, Clone, Copy)]
pub struct Ratio(u32);

impl Ratio {
    pub fn into_permille(self) -> u32 {
        self.0
    }
}

impl<'de> Deserialize<'de> for Ratio {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let ratio = f64::deserialize(deserializer)?;
        if !(0.0..=1.0).contains(&ratio) {
            return Err(D::Error::custom(format!("{ratio} is not a ratio: expected a number from 0.0 to 1.0")));
        }
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked above")]
        Ok(Self((ratio * 1000.0).round() as u32))
    }
}
