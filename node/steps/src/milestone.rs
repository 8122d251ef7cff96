//! What a step reports, in order. Derived from the journal, so that it can be reported again after a crash.

use rollcall_ident::BootId;

use crate::{Failure, Instance, Phase, Timings};

/// One thing that the coordinator has to hear about a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Milestone {
    /// The fence is stored, the journal is open.
    Accepted,
    /// Asks for commit point A.
    Prepared,
    /// Asks for commit point B.
    Drained,
    /// The old instance is gone.
    Stopped {
        /// It outlived its `stop_timeout`.
        killed: bool,
    },
    /// The target is installed.
    Installed {
        /// The hook ran for this attempt.
        hook_ran: bool,
    },
    /// The machine goes down, or went down.
    RebootBegun {
        /// The boot that ends.
        boot_id: BootId,
        /// By the hook's exit code.
        asked_for: bool,
    },
    /// A process of the target runs.
    Started(Instance),
    /// The step has succeeded.
    Finished(Timings),
    /// What was begun is undone.
    TurnedBack,
    /// A phase failed.
    Failed {
        /// Which one.
        phase: Phase,
        /// Why.
        failure: Failure,
    },
}
