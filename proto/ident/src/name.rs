//! Names that people give.

use std::fmt;
use std::str::FromStr;

use bincode::{Decode, Encode};

use crate::ParseError;

/// BOUND: names stand in tables, paths and metrics; longer ones help nobody.
const MAX_NAME_BYTES: usize = 100;

fn is_name(text: &str, allowed: impl Fn(char) -> bool) -> bool {
    !text.is_empty()
        && text.len() <= MAX_NAME_BYTES
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(allowed)
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_')
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $what:literal, $is_valid:expr, $expected:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
        pub struct $name(String);

        impl $name {
            /// The name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = ParseError;

            fn from_str(text: &str) -> Result<Self, ParseError> {
                let is_valid: fn(&str) -> bool = $is_valid;
                if is_valid(text) {
                    Ok(Self(text.to_owned()))
                } else {
                    Err(ParseError::new($what, text, $expected))
                }
            }
        }
    };
}

name! {
    /// A node's name, for people. Its identity is a [`NodeId`](crate::NodeId).
    NodeName, "node name",
    |text| is_name(text, |c| is_word(c) || c == '.'),
    "letters, digits, '-', '_' and '.', at most 100, beginning with a letter or digit"
}
name! {
    /// A channel, `stable`: a named set of releases.
    ChannelName, "channel name",
    |text| is_name(text, is_word),
    "letters, digits, '-' and '_', at most 100, beginning with a letter or digit"
}
name! {
    /// A service group, `redis.default`: service and group.
    GroupName, "group name",
    |text| text.split_once('.').is_some_and(|(service, group)| is_name(service, is_word) && is_name(group, is_word)),
    "service.group, like redis.default"
}
name! {
    /// A client's id of one request: a retry with the same id is answered with the first outcome.
    RequestId, "request id",
    |text| is_name(text, |c| is_word(c) || matches!(c, '.' | ':')),
    "letters, digits, '-', '_', '.' and ':', at most 100, beginning with a letter or digit"
}

impl GroupName {
    /// The service before the dot.
    #[must_use]
    pub fn service(&self) -> &str {
        self.0.split_once('.').expect("parsing saw the dot").0
    }

    /// The group behind the dot.
    #[must_use]
    pub fn group(&self) -> &str {
        self.0.split_once('.').expect("parsing saw the dot").1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        assert_eq!("redis.default".parse::<GroupName>().unwrap().service(), "redis");
        for bad in ["redis", "redis.", ".default", "a.b.c", "a b.c", ""] {
            assert!(bad.parse::<GroupName>().is_err(), "{bad}");
        }
        assert!("redis-1.example".parse::<NodeName>().is_ok());
        assert!("../x".parse::<NodeName>().is_err());
        assert!("x".repeat(101).parse::<ChannelName>().is_err());
    }
}
