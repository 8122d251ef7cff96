//! What a run of the command goes by: options, environment, config file and defaults put together.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rollcall_ident::Millis;
use serde::{Deserialize, Deserializer};

use crate::args::{Format, GlobalArgs, LogFormat};
use crate::client::PeerAddress;
use crate::failure::Failure;
use crate::toml_error::TomlSource;

const DEFAULT_ENDPOINT: &str = "127.0.0.1:7400";
const DEFAULT_TIMEOUT: Millis = Millis::from_secs(10);

/// Everything that is settled before a command runs.
#[derive(Debug, Clone)]
pub struct Config {
    pub endpoints: Vec<PeerAddress>,
    pub format: Format,
    /// Of one call, over all peers and retries.
    pub timeout: Duration,
    /// Of a watch; only ever the option's.
    pub watch_timeout: Option<Duration>,
    pub log_format: LogFormat,
    pub colour: bool,
}

/// The config file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    endpoints: Option<Vec<FromText<PeerAddress>>>,
    output: Option<Format>,
    timeout: Option<FromText<Millis>>,
    ca: Option<PathBuf>,
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
    log_format: Option<LogFormat>,
}

/// A value that a config or group file writes as a string.
#[derive(Debug, Clone)]
pub struct FromText<T>(pub T);

impl<'de, T> Deserialize<'de> for FromText<T>
where
    T: std::str::FromStr,
    T::Err: std::fmt::Display,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Self).map_err(serde::de::Error::custom)
    }
}

impl Config {
    /// `timeout_is_option`: whether the timeout stands on the command line and not only in the environment.
    pub fn load(args: &GlobalArgs, timeout_is_option: bool) -> Result<Self, Failure> {
        let file = match config_path(args) {
            Some(path) => load_file(&path)?,
            None => File::default(),
        };
        refuse_tls(args, &file)?;
        let endpoints = if args.endpoints.is_empty() {
            file.endpoints.unwrap_or_default().into_iter().map(|address| address.0).collect()
        } else {
            args.endpoints.clone()
        };
        let default_endpoint = || vec![PeerAddress::from_static(DEFAULT_ENDPOINT)];
        let timeout = args.timeout.or(file.timeout.map(|timeout| timeout.0)).unwrap_or(DEFAULT_TIMEOUT);
        if timeout.0 == 0 {
            return Err(Failure::Usage("--timeout 0s: expected a duration above zero, like 10s".to_owned()));
        }
        Ok(Self {
            endpoints: if endpoints.is_empty() { default_endpoint() } else { endpoints },
            format: args.output.or(file.output).unwrap_or(Format::Table),
            timeout: Duration::from_millis(timeout.0),
            watch_timeout: timeout_is_option.then(|| Duration::from_millis(timeout.0)),
            log_format: args.log_format.or(file.log_format).unwrap_or(LogFormat::Text),
            colour: is_colour_wanted(),
        })
    }
}

/// Inside a hook `ROLLCALL_CONFIG` names the service's config, which is none of ours.
fn config_path(args: &GlobalArgs) -> Option<PathBuf> {
    let path = args.config.clone()?;
    let is_hook = std::env::var_os("ROLLCALL_PKG_PATH").is_some();
    let is_from_environment = std::env::var_os("ROLLCALL_CONFIG").is_some_and(|value| value == path.as_os_str());
    (!(is_hook && is_from_environment)).then_some(path)
}

fn load_file(path: &Path) -> Result<File, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::Usage(format!("the config file {}: {error}", path.display())))?;
    TomlSource::new(path, &text).parse()
}

fn refuse_tls(args: &GlobalArgs, file: &File) -> Result<(), Failure> {
    let wanted = [
        ("--ca", args.ca.is_some() || file.ca.is_some()),
        ("--cert", args.cert.is_some() || file.cert.is_some()),
        ("--key", args.key.is_some() || file.key.is_some()),
    ];
    match wanted.iter().find(|(_, is_wanted)| *is_wanted) {
        Some((option, _)) => Err(Failure::Usage(format!(
            "{option}: TLS is not built yet; leave --ca, --cert and --key out and reach the peers over a trusted network"
        ))),
        None => Ok(()),
    }
}

/// Only a terminal gets colour, and only where nobody objects (<https://no-color.org>).
fn is_colour_wanted() -> bool {
    let objects = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
    std::io::stdout().is_terminal() && !objects && !is_dumb
}
