//! What a service's journal is made of.
//!
//! Events whose loss could change what the agent may do next are synced before it goes on; [`Event::is_synced`] says
//! which. The rest is only ever believed within the boot that wrote it.

use std::collections::BTreeSet;

use bincode::{Decode, Encode};
use rollcall_ident::{BootId, Digest, Fence, ReleaseIdent, RolloutId};

use crate::{Ending, Hook, Phase, Reason};

/// One record of a journal. Released variants are never edited or reordered: they are on disks.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Event {
    /// What stands before the first step of this file: the journal was compacted.
    Baseline(Baseline),
    /// The fence is stored and the order accepted.
    StepOpened(StepOpened),
    /// Intent: the phase is about to begin.
    PhaseBegun {
        /// Which one.
        phase: Phase,
        /// The boot in which it begins.
        boot_id: BootId,
    },
    /// Written just before the hook is started, most often unsynced: within one boot its absence proves that it was not.
    HookStarted {
        /// Which one.
        hook: Hook,
        /// In its environment: finds the process again.
        token: RunToken,
    },
    /// The hook ended and its outcome is known, but the phase goes on ("call me again", a retry).
    HookEnded {
        /// Which one.
        hook: Hook,
    },
    /// The phase's outcome.
    PhaseEnded {
        /// Which one.
        phase: Phase,
        /// How.
        outcome: Outcome,
    },
    /// The old instance's exit was observed.
    OldInstanceGone {
        /// It outlived its `stop_timeout`.
        killed: bool,
    },
    /// The install hook is done and asked for a reboot.
    RebootAsked {
        /// The boot that is to end.
        boot_id: BootId,
    },
    /// The machine is back with another boot id.
    Rebooted {
        /// The boot that ended.
        from: BootId,
        /// This boot.
        to: BootId,
        /// By the hook's exit code.
        asked_for: bool,
    },
    /// A process of the target runs.
    NewInstance(Instance),
    /// Intent: the step is about to end, `undrain` first.
    EndBegun {
        /// How it will have ended.
        ending: Ending,
        /// The boot in which that begins.
        boot_id: BootId,
    },
    /// The step is over.
    StepClosed {
        /// How it ended.
        ending: Ending,
        /// Where its time went.
        timings: Timings,
    },
    /// The first `count` milestones of the step were answered by the coordinator.
    Reported {
        /// How many.
        count: u32,
    },
    /// A release was removed from the disk.
    ReleaseRemoved {
        /// Which one.
        release: ReleaseIdent,
    },
    /// The orders want a step that has passed commit point B ended at its next boundary. It isn't unsaid any more: whoever
    /// ordered it counts on it, and after a crash nobody may be there to say it again.
    EndOrdered {
        /// Turned back, or withdrawn.
        ending: Ending,
    },
    /// What stands before the first step of this file, beside the baseline: a step was ended by order after the old
    /// instance's stop, and no later one has started anything.
    LeftDown,
}

impl Event {
    /// Whether it has to be on the disk before the agent goes on.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        match self {
            Self::Baseline(_)
            | Self::StepOpened(_)
            | Self::PhaseBegun { .. }
            | Self::PhaseEnded { .. }
            | Self::OldInstanceGone { .. }
            | Self::RebootAsked { .. }
            | Self::Rebooted { .. }
            | Self::NewInstance(_)
            | Self::EndBegun { .. }
            | Self::StepClosed { .. }
            | Self::ReleaseRemoved { .. }
            | Self::EndOrdered { .. }
            | Self::LeftDown => true,
            // These two are never settled, so their mark has to be there after a power cut too.
            Self::HookStarted { hook, .. } => matches!(hook, Hook::PreStop | Hook::PostStop),
            Self::HookEnded { .. } | Self::Reported { .. } => false,
        }
    }
}

