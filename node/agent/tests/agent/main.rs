//! The real agent with real hooks, against a coordinator that does as it is told.

#![allow(clippy::unwrap_used)]

mod adoption;
mod bad_input;
mod configs;
mod crashes;
mod health;
mod orders;
mod reboots;
mod restored;
mod returns;
mod state_files;
mod step;
mod strangers;
mod support;
mod verbs;
mod walk;
