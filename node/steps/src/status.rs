//! Where a step stands in its journal, and which event may follow.
//!
//! ```text
//! opened ─ begun(preparing) ─ ended ─ begun(draining) ─ ended ─ begun(stopping) ─ ended ─ begun(installing) ─ ended ─┐
//!    │                                                                  rebooting ⇄ ┘                                │
//!    │            ┌────────── any begun phase may fail ──────────┐                  begun(starting) ─ verifying ◄────┘
//!    └─ ending ◄──┴─ failed ◄────────────────────────────────────┘                                       │
//!         └─ closed            ending also follows any boundary, by order                    ending ◄────┘
//! ```
//!
//! [`TRANSITIONS`] is that picture as data; `tests/tables.rs` holds it against [`StepState::apply`](crate::StepState::apply).

use rollcall_ident::BootId;

use crate::{Ending, Phase};

/// Where the step stands in its journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    /// Accepted; no phase has begun.
    Opened,
    /// The intent of a phase is durable.
    Begun {
        /// Which one.
        phase: Phase,
        /// The boot in which it (last) began.
        boot_id: BootId,
    },
    /// A phase is done, and that is durable.
    Ended {
        /// Which one.
        phase: Phase,
    },
    /// The install hook asked for a reboot.
    Rebooting {
        /// The boot that is to end.
        from: BootId,
    },
    /// A process of the target runs.
    Verifying,
    /// A phase failed, and that is durable.
    Failed {
        /// Which one.
        phase: Phase,
    },
    /// `undrain` is due or runs; then the step is closed.
    Ending {
        /// How it will have ended.
        ending: Ending,
        /// The boot in which that (last) began.
        boot_id: BootId,
    },
    /// Over.
    Closed {
        /// How it ended.
        ending: Ending,
    },
}

/// A status without its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum StatusKind {
    Opened,
    Begun,
    Ended,
    Rebooting,
    Verifying,
    Failed,
    Ending,
    Closed,
}

/// Every allowed move: in this status, this event (by name), leads there. What isn't listed can't have happened.
pub const TRANSITIONS: &[(StatusKind, &str, StatusKind)] = {
    use StatusKind::{Begun, Closed, Ended, Ending, Failed, Opened, Rebooting, Verifying};
    &[
        (Opened, "PhaseBegun", Begun),
        (Opened, "EndBegun", Ending),
        // Again after a crash, in the boot that is now.
        (Begun, "PhaseBegun", Begun),
        (Begun, "HookStarted", Begun),
        (Begun, "HookEnded", Begun),
        (Begun, "OldInstanceGone", Begun),
        (Begun, "PhaseEnded done", Ended),
        // Preparing and draining only.
        (Begun, "PhaseEnded forced", Ended),
        (Begun, "PhaseEnded failed", Failed),
        (Begun, "RebootAsked", Rebooting),
        (Begun, "Rebooted", Begun),
        (Begun, "NewInstance", Verifying),
        // From commit point B on; from then on no other phase begins.
        (Begun, "EndOrdered", Begun),
        (Begun, "EndBegun", Ending),
        (Ended, "PhaseBegun", Begun),
        (Ended, "EndOrdered", Ended),
        (Ended, "EndBegun", Ending),
        (Rebooting, "EndOrdered", Rebooting),
        // By order: the machine isn't rebooted any more.
        (Rebooting, "EndBegun", Ending),
        (Rebooting, "Rebooted", Ended),
        (Rebooting, "PhaseEnded failed", Failed),
        // The service was restarted while it was being verified.
        (Verifying, "NewInstance", Verifying),
        (Verifying, "PhaseEnded failed", Failed),
        (Verifying, "EndBegun", Ending),
        (Failed, "EndBegun", Ending),
        (Ending, "EndBegun", Ending),
        (Ending, "HookStarted", Ending),
        (Ending, "HookEnded", Ending),
        // `undrain` failed: the step hasn't succeeded.
        (Ending, "PhaseEnded failed", Failed),
        (Ending, "StepClosed", Closed),
    ]
};

impl Status {
    /// Without its data.
    #[must_use]
    pub fn kind(&self) -> StatusKind {
        match self {
            Self::Opened => StatusKind::Opened,
            Self::Begun { .. } => StatusKind::Begun,
            Self::Ended { .. } => StatusKind::Ended,
            Self::Rebooting { .. } => StatusKind::Rebooting,
            Self::Verifying => StatusKind::Verifying,
            Self::Failed { .. } => StatusKind::Failed,
            Self::Ending { .. } => StatusKind::Ending,
            Self::Closed { .. } => StatusKind::Closed,
        }
    }
}

/// An event that can't have followed: the journal is not one of ours, or the agent has a bug.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the journal says {event} while the step was {status:?}: that can't have happened")]
pub struct Impossible {
    /// The status before it.
    pub status: Option<Status>,
    /// The event.
    pub event: String,
}
