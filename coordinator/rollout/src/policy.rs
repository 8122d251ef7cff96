//! The policy of a group: what a person declares about how it may be updated. Defaults are those of the group file.

use std::fmt;
use std::str::FromStr;

use bincode::{Decode, Encode};
use rollcall_ident::Millis;

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

/// Declares the policy once: the fields with their defaults, the patch that changes some of them, and the merge.
macro_rules! policy {
    ($($(#[$doc:meta])* $field:ident: $type:ty = $default:expr),+ $(,)?) => {
        /// How a group may be updated.
        #[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
        pub struct Policy {
            $($(#[$doc])* pub $field: $type,)+
        }

        /// A change of some fields of a [`Policy`].
        #[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
        pub struct PolicyPatch {
            $($(#[$doc])* pub $field: Option<$type>,)+
        }

        impl Default for Policy {
            fn default() -> Self {
                Self { $($field: $default,)+ }
            }
        }

        impl Policy {
            /// This policy with what `patch` names.
            #[must_use]
            pub fn patched(&self, patch: &PolicyPatch) -> Self {
                Self { $($field: patch.$field.clone().unwrap_or_else(|| self.$field.clone()),)+ }
            }
        }
    };
}

policy! {
    /// How many steps may be under way at once.
    max_parallel: Amount = Amount::Count(1),
    /// How many members may be not known healthy, whatever the cause.
    max_unavailable: Amount = Amount::Count(1),
    /// Who goes first.
    order: Order = Order::Name,
    /// The names in their order, for [`Order::Inventory`].
    inventory: Vec<String> = Vec::new(),
    /// Whether primaries go last.
    primary_last: bool = true,
    /// Whether WARNING counts as healthy.
    on_warning: WarningPolicy = WarningPolicy::Fail,
    /// Good samples in a row to become healthy.
    success_threshold: u32 = 1,
    /// Bad samples in a row to become unhealthy.
    failure_threshold: u32 = 1,
    /// For how long a new process must stay healthy.
    min_healthy_time: Millis = Millis::from_secs(10),
    /// By when after its start it must have been.
    healthy_deadline: Millis = Millis::from_secs(300),
    /// For how long a rollout may make no progress.
    progress_deadline: Millis = Millis::from_secs(600),
    /// For how long the service may say that it isn't ready.
    ready_timeout: Millis = Millis::from_secs(3600),
    /// For how long a drain may take.
    drain_timeout: Millis = Millis::from_secs(3600),
    /// For how long a node may be away in its step before the rollout pauses.
    reboot_timeout: Millis = Millis::from_secs(900),
    /// How often one step may reboot.
    max_reboots: u32 = 3,
    /// Without a session for longer, a node's health is unknown.
    stale_after: Millis = Millis::from_secs(10),
    /// Without a session for longer, a node is departed.
    lost_after: Millis = Millis::from_secs(120),
    /// Whether a promotion starts a rollout.
    auto_start: bool = true,
    /// Whether a member on an old release is caught up by itself.
    catch_up: bool = true,
    /// How often a step is tried before it counts as failed.
    max_attempts: u32 = 1,
    /// How many ended rollouts are kept.
    revision_history_limit: u32 = 10,
}

impl Policy {
    /// What is wrong with it: the field, and the problem with what would be right.
    ///
    /// # Errors
    /// The first field, in the order of the group file, that can't be or doesn't fit the others.
    pub fn validate(&self) -> Result<(), (&'static str, String)> {
        let positive = [
            ("success_threshold", self.success_threshold),
            ("failure_threshold", self.failure_threshold),
            ("max_attempts", self.max_attempts),
            ("revision_history_limit", self.revision_history_limit),
        ];
        if let Some((field, _)) = positive.into_iter().find(|(_, value)| *value == 0) {
            return Err((field, "must be at least 1".to_owned()));
        }
        for (field, amount) in [("max_parallel", self.max_parallel), ("max_unavailable", self.max_unavailable)] {
            amount.to_string().parse::<Amount>().map_err(|problem| (field, problem))?;
        }
        if self.order == Order::Inventory && self.inventory.is_empty() {
            return Err(("inventory", "order = \"inventory\" needs the names of the members here".to_owned()));
        }
        let ascending = [
            ("min_healthy_time", self.min_healthy_time),
            ("healthy_deadline", self.healthy_deadline),
            ("progress_deadline", self.progress_deadline),
        ];
        ascends(&ascending)?;
        ascends(&[("stale_after", self.stale_after), ("lost_after", self.lost_after)])?;
        let timeouts = [
            ("ready_timeout", self.ready_timeout),
            ("drain_timeout", self.drain_timeout),
            ("reboot_timeout", self.reboot_timeout),
            ("stale_after", self.stale_after),
        ];
        match timeouts.into_iter().find(|(_, timeout)| timeout.0 == 0) {
            Some((field, _)) => Err((field, "must be longer than 0s".to_owned())),
            None => Ok(()),
        }
    }
}

/// Each duration must be shorter than the next.
fn ascends(durations: &[(&'static str, Millis)]) -> Result<(), (&'static str, String)> {
    match durations.windows(2).find(|pair| pair[0].1 >= pair[1].1) {
        Some(pair) => {
            let ((shorter, short), (longer, long)) = (pair[0], pair[1]);
            Err((longer, format!("is {long}, and must be longer than {shorter}, which is {short}")))
        }
        None => Ok(()),
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
    fn deadlines_out_of_order_are_named() {
        assert_eq!(Policy::default().validate(), Ok(()));
        let policy = Policy { healthy_deadline: Millis::from_secs(5), ..Policy::default() };
        let (field, problem) = policy.validate().unwrap_err();
        assert_eq!(field, "healthy_deadline");
        assert_eq!(problem, "is 5s, and must be longer than min_healthy_time, which is 10s");
    }
}
