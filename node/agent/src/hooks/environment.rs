//! What hooks and the service see in their environment.

use std::path::PathBuf;
use std::process::Command;

use rollcall_ident::{GroupName, NodeName};
use rollcall_steps::{Phase, Reason, StepState};

use crate::package::HookConfig;

/// Why a hook runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookReason {
    /// A step.
    Step(Reason),
    /// The service is restarted after its exit.
    Crash,
    /// The service is started because the agent was.
    Start,
}

impl HookReason {
    fn name(self) -> &'static str {
        match self {
            Self::Step(reason) => reason.name(),
            Self::Crash => "crash",
            Self::Start => "start",
        }
    }
}

/// The step in which a hook runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepFacts {
    rollout: String,
    from: String,
    to: String,
    phase: Phase,
    attempt: u32,
    fence: u64,
    reboots: u32,
}

impl StepFacts {
    /// The facts of a step as it stands, for a hook of `phase`.
    #[must_use]
    pub fn of(step: &StepState, phase: Phase) -> Self {
        Self {
            rollout: step.opened.rollout.to_string(),
            from: step.opened.from.as_ref().map(|from| from.bare().to_string()).unwrap_or_default(),
            to: step.opened.to.bare().to_string(),
            phase,
            attempt: step.opened.attempt,
            fence: step.opened.fence.0,
            reboots: step.reboots,
        }
    }
}

/// The environment of one run.
#[derive(Debug, Clone)]
pub struct HookEnvironment {
    /// The group.
    pub group: GroupName,
    /// The node's name.
    pub node: NodeName,
    /// The service's own folder.
    pub data_dir: PathBuf,
    /// The service's config.
    pub config: HookConfig,
    /// Where the service writes its role.
    pub status_file: PathBuf,
    /// The folder of the release that the hook belongs to.
    pub package_path: PathBuf,
    /// The release that the hook belongs to.
    pub release: String,
    /// Why it runs.
    pub reason: HookReason,
    /// The step, where one is open.
    pub step: Option<StepFacts>,
}

impl HookEnvironment {
    /// Sets the environment of a command: the agent's own, without what configures the agent, and what is promised.
    pub fn apply(&self, command: &mut Command) {
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("ROLLCALL_") {
                command.env_remove(name);
            }
        }
        for (key, value) in &self.config.table {
            let key: String =
                key.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect();
            command.env(format!("ROLLCALL_CONFIG_{key}"), plain(value));
        }
        command
            .env("ROLLCALL_GROUP", self.group.as_str())
            .env("ROLLCALL_NODE", self.node.as_str())
            .env("ROLLCALL_DATA_DIR", &self.data_dir)
            .env("ROLLCALL_CONFIG", &self.config.file)
            .env("ROLLCALL_STATUS_FILE", &self.status_file)
            .env("ROLLCALL_PKG_PATH", &self.package_path)
            .env("ROLLCALL_PKG_IDENT", &self.release)
            .env("ROLLCALL_REASON", self.reason.name());
        let none = StepFacts {
            rollout: String::new(),
            from: self.release.clone(),
            to: self.release.clone(),
            phase: Phase::Verifying,
            attempt: 0,
            fence: 0,
            reboots: 0,
        };
        let (step, phase) = match &self.step {
            Some(step) => (step, step.phase.name()),
            None => (&none, ""),
        };
        command
            .env("ROLLCALL_ROLLOUT", &step.rollout)
            .env("ROLLCALL_FROM", &step.from)
            .env("ROLLCALL_TO", &step.to)
            .env("ROLLCALL_PHASE", phase)
            .env("ROLLCALL_ATTEMPT", step.attempt.to_string())
            .env("ROLLCALL_FENCE", step.fence.to_string())
            .env("ROLLCALL_REBOOTS", step.reboots.to_string());
    }
}

/// A string without its quotes; anything else as TOML writes it.
fn plain(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
