//! The choices of a policy, each under the word of the group file.

use std::fmt;
use std::str::FromStr;

use bincode::{Decode, Encode};

/// Which member goes first.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Order {
    /// By name.
    Name,
    /// As `inventory` lists them.
    Inventory,
    /// One value of this label after the other, by name within one.
    Label(String),
    /// What the suitability hook reports, lowest first.
    Priority,
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name => f.write_str("name"),
            Self::Inventory => f.write_str("inventory"),
            Self::Label(key) => write!(f, "label:{key}"),
            Self::Priority => f.write_str("priority"),
        }
    }
}

impl FromStr for Order {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "name" => Ok(Self::Name),
            "inventory" => Ok(Self::Inventory),
            "priority" => Ok(Self::Priority),
            _ => match text.strip_prefix("label:") {
                Some(key) if !key.is_empty() => Ok(Self::Label(key.to_owned())),
                _ => Err(format!("{text:?} is none of name, inventory, priority, label:<key>")),
            },
        }
    }
}

/// Which head of the followed channel starts a rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, strum::Display, strum::EnumString)]
#[strum(serialize_all = "kebab-case")]
pub enum UpdateCondition {
    /// One that is higher than where the group is.
    Latest,
    /// Any other, also a lower one after a demotion.
    TrackChannel,
}

/// Whether WARNING counts as healthy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, strum::Display, strum::EnumString)]
#[strum(serialize_all = "kebab-case")]
pub enum WarningPolicy {
    /// It doesn't.
    Fail,
    /// It does.
    Pass,
}

/// Who says when the next step begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, strum::Display, strum::EnumString)]
#[strum(serialize_all = "kebab-case")]
pub enum Mode {
    /// The planner, as soon as all gates are open.
    Auto,
    /// A person, with `rollout next`.
    Manual,
}

/// What happens where a service isn't ready, or isn't drained, in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, strum::Display, strum::EnumString)]
#[strum(serialize_all = "kebab-case")]
pub enum TimeoutAction {
    /// The step fails; the service goes on undisturbed.
    Fail,
    /// The step goes on without the hook's word.
    Force,
}

/// What becomes of a rollout whose next member has departed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, strum::Display, strum::EnumString)]
#[strum(serialize_all = "kebab-case")]
pub enum OfflinePolicy {
    /// It pauses and asks.
    Pause,
    /// It waits for the node, in its turn.
    Wait,
    /// It leaves the node out, on record; the node is caught up when it is back.
    Skip,
}

/// What a failed step does to its rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, strum::Display, strum::EnumString)]
#[strum(serialize_all = "kebab-case")]
pub enum FailureAction {
    /// It pauses and asks.
    Pause,
    /// The updated members go back; a release that can't go back pauses it instead.
    Rollback,
    /// It goes on, within `max_failure_ratio`.
    Continue,
}

/// What the demotion of its target does to a rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, strum::Display, strum::EnumString)]
#[strum(serialize_all = "kebab-case")]
pub enum OnDemote {
    /// It ends; nodes stay as they are.
    Stop,
    /// The updated members go back.
    Rollback,
}
