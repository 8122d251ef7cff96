//! What starts and stops a service. One file per driver.

mod backoff;
mod log;
mod record;
mod supervise;

use serde::Deserialize;

pub use backoff::Backoff;
pub use record::{Found, find_running};
pub use supervise::{ProcessView, StopFailed, Stopped, Supervisor};

/// The driver of a service, as the config names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DriverKind {
    /// The agent is its parent: `run` in the foreground.
    #[default]
    Supervise,
    /// A systemd unit.
    Systemd,
    /// The hooks `start`, `stop`, `status`.
    Hooks,
}

/// A driver that this agent hasn't got.
#[derive(Debug, thiserror::Error)]
#[error("driver = {name:?} is not built yet: use driver = \"supervise\"")]
pub struct NotBuilt {
    name: &'static str,
}

impl DriverKind {
    /// Whether this agent can drive a service that way.
    ///
    /// # Errors
    /// [`NotBuilt`] names the driver that can.
    pub fn check_built(self) -> Result<(), NotBuilt> {
        match self {
            Self::Supervise => Ok(()),
            Self::Systemd => Err(NotBuilt { name: "systemd" }),
            Self::Hooks => Err(NotBuilt { name: "hooks" }),
        }
    }
}
