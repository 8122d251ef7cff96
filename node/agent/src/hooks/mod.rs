//! Hooks: how they are run, what they see, and what their exits mean.

mod environment;
mod output;
mod run;

pub use environment::{HookEnvironment, HookReason, StepFacts};
pub use output::{HookOutput, TAIL_BYTES};
pub use run::{Exit, HOOK_TOKEN, HookEnd, HookRun, wait_for_survivor};
