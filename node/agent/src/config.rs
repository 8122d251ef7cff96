//! The agent's config: one TOML file, with a few keys that options and environment override.
//!
//! A wrong config is refused as a whole, and the message names the file, the line, the key and what was expected.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use rollcall_ident::{GroupName, Millis, NodeName};
use serde::{Deserialize, Deserializer};

use crate::driver::DriverKind;
use crate::package::Source;

/// BOUND: a config is written by a person.
const MAX_CONFIG_BYTES: u64 = 1 << 20;

/// A checked config.
#[derive(Debug, Clone)]
pub struct Config {
    /// The node's name, for people.
    pub name: NodeName,
    /// gRPC addresses of peers, `host:port`; any of them will do.
    pub endpoints: Vec<String>,
    /// Where everything lies that the agent remembers. One agent per folder.
    pub data_dir: PathBuf,
    /// Free labels, for the order of rollouts.
    pub labels: BTreeMap<String, String>,
    /// What reboots the machine.
    pub reboot_command: Vec<String>,
    /// A machine that is still there so long after it is asked again.
    pub reboot_patience: Millis,
    /// Where the agent's HTTP listens; none: nowhere.
    pub http: Option<SocketAddr>,
    /// Instead of what `/etc/machine-id` says.
    pub machine_id: Option<String>,
    /// The peer that runs on this machine, by its id or address; none: told by the machine's id.
    pub hosts_peer: Option<String>,
    /// The services.
    pub services: Vec<ServiceConfig>,
}

/// One service of the config.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceConfig {
    /// `service.group`
    #[serde(deserialize_with = "parsed")]
    pub group: GroupName,
    /// What starts and stops it.
    #[serde(default)]
    pub driver: DriverKind,
    /// Where its releases come from.
    #[serde(deserialize_with = "parsed")]
    pub source: Source,
    /// How often health is looked at while nothing happens.
    #[serde(default = "default_interval", deserialize_with = "parsed")]
    pub health_check_interval: Millis,
    /// Handed to hooks as a TOML file and as environment.
    #[serde(default)]
    pub config: toml::Table,
}

/// What options and environment say; it goes above the file.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// `--name`
    pub name: Option<NodeName>,
    /// `--endpoints`
    pub endpoints: Option<Vec<String>>,
    /// `--data-dir`
    pub data_dir: Option<PathBuf>,
    /// `--http`
    pub http: Option<SocketAddr>,
    /// `--machine-id`
    pub machine_id: Option<String>,
}

/// Why a config is refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file can't be read.
    #[error("can't read the config {}: {source}", path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file isn't TOML, or has a key that is unknown, missing or wrong. The source names line and key.
    #[error("{}: {source}", path.display())]
    Malformed {
        /// Which file.
        path: PathBuf,
        /// Where, what, and what was expected.
        source: Box<toml::de::Error>,
    },
    /// A key that neither the file nor an option gives.
    #[error("{}: `{key}` is missing: set it in the file, with {option} or with {variable}", path.display())]
    Missing {
        /// Which file.
        path: PathBuf,
        /// Which key.
        key: &'static str,
        /// Its option.
        option: &'static str,
        /// Its environment variable.
        variable: &'static str,
    },
    /// Two things that don't go together.
    #[error("{}: `{key}`: {problem}", path.display())]
    Wrong {
        /// Which file.
        path: PathBuf,
        /// Which key.
        key: &'static str,
        /// What is wrong, and what was expected.
        problem: String,
    },
}

/// The file as it is written; what an option can give instead may be absent.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default, deserialize_with = "parsed_option")]
    name: Option<NodeName>,
    endpoints: Option<Vec<String>>,
    data_dir: Option<PathBuf>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default = "default_reboot_command")]
    reboot_command: Vec<String>,
    #[serde(default = "default_reboot_patience", deserialize_with = "parsed")]
    reboot_patience: Millis,
    http: Option<SocketAddr>,
    machine_id: Option<String>,
    #[serde(default, deserialize_with = "peer_name")]
    hosts_peer: Option<String>,
    #[serde(default)]
    service: Vec<ServiceConfig>,
}

fn default_reboot_command() -> Vec<String> {
    vec!["systemctl".to_owned(), "reboot".to_owned()]
}

/// Services that shut down slowly get 90 s of systemd.
fn default_reboot_patience() -> Millis {
    Millis::from_secs(120)
}

fn default_interval() -> Millis {
    Millis::from_secs(30)
}

/// A peer by its id, as a number or as text, or by its address.
fn peer_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "a peer's id or its HOST:PORT")]
    enum Given {
        Id(u64),
        Text(String),
    }
    Ok(Some(match Given::deserialize(deserializer)? {
        Given::Id(id) => id.to_string(),
        Given::Text(text) => text,
    }))
}

/// For types that parse from text, so that their errors carry the line.
pub(crate) fn parsed<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: FromStr<Err: Display>,
    D: Deserializer<'de>,
{
    String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
}

pub(crate) fn parsed_option<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: FromStr<Err: Display>,
    D: Deserializer<'de>,
{
    parsed(deserializer).map(Some)
}

