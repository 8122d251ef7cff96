//! `rollcall.toml`: what a release says about itself.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use rollcall_ident::{Millis, ReleaseIdent};
use rollcall_steps::{Hook, Rerun, rerun_policy};
use serde::Deserialize;

use super::FetchError;
use crate::config::{parsed, parsed_option};

/// BOUND: it is written by a person.
const MAX_MANIFEST_BYTES: u64 = 256 << 10;

/// Long enough for a slow installation or a long drain, short enough to be noticed.
const LONG_HOOK_TIMEOUT: Duration = Duration::from_secs(600);

/// What is asked and answered at once.
const SHORT_HOOK_TIMEOUT: Duration = Duration::from_secs(60);

/// The interval of samples must not be eaten by a hanging check.
const CHECK_HOOK_TIMEOUT: Duration = Duration::from_secs(10);

/// A release's manifest.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Of this release; it must equal the name it lies under.
    #[serde(deserialize_with = "parsed")]
    pub ident: ReleaseIdent,
    /// About the process.
    #[serde(default)]
    pub service: ServiceSettings,
    /// About single hooks, by name.
    #[serde(default)]
    hooks: BTreeMap<String, HookSettings>,
    /// Exit codes of `install` that mean: done, reboot now.
    #[serde(default = "default_reboot_codes")]
    pub reboot_exit_codes: Vec<i32>,
    /// Whether nodes that run it may go back to an earlier release; for the coordinator.
    #[serde(default = "yes")]
    pub rollback: bool,
    /// What it binds to; handed through.
    #[serde(default)]
    pub binds: toml::Table,
}

/// The `[service]` table.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServiceSettings {
    /// Whom `run` and the hooks beside it run as; none: the agent's user.
    pub user: Option<String>,
    /// What asks the process to end.
    pub stop_signal: StopSignal,
    /// How long it may take to end before its group is killed.
    #[serde(deserialize_with = "parsed")]
    pub stop_timeout: Millis,
}

impl Default for ServiceSettings {
    fn default() -> Self {
        Self { user: None, stop_signal: StopSignal::default(), stop_timeout: Millis::from_secs(8) }
    }
}

/// A `[hooks.<name>]` table.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HookSettings {
    /// After which the hook is killed with its group and counts as failed.
    #[serde(deserialize_with = "parsed_option")]
    pub timeout: Option<Millis>,
    /// How often `install` is tried again.
    pub retries: u32,
    /// What to do when it was started and nobody saw its end.
    #[serde(deserialize_with = "parsed_option")]
    pub rerun: Option<RerunSetting>,
}

/// `rerun | probe | fail`
#[derive(Debug, Clone, Copy)]
pub struct RerunSetting(Rerun);

impl FromStr for RerunSetting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "rerun" => Ok(Self(Rerun::Rerun)),
            "probe" => Ok(Self(Rerun::Probe)),
            "fail" => Ok(Self(Rerun::Fail)),
            _ => Err(format!("{text:?} is not a re-run policy: rerun, probe or fail was expected")),
        }
    }
}

/// A signal that asks a process to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[allow(missing_docs)]
pub enum StopSignal {
    #[default]
    #[serde(rename = "TERM", alias = "SIGTERM")]
    Term,
    #[serde(rename = "INT", alias = "SIGINT")]
    Int,
    #[serde(rename = "QUIT", alias = "SIGQUIT")]
    Quit,
    #[serde(rename = "HUP", alias = "SIGHUP")]
    Hup,
    #[serde(rename = "USR1", alias = "SIGUSR1")]
    Usr1,
    #[serde(rename = "USR2", alias = "SIGUSR2")]
    Usr2,
    #[serde(rename = "KILL", alias = "SIGKILL")]
    Kill,
}

fn default_reboot_codes() -> Vec<i32> {
    vec![35, 37, 194]
}

fn yes() -> bool {
    true
}

