//! The agent: installs releases, runs hooks and the service, keeps the step journal.
//!
//! [`app::run`] is all that a program needs; the rest is public for those who embed a part of it.
//!
//! # Invariants
//! - What is about to be done is on the disk before it is done, and what came of it before it is told.
//! - A process is only ever signalled after its pid and start time were checked.
//! - Nothing on the path of a step polls: exits come by pidfd, orders are pushed.

pub mod app;
pub mod cli;
pub mod config;
pub mod disk;
pub mod driver;
pub mod hooks;
mod http;
pub mod metrics;
pub mod package;
pub mod process;
pub mod service;
pub mod session;
mod step;
