//! The policy of a group: what a person declares about how it may be updated. Defaults are those of the group file.

mod amount;
mod choice;
mod validate;

pub use amount::{Amount, Ratio};
pub use choice::{FailureAction, Mode, OfflinePolicy, OnDemote, Order, TimeoutAction, UpdateCondition, WarningPolicy};

use bincode::{Decode, Encode};
use rollcall_ident::Millis;

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
    /// Whether each step needs a person's word.
    mode: Mode = Mode::Auto,
    /// Whether a second person must approve before it begins.
    approval_required: bool = false,
    /// How many steps may be under way at once.
    max_parallel: Amount = Amount::Count(1),
    /// How many members may be not known healthy, whatever the cause.
    max_unavailable: Amount = Amount::Count(1),
    /// Sizes of the batches, in order; the last one repeats. Empty: one batch of all.
    batches: Vec<Amount> = Vec::new(),
    /// Who goes first.
    order: Order = Order::Name,
    /// The names in their order, for [`Order::Inventory`].
    inventory: Vec<String> = Vec::new(),
    /// Whether primaries go last.
    primary_last: bool = true,
    /// How many members go ahead of all batches, as a trial.
    canary: u32 = 0,
    /// Whether a batch that is well is followed by the next one without a person's word.
    auto_promote: bool = false,
    /// For how long nothing begins after a batch; without batches, after a step.
    delay: Millis = Millis(0),
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
    /// What happens then.
    ready_timeout_action: TimeoutAction = TimeoutAction::Fail,
    /// For how long a drain may take.
    drain_timeout: Millis = Millis::from_secs(3600),
    /// What happens then.
    drain_timeout_action: TimeoutAction = TimeoutAction::Fail,
    /// For how long a node may be away in its step before the rollout pauses.
    reboot_timeout: Millis = Millis::from_secs(900),
    /// How often one step may reboot.
    max_reboots: u32 = 3,
    /// Without a session for longer, a node's health is unknown.
    stale_after: Millis = Millis::from_secs(10),
    /// Without a session for longer, a node is departed.
    lost_after: Millis = Millis::from_secs(120),
    /// What becomes of a rollout whose next member has departed.
    offline_policy: OfflinePolicy = OfflinePolicy::Pause,
    /// What a failed step does to its rollout.
    failure_action: FailureAction = FailureAction::Pause,
    /// With [`FailureAction::Continue`]: the share of steps that may fail.
    max_failure_ratio: Ratio = Ratio::NONE,
    /// What the demotion of its target does to a rollout.
    on_demote: OnDemote = OnDemote::Stop,
    /// Whether a promotion starts a rollout.
    auto_start: bool = true,
    /// Whether a member on an old release is caught up by itself.
    catch_up: bool = true,
    /// How often a step is tried before it counts as failed.
    max_attempts: u32 = 1,
    /// How many ended rollouts are kept.
    revision_history_limit: u32 = 10,
}