/// What a compacted journal begins with.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub struct Baseline {
    /// The highest fence seen.
    pub fence: Fence,
    /// The release that runs, or would be started.
    pub current: Option<ReleaseIdent>,
    /// The one before it.
    pub previous: Option<ReleaseIdent>,
    /// Releases whose `install` has succeeded here.
    pub installed: BTreeSet<ReleaseIdent>,
}

/// A step as it was ordered.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct StepOpened {
    /// The number of the grant.
    pub fence: Fence,
    /// The n-th try.
    pub attempt: u32,
    /// Of which rollout.
    pub rollout: RolloutId,
    /// The release that ran before; none: never provisioned.
    pub from: Option<ReleaseIdent>,
    /// The target.
    pub to: ReleaseIdent,
    /// What the target's digest must be; none: any.
    pub digest: Option<Digest>,
    /// Why.
    pub reason: Reason,
    /// How often the machine may reboot in this step.
    pub max_reboots: u32,
    /// How often it had when the step was opened.
    pub reboots: u32,
}

/// How a phase ended.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Outcome {
    /// It did what it should.
    Done {
        /// Its hook ran; false: absent, or it had succeeded on this node before.
        hook_ran: bool,
    },
    /// It failed.
    Failed(Failure),
    /// The log went on without it (`ready_timeout_action` or `drain_timeout_action` is `force`): its hook was ended.
    Forced,
}

/// Why a phase failed.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Failure {
    /// The reason, for programs.
    pub reason: FailureReason,
    /// The reason, for people.
    pub detail: String,
    /// The last 4 KiB of what the hook printed.
    pub output: String,
}

/// The reason of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub enum FailureReason {
    /// It exited with a code that means failure, or by a signal.
    HookFailed,
    /// It outlived its timeout and was killed with its group.
    HookTimeout,
    /// It has no run bit, or couldn't be started.
    HookNotExecutable,
    /// The old process could not be stopped.
    StopFailed,
    /// The new process exits again and again.
    CrashLoop,
    /// The machine rebooted too often in this step.
    MaxReboots,
    /// The target isn't in the source, or isn't what it should be.
    PackageUnavailable,
    /// A hook was started, nobody knows how it ended, and its policy or probe says that this is a failure.
    OutcomeUnknown,
    /// The agent's own files couldn't be written.
    Io,
    /// The cluster knows of things that this node's journal has lost: nothing of the step is repeated.
    JournalBehind,
    /// The machine wasn't rebooted, however often that was asked for.
    RebootFailed,
}

impl FailureReason {
    /// In snake_case, as the report and `explain` show it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::HookFailed => "hook_failed",
            Self::HookTimeout => "hook_timeout",
            Self::HookNotExecutable => "hook_not_executable",
            Self::StopFailed => "stop_failed",
            Self::CrashLoop => "crash_loop",
            Self::MaxReboots => "max_reboots",
            Self::PackageUnavailable => "package_unavailable",
            Self::OutcomeUnknown => "outcome_unknown",
            Self::Io => "io",
            Self::JournalBehind => "journal_behind",
            Self::RebootFailed => "reboot_failed",
        }
    }
}

/// One running process of a service: no two are ever equal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct Instance {
    /// Its process id, and that of its group.
    pub pid: u32,
    /// Clock ticks after boot: field 22 of `/proc/PID/stat`.
    pub start_time: u64,
    /// In which boot.
    pub boot_id: BootId,
    /// The release it was started from.
    pub release: ReleaseIdent,
}

/// A random number in the environment of one started process: what carries it is ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Encode, Decode)]
pub struct RunToken(pub [u8; 16]);

impl std::fmt::Display for RunToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Where a step's time went, in microseconds, as far as the agent that closed it has seen it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode)]
pub struct Timings {
    /// From the order to the end.
    pub total_us: u64,
    /// In hooks.
    pub hooks_us: u64,
    /// Waiting for the service: the old process's end, and from the start to the first good sample.
    pub service_us: u64,
    /// From the first good sample to the order to finish.
    pub soak_us: u64,
}
