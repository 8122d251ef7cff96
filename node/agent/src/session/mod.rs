//! The session with whichever peer hosts it.

mod client;
mod convert;
mod endpoints;
mod outbox;

pub use client::{Router, run_session};
pub use outbox::{Answer, Outbox, PrefetchOutcome, Report, StepMilestone};
