//! What the storage tests and `examples/logtool.rs` share.
#![allow(dead_code, reason = "each test uses a part of it")]

pub mod child;
#[cfg(test)]
pub mod folder;
pub mod sample;
#[cfg(test)]
pub mod tamper;
pub mod verify;
