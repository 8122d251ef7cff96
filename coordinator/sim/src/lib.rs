//! Deterministic simulation of the whole system from one seed.
//!
//! Peers are the real thing: services, sessions, leader tasks, consensus and storage of `rollcall-coordinator`, on a simulated
//! network, disk and clock. Nodes are modelled machines with the real step machine, and speak the real session API. An operator
//! says random things. What happens when is drawn from the seed, so whatever it finds happens again.
//!
//! # Deliberately absent
//! Anything that decides: this crate breaks things, and looks.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test that can't go on panics"))]

pub mod call;
pub mod campaign;
pub mod clock;
pub mod disk;
mod faults;
pub mod judge;
pub mod machines;
pub mod network;
pub mod node;
pub mod operator;
pub mod panics;
pub mod peer;
pub mod planted;
pub mod run;
pub mod schedule;
pub mod setup;
pub mod shrink;
pub mod trace;
