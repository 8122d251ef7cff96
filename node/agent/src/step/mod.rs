//! Carries out steps: [`rollcall_steps::decide`] chooses, this module does, the journal remembers. One file per part of a
//! step.

mod before;
mod cleanup;
mod clock;
mod end;
mod engine;
mod hooks;
mod install;
mod life;
mod reboot;
mod settle;
mod start;
mod stop;

pub use engine::{Engine, Surroundings};
