//! The coordinator peer: storage, consensus, sessions, services.
//!
//! [`app`] puts it together. Writes go down from `services`, `sessions` and `leader` through [`raft`] into the log; what
//! the log says comes back up as applied states, from which answers, orders and plans are derived.

mod announce;
pub mod app;
pub mod config;
mod convert;
mod doctor;
mod http;
pub mod inspect;
mod leader;
pub mod logging;
mod metrics;
pub mod raft;
pub mod refound;
mod services;
mod sessions;
pub mod storage;
pub mod world;
