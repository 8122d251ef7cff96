//! One look at the service: its health check, its role, its priority.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use rollcall_steps::{Hook, Instance};
use serde::Deserialize;

use super::ServiceContext;
use super::context::new_token;
use super::health::Health;
use crate::hooks::{Exit, HookEnd, HookReason};
use crate::package::Release;

/// Where there is no health check, a process that was up for so long without a restart is healthy.
pub(super) const UP_IS_HEALTHY_AFTER: Duration = Duration::from_secs(5);

/// BOUND: a detail stands in a table cell and in reports.
const DETAIL_BYTES: usize = 200;

/// BOUND: a status file holds a few labels.
const STATUS_FILE_BYTES: u64 = 64 << 10;

/// What one look has shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sample {
    pub health: Health,
    pub detail: String,
    pub primary: bool,
    pub priority: Option<u64>,
}

/// Looks at the instance, which is up for `up`.
pub(super) async fn take_sample(context: &Arc<ServiceContext>, instance: &Instance, up: Duration) -> Sample {
    let release = match context.load(&instance.release) {
        Ok(release) => release,
        Err(error) => return Sample::unknown(error.to_string()),
    };
    let (health, detail, stdout) = match run(context, &release, Hook::HealthCheck).await {
        Some(end) => judge(&end),
        None if up >= UP_IS_HEALTHY_AFTER => (Health::Healthy, String::new(), String::new()),
        None => (Health::Unknown, "just started; it has no health-check hook".to_owned(), String::new()),
    };
    let primary = role_in_lines(&stdout).unwrap_or_else(|| role_in_file(context));
    let priority = match run(context, &release, Hook::Suitability).await {
        Some(end) if end.exit == Exit::Code(0) => last_line(&end.output.stdout).parse().ok(),
        Some(_) | None => None,
    };
    Sample { health, detail, primary, priority }
}

impl Sample {
    fn unknown(detail: String) -> Self {
        Self { health: Health::Unknown, detail, primary: false, priority: None }
    }
}

async fn run(context: &Arc<ServiceContext>, release: &Release, hook: Hook) -> Option<HookEnd> {
    let run = context.hook_run(release, hook, HookReason::Start, None, new_token())?;
    Some(run.run().await)
}

/// 0 ok, 1 warning, 2 critical, everything else unknown.
fn judge(end: &HookEnd) -> (Health, String, String) {
    let health = match &end.exit {
        Exit::Code(0) => Health::Healthy,
        Exit::Code(1) => Health::Warning,
        Exit::Code(2) => Health::Critical,
        Exit::Code(_) | Exit::Signal(_) | Exit::TimedOut(_) | Exit::CutOff | Exit::NotStarted(_) => Health::Unknown,
    };
    let said = last_line(&end.output.tail);
    let detail = match (&end.exit, said) {
        (Exit::Code(0), _) => String::new(),
        (Exit::Code(1 | 2), said) if !said.is_empty() => said.to_owned(),
        (exit, "") => format!("health-check {exit}"),
        (exit, said) => format!("health-check {exit}: {said}"),
    };
    (health, detail.chars().take(DETAIL_BYTES).collect(), end.output.stdout.clone())
}

fn last_line(text: &str) -> &str {
    text.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or("")
}

/// A line `status primary=true` in what the health check prints; the last one counts.
fn role_in_lines(stdout: &str) -> Option<bool> {
    stdout.lines().rev().find_map(|line| {
        let (key, value) = line.trim().strip_prefix("status ")?.split_once('=')?;
        (key.trim() == "primary").then(|| value.trim() == "true")
    })
}

#[derive(Debug, Deserialize)]
struct StatusFile {
    #[serde(default)]
    primary: bool,
}

fn role_in_file(context: &ServiceContext) -> bool {
    let path = context.layout.status();
    if fs::metadata(&path).map_or(true, |metadata| metadata.len() > STATUS_FILE_BYTES) {
        return false;
    }
    let text = fs::read_to_string(path).unwrap_or_default();
    // Half-written or wrong: no primary, until the next look.
    toml::from_str::<StatusFile>(&text).is_ok_and(|status| status.primary)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hooks::HookOutput;

    fn end(exit: Exit, tail: &str) -> HookEnd {
        let output = HookOutput { tail: tail.to_owned(), stdout: tail.to_owned() };
        HookEnd { exit, output, took: Duration::ZERO }
    }

    #[test]
    fn exit_codes_become_health() {
        for (code, health) in [
            (0, Health::Healthy),
            (1, Health::Warning),
            (2, Health::Critical),
            (3, Health::Unknown),
            (75, Health::Unknown),
        ] {
            assert_eq!(judge(&end(Exit::Code(code), "")).0, health, "{code}");
        }
        assert_eq!(judge(&end(Exit::TimedOut(Duration::from_secs(10)), "")).0, Health::Unknown);
        assert_eq!(judge(&end(Exit::Code(2), "lag 7 s\nlink down\n")).1, "link down");
    }

    #[test]
    fn the_last_status_line_tells_the_role() {
        assert_eq!(role_in_lines("status primary=true\nok\n"), Some(true));
        assert_eq!(role_in_lines("status primary = true\nstatus primary = false"), Some(false));
        assert_eq!(role_in_lines("primary=true\nstatus zone=a"), None);
    }
}
