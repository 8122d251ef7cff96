//! What is done to files of a peer on this machine: they are the coordinator's, so its binary does it; it is found beside
//! this command, or in the PATH.

use std::ffi::OsStr;

use serde::de::DeserializeOwned;
use tokio::process::Command;

use crate::dev::find_program;
use crate::failure::Failure;

/// The program that knows the formats.
const PROGRAM: &str = "rollcall-coordinator";

/// Has the coordinator's binary do it, and reads what it says.
pub async fn ask<T: DeserializeOwned>(arguments: &[&OsStr]) -> Result<T, Failure> {
    let program = find_program(PROGRAM)?;
    // Nothing of this command's environment is meant for the peer's.
    let output = Command::new(&program).env_clear().args(arguments).output().await;
    let output = output.map_err(|error| Failure::Failed(format!("{}: {error}", program.display())))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        let text = text.trim();
        return Err(Failure::Failed(text.strip_prefix("rollcall-coordinator: ").unwrap_or(text).to_owned()));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| {
        Failure::Failed(format!("{} speaks another version than this command: {error}", program.display()))
    })
}