impl Config {
    /// Reads and checks a config file.
    ///
    /// # Errors
    /// [`ConfigError`] names the file, the key, and what was expected.
    pub fn load(path: &Path, overrides: Overrides) -> Result<Self, ConfigError> {
        let text = read_bounded(path).map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })?;
        Self::parse(path, &text, overrides)
    }

    fn parse(path: &Path, text: &str, overrides: Overrides) -> Result<Self, ConfigError> {
        let file: File = toml::from_str(text)
            .map_err(|source| ConfigError::Malformed { path: path.to_owned(), source: Box::new(source) })?;
        let missing = |key, option, variable| ConfigError::Missing { path: path.to_owned(), key, option, variable };
        let config = Self {
            name: overrides.name.or(file.name).ok_or_else(|| missing("name", "--name", "ROLLCALL_NAME"))?,
            endpoints: overrides
                .endpoints
                .or(file.endpoints)
                .ok_or_else(|| missing("endpoints", "--endpoints", "ROLLCALL_ENDPOINTS"))?,
            data_dir: overrides
                .data_dir
                .or(file.data_dir)
                .ok_or_else(|| missing("data_dir", "--data-dir", "ROLLCALL_DATA_DIR"))?,
            labels: file.labels,
            reboot_command: file.reboot_command,
            reboot_patience: file.reboot_patience,
            http: overrides.http.or(file.http),
            machine_id: overrides.machine_id.or(file.machine_id),
            hosts_peer: file.hosts_peer,
            services: file.service,
        };
        config.check().map_err(|(key, problem)| ConfigError::Wrong { path: path.to_owned(), key, problem })?;
        Ok(config)
    }

    fn check(&self) -> Result<(), (&'static str, String)> {
        if self.endpoints.is_empty() {
            return Err(("endpoints", "it is empty: at least one peer's host:port is needed".to_owned()));
        }
        for endpoint in &self.endpoints {
            let port = endpoint.rsplit_once(':').filter(|(host, _)| !host.is_empty()).map(|(_, port)| port);
            if port.is_none_or(|port| port.parse::<u16>().is_err()) {
                return Err(("endpoints", format!("{endpoint:?} is not host:port, like 10.0.0.1:7400")));
            }
        }
        if self.data_dir.as_os_str().is_empty() {
            return Err(("data_dir", "it is empty: a folder of the agent's own is needed".to_owned()));
        }
        for (i, service) in self.services.iter().enumerate() {
            if self.services[..i].iter().any(|other| other.group == service.group) {
                return Err(("service.group", format!("{} is listed twice", service.group)));
            }
            if service.health_check_interval < Millis(250) {
                return Err((
                    "service.health_check_interval",
                    format!("{} is too short: at least 250ms", service.health_check_interval),
                ));
            }
        }
        Ok(())
    }
}

fn read_bounded(path: &Path) -> std::io::Result<String> {
    let bytes = std::fs::metadata(path)?.len();
    if bytes > MAX_CONFIG_BYTES {
        return Err(std::io::Error::other(format!("{bytes} bytes; a config has at most {MAX_CONFIG_BYTES}")));
    }
    std::fs::read_to_string(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
name = "redis-1"
endpoints = ["10.0.0.1:7400"]
data_dir = "/var/lib/rollcall-node"
labels = { zone = "a" }

[[service]]
group = "redis.default"
source = "dir:/srv/depot"
config = { port = 6379 }
"#;

    fn parse(text: &str) -> Result<Config, String> {
        Config::parse(Path::new("node.toml"), text, Overrides::default()).map_err(|error| error.to_string())
    }

    #[test]
    fn defaults_are_filled_in() {
        let config = parse(GOOD).unwrap();
        assert_eq!(config.reboot_command, ["systemctl", "reboot"]);
        assert_eq!(config.services[0].health_check_interval, Millis::from_secs(30));
        assert_eq!(config.services[0].driver, DriverKind::Supervise);
    }

    #[test]
    fn an_option_goes_above_the_file() {
        let overrides = Overrides { name: Some("other".parse().unwrap()), ..Overrides::default() };
        let config = Config::parse(Path::new("node.toml"), GOOD, overrides).unwrap();
        assert_eq!(config.name.as_str(), "other");
    }

    #[test]
    fn errors_name_file_line_key_and_what_was_expected() {
        let cases = [
            (
                GOOD.replace("labels", "lables"),
                vec!["node.toml", "line 5", "unknown field `lables`", "expected one of"],
            ),
            (GOOD.replace("redis.default", "redis"), vec!["line 8", "is not a group name", "service.group"]),
            (GOOD.replace("dir:/srv/depot", "ftp://x"), vec!["line 9", "dir:"]),
            (GOOD.replace("name = \"redis-1\"", ""), vec!["node.toml", "`name` is missing", "ROLLCALL_NAME"]),
            (GOOD.replace("10.0.0.1:7400", "10.0.0.1"), vec!["`endpoints`", "host:port"]),
            (GOOD.replace("config = {", "driver = \"docker\"\nconfig = {"), vec!["line 10", "supervise"]),
        ];
        for (text, expected) in cases {
            let error = parse(&text).unwrap_err();
            for part in expected {
                assert!(error.contains(part), "{part:?} isn't in: {error}");
            }
        }
    }
}
