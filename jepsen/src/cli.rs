//! The operator's CLI, run as an operator would and shown as it was run.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::screen::Screen;

/// BOUND: a command that takes longer than this hangs.
const ENDS_WITHIN: Duration = Duration::from_secs(60);

/// The CLI for one cluster.
#[derive(Debug, Clone)]
pub struct Rollcall {
    program: PathBuf,
    endpoints: String,
    screen: Arc<Screen>,
}

impl Rollcall {
    /// `rollcall` with its endpoints in the environment.
    pub fn new(program: PathBuf, endpoints: &[String], screen: Arc<Screen>) -> Self {
        Self { program, endpoints: endpoints.join(","), screen }
    }

    /// Shows the command and what it prints. An error where it ends with one.
    pub async fn show(&self, arguments: &[&str]) -> Result<String> {
        self.screen.command(&format!("rollcall {}", shown(arguments)));
        let output = self.run(arguments).await?;
        self.screen.output(&output);
        Ok(output)
    }

    /// Runs the command without a word and reads its answer, `-o json`.
    pub async fn json(&self, arguments: &[&str]) -> Result<serde_json::Value> {
        let mut all = arguments.to_vec();
        all.extend(["-o", "json"]);
        let output = self.run(&all).await?;
        serde_json::from_str(&output).with_context(|| format!("rollcall {}: not JSON: {output}", shown(&all)))
    }

    async fn run(&self, arguments: &[&str]) -> Result<String> {
        let command = tokio::process::Command::new(&self.program)
            .args(arguments)
            .env("ROLLCALL_ENDPOINTS", &self.endpoints)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let output = tokio::time::timeout(ENDS_WITHIN, command)
            .await
            .with_context(|| format!("rollcall {} hangs", shown(arguments)))??;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("rollcall {} ended with {}: {}", shown(arguments), output.status, said.trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// As it would be typed: a file by its name only, for the run's folder is of no interest.
fn shown(arguments: &[&str]) -> String {
    let short = |argument: &&str| match argument.strip_prefix('/') {
        Some(path) => path.rsplit('/').next().unwrap_or(path).to_owned(),
        None => (*argument).to_owned(),
    };
    arguments.iter().map(short).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_it_would_be_typed() {
        assert_eq!(shown(&["group", "apply", "-f", "/a/b/redis.toml"]), "group apply -f redis.toml");
    }
}