impl Manifest {
    /// Reads the manifest in a release's folder.
    ///
    /// # Errors
    /// [`FetchError::Damaged`] names line, key and what was expected; [`FetchError::WrongIdent`].
    pub fn load(folder: &Path, ident: &ReleaseIdent) -> Result<Self, FetchError> {
        let damaged = |problem| FetchError::Damaged { ident: ident.clone(), problem };
        let path = folder.join("rollcall.toml");
        let bytes = fs::metadata(&path).map_err(|_| damaged("it has no rollcall.toml".to_owned()))?.len();
        if bytes > MAX_MANIFEST_BYTES {
            return Err(damaged(format!(
                "its rollcall.toml has {bytes} bytes; at most {MAX_MANIFEST_BYTES} are allowed"
            )));
        }
        let text = fs::read_to_string(&path).map_err(FetchError::io(&path))?;
        let manifest: Self = toml::from_str(&text).map_err(|error| damaged(format!("rollcall.toml: {error}")))?;
        if let Some(name) = manifest.hooks.keys().find(|name| Hook::from_name(name).is_none()) {
            return Err(damaged(format!("rollcall.toml: [hooks.{name}]: there is no hook of that name")));
        }
        if manifest.ident != ident.bare() {
            return Err(FetchError::WrongIdent { ident: ident.clone(), found: manifest.ident });
        }
        Ok(manifest)
    }

    /// How long a hook may run.
    #[must_use]
    pub fn timeout(&self, hook: Hook) -> Duration {
        let configured = self.hooks.get(hook.name()).and_then(|settings| settings.timeout);
        configured.map_or_else(|| default_timeout(hook), |timeout| Duration::from_millis(timeout.0))
    }

    /// How often a hook is tried again after a failure.
    #[must_use]
    pub fn retries(&self, hook: Hook) -> u32 {
        self.hooks.get(hook.name()).map_or(0, |settings| settings.retries)
    }

    /// What to do about a hook that was started and whose end nobody saw.
    #[must_use]
    pub fn rerun(&self, hook: Hook, has_probe: bool) -> Rerun {
        let configured = self.hooks.get(hook.name()).and_then(|settings| settings.rerun);
        rerun_policy(hook, configured.map(|setting| setting.0), has_probe)
    }
}

fn default_timeout(hook: Hook) -> Duration {
    match hook {
        Hook::HealthCheck | Hook::Suitability => CHECK_HOOK_TIMEOUT,
        Hook::ReadyToUpdate | Hook::Probe | Hook::PostRun => SHORT_HOOK_TIMEOUT,
        Hook::Install
        | Hook::Drain
        | Hook::Undrain
        | Hook::PreStop
        | Hook::PostStop
        | Hook::Init
        | Hook::Run
        | Hook::Uninstall => LONG_HOOK_TIMEOUT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str) -> Result<Manifest, String> {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("rollcall.toml"), text).unwrap();
        let ident = "acme/app/1.0/20260101000000".parse().unwrap();
        Manifest::load(dir.path(), &ident).map_err(|error| error.to_string())
    }

    #[test]
    fn a_manifest_says_only_what_differs() {
        let manifest = load(
            "ident = \"acme/app/1.0/20260101000000\"\n[service]\nstop_signal = \"INT\"\n\
             [hooks.install]\ntimeout = \"2m\"\nretries = 2\nrerun = \"fail\"\n",
        )
        .unwrap();
        assert_eq!(manifest.service.stop_signal, StopSignal::Int);
        assert_eq!(manifest.service.stop_timeout, Millis::from_secs(8));
        assert_eq!(manifest.timeout(Hook::Install), Duration::from_secs(120));
        assert_eq!(manifest.timeout(Hook::HealthCheck), CHECK_HOOK_TIMEOUT);
        assert_eq!(manifest.retries(Hook::Install), 2);
        assert_eq!(manifest.rerun(Hook::Install, true), Rerun::Fail);
        assert_eq!(manifest.reboot_exit_codes, [35, 37, 194]);
    }

    #[test]
    fn a_release_says_that_there_is_no_way_back() {
        let head = "ident = \"acme/app/1.0/20260101000000\"\n";
        assert!(load(head).unwrap().rollback);
        assert!(!load(&format!("{head}rollback = false\n")).unwrap().rollback);
        let error = load(&format!("{head}[service]\nrollback = false\n")).unwrap_err();
        assert!(error.contains("unknown field `rollback`"), "{error}");
    }

    #[test]
    fn mistakes_are_named() {
        let head = "ident = \"acme/app/1.0/20260101000000\"\n";
        for (text, expected) in [
            (format!("{head}[hooks.instal]\nretries = 1\n"), "[hooks.instal]"),
            (format!("{head}[hooks.install]\nrerun = \"maybe\"\n"), "rerun, probe or fail"),
            (format!("{head}[service]\nstop_sgnal = \"INT\"\n"), "unknown field `stop_sgnal`"),
            ("ident = \"acme/app/2.0/20260101000000\"\n".to_owned(), "says in its rollcall.toml"),
        ] {
            let error = load(&text).unwrap_err();
            assert!(error.contains(expected), "{expected:?} isn't in: {error}");
        }
    }
}
