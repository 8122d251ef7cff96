//! A node: a machine with a disk, hooks and a service, and the agent on it.
//!
//! The machine is a model. The agent is one too, around the real step machine: what to do is decided by `rollcall-steps` from
//! a journal of its events, and what is said goes through the real session API. It does what `node/agent` does, in its order.

mod agent;
mod engine;
mod machine;
mod outbox;
mod phases;
mod session;
mod wire;

pub use agent::run;
pub use machine::{HookRates, Machine, Process};

/// The group of all nodes.
pub const GROUP: &str = "app.default";

/// The releases of its package, oldest first.
pub const RELEASES: [&str; 5] = [
    "acme/app/1.0.0/20260101000000",
    "acme/app/2.0.0/20260201000000",
    "acme/app/3.0.0/20260301000000",
    "acme/app/4.0.0/20260401000000",
    "acme/app/5.0.0/20260501000000",
];
