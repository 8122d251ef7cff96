//! The words of a step: phases, hooks, how far the orders let it go, and how it can end.

use bincode::{Decode, Encode};

/// Where a step stands on the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub enum Phase {
    /// `ready-to-update` is polled; nothing is disturbed.
    Preparing,
    /// `drain` runs; nothing is stopped.
    Draining,
    /// The old instance is being stopped.
    Stopping,
    /// `install` of the target runs.
    Installing,
    /// The machine is to go down, or is away.
    Rebooting,
    /// `init`, then `run` of the target.
    Starting,
    /// The new instance runs; its health is watched.
    Verifying,
}

impl Phase {
    /// In the order in which a step goes through them.
    pub const ALL: [Self; 7] = [
        Self::Preparing,
        Self::Draining,
        Self::Stopping,
        Self::Installing,
        Self::Rebooting,
        Self::Starting,
        Self::Verifying,
    ];

    /// As hooks (`ROLLCALL_PHASE`), logs and tables show it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Preparing => "preparing",
            Self::Draining => "draining",
            Self::Stopping => "stopping",
            Self::Installing => "installing",
            Self::Rebooting => "rebooting",
            Self::Starting => "starting",
            Self::Verifying => "verifying",
        }
    }

    /// The phase that follows once this one's outcome is durable. Rebooting is an excursion of installing.
    #[must_use]
    pub fn next(self) -> Option<Self> {
        match self {
            Self::Preparing => Some(Self::Draining),
            Self::Draining => Some(Self::Stopping),
            Self::Stopping => Some(Self::Installing),
            Self::Installing | Self::Rebooting => Some(Self::Starting),
            Self::Starting => Some(Self::Verifying),
            Self::Verifying => None,
        }
    }

    /// How far orders must let the step go for this phase to begin.
    #[must_use]
    pub fn needs(self) -> Go {
        match self {
            Self::Preparing => Go::Prepare,
            Self::Draining => Go::Drain,
            Self::Stopping | Self::Installing | Self::Rebooting | Self::Starting | Self::Verifying => Go::Replace,
        }
    }
}

/// The hooks of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub enum Hook {
    /// Once per release, service and node.
    Install,
    /// May an update begin?
    ReadyToUpdate,
    /// Before the stop.
    Drain,
    /// After success, and always after a failed step.
    Undrain,
    /// Before the stop signal.
    PreStop,
    /// Once the process is gone.
    PostStop,
    /// Before each start of the process.
    Init,
    /// The service itself.
    Run,
    /// After the start, in the background.
    PostRun,
    /// At every interval.
    HealthCheck,
    /// With the health check: the node's priority.
    Suitability,
    /// After an unclean end: did it happen?
    Probe,
    /// When a release is removed.
    Uninstall,
}

impl Hook {
    /// Every hook that a release can have.
    pub const ALL: [Self; 13] = [
        Self::Install,
        Self::ReadyToUpdate,
        Self::Drain,
        Self::Undrain,
        Self::PreStop,
        Self::PostStop,
        Self::Init,
        Self::Run,
        Self::PostRun,
        Self::HealthCheck,
        Self::Suitability,
        Self::Probe,
        Self::Uninstall,
    ];

    /// The name of its file in `hooks/`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Install => "install",
            Self::ReadyToUpdate => "ready-to-update",
            Self::Drain => "drain",
            Self::Undrain => "undrain",
            Self::PreStop => "pre-stop",
            Self::PostStop => "post-stop",
            Self::Init => "init",
            Self::Run => "run",
            Self::PostRun => "post-run",
            Self::HealthCheck => "health-check",
            Self::Suitability => "suitability",
            Self::Probe => "probe",
            Self::Uninstall => "uninstall",
        }
    }

    /// The hook whose file has this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|hook| hook.name() == name)
    }
}

/// How far the orders let a step go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Go {
    /// Up to commit point A.
    Prepare,
    /// Up to commit point B.
    Drain,
    /// To the end, without asking again.
    Replace,
    /// The soak is complete.
    Finish,
}

/// How a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub enum Ending {
    /// It succeeded.
    Finished,
    /// What was begun is undone, as ordered.
    TurnedBack,
    /// It vanished from the orders, or another step took its place.
    Withdrawn,
    /// A phase failed.
    Failed,
}

/// Why a step was ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub enum Reason {
    /// Forward.
    Update,
    /// Back.
    Rollback,
    /// The node was away.
    CatchUp,
}

impl Reason {
    /// As hooks see it in `ROLLCALL_REASON`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Update => "update",
            Self::Rollback => "rollback",
            Self::CatchUp => "catch-up",
        }
    }
}
