//! The operator's command: `rollcall`.
//!
//! It parses its arguments ([`args`]), asks any peer over gRPC ([`client`]), turns answers into views ([`view`]) and
//! prints them as tables, JSON or YAML ([`output`]). It keeps no state and decides nothing: whether something may
//! happen is the cluster's business, and its refusal is shown with what to do next.

mod app;
mod args;
mod client;
mod commands;
mod config;
mod dev;
mod failure;
mod group_file;
mod live;
mod logging;
mod maintenance;
mod output;
mod table;
mod toml_error;
mod view;
mod when;

use std::process::ExitCode;

fn main() -> ExitCode {
    app::run()
}
