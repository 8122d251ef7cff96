//! The names of enum values without their prefix: `PHASE_VERIFYING` is `verifying` for people and in JSON.

use crate::v1::{Go, Health, Phase, RolloutStatus};

/// An enum value's name as people and JSON see it.
pub trait ShortName {
    /// In snake_case and without the enum's own name.
    fn short_name(&self) -> String;
}

macro_rules! short_names {
    ($($name:ident: $prefix:literal),+ $(,)?) => {
        $(impl ShortName for $name {
            fn short_name(&self) -> String {
                let name = self.as_str_name();
                name.strip_prefix($prefix).unwrap_or(name).to_ascii_lowercase()
            }
        })+
    };
}

short_names! {
    Go: "GO_",
    Health: "HEALTH_",
    Phase: "PHASE_",
    RolloutStatus: "ROLLOUT_STATUS_",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_their_prefix() {
        assert_eq!(Phase::Verifying.short_name(), "verifying");
        assert_eq!(RolloutStatus::AwaitingApproval.short_name(), "awaiting_approval");
        assert_eq!(Go::TurnBack.short_name(), "turn_back");
        assert_eq!(Health::Unprovisioned.short_name(), "unprovisioned");
    }
}
