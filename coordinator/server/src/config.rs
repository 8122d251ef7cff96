//! What a peer is configured with: flags over environment over file over defaults.

use std::fs;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use serde::Deserialize;

use crate::raft::Tuning;

const DEFAULT_DATA_DIR: &str = "/var/lib/rollcall-coordinator";
const DEFAULT_GRPC: &str = "127.0.0.1:7400";
const DEFAULT_HTTP: &str = "127.0.0.1:7480";

/// A permanent peer of a Rollcall cluster.
#[derive(Debug, Parser)]
#[command(name = "rollcall-coordinator", version, about, long_about = None, after_help = EXAMPLE)]
pub struct Args {
    /// TOML file with any of: data_dir, grpc, advertise, http, machine_id, history_revisions.
    #[arg(long, global = true, value_name = "FILE", env = "ROLLCALL_CONFIG")]
    pub config: Option<PathBuf>,
    /// This peer's own folder: its log, its snapshots, its identity [default: /var/lib/rollcall-coordinator].
    #[arg(long, global = true, value_name = "DIR", env = "ROLLCALL_DATA_DIR")]
    pub data_dir: Option<PathBuf>,
    /// Where to listen for gRPC: agents, operators and the other peers [default: 127.0.0.1:7400].
    #[arg(long, value_name = "HOST:PORT", env = "ROLLCALL_GRPC")]
    pub grpc: Option<String>,
    /// How the others reach it [default: the address of --grpc].
    #[arg(long, global = true, value_name = "HOST:PORT", env = "ROLLCALL_ADVERTISE")]
    pub advertise: Option<String>,
    /// Where to listen for HTTP: status page, metrics, probes [default: 127.0.0.1:7480].
    #[arg(long, value_name = "HOST:PORT", env = "ROLLCALL_HTTP")]
    pub http: Option<String>,
    /// The machine it runs on, as agents on it name it [default: what /etc/machine-id says].
    #[arg(long, value_name = "ID", env = "ROLLCALL_MACHINE_ID")]
    pub machine_id: Option<String>,
    /// For so many revisions this peer keeps the events, for watches and the audit trail [default: 100000].
    #[arg(long, value_name = "N", env = "ROLLCALL_HISTORY_REVISIONS", value_parser = clap::value_parser!(u64).range(1..))]
    pub history_revisions: Option<u64>,
    /// How log lines look on stderr.
    #[arg(long, value_enum, default_value_t = LogFormat::Text, env = "ROLLCALL_LOG_FORMAT")]
    pub log_format: LogFormat,
    /// What is logged: off, error, warn, info, debug, trace, or per module like info,rollcall_coordinator=debug.
    #[arg(long, value_name = "FILTER", default_value = "info", env = "ROLLCALL_LOG")]
    pub log: String,
    /// Something else than to run.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// What the binary does beside running a peer.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Look into snapshots, and restore them.
    #[command(subcommand)]
    Snapshot(SnapshotCommand),
    /// Where a majority of the peers is lost for good.
    #[command(subcommand)]
    Cluster(ClusterCommand),
}

/// What is done with the data directory of a stopped peer.
#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Make a new cluster of this peer's data, of which the other peers are no members.
    #[command(after_help = "\
Example: what this peer has, and what would be made of it; then to do it
  rollcall-coordinator cluster recover --data-dir /var/lib/rollcall
  rollcall-coordinator cluster recover --data-dir /var/lib/rollcall --force")]
    Recover {
        /// Do it: the other peers' data counts for nothing from then on.
        #[arg(long)]
        force: bool,
        /// For the audit trail.
        #[command(flatten)]
        origin: Origin,
    },
}

/// Who does something, and why: for the audit trail.
#[derive(Debug, Clone, ClapArgs)]
pub struct Origin {
    /// Who does it.
    #[arg(long, value_name = "NAME", default_value = "rollcall-coordinator", env = "ROLLCALL_ACTOR")]
    pub actor: String,
    /// Why.
    #[arg(long, value_name = "TEXT", env = "ROLLCALL_REASON")]
    pub reason: Option<String>,
}

/// What the new cluster is made with.
#[derive(Debug, Clone)]
pub struct RefoundArgs {
    /// How others reach its peer; none: as before.
    pub advertise: Option<String>,
    /// For the audit trail.
    pub origin: Origin,
}

/// What is done with a snapshot's file. No peer needs to run, or is disturbed.
#[derive(Debug, Subcommand)]
pub enum SnapshotCommand {
    /// Check a file, and print as JSON what is in it; `rollcall snapshot inspect` shows the same to people.
    #[command(after_help = "Example:\n  rollcall-coordinator snapshot inspect /var/lib/rollcall/snapshots/*.snap")]
    Inspect {
        /// The file.
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Make a new cluster of one peer from a file, in an empty data directory.
    #[command(after_help = "\
Example:
  rollcall-coordinator snapshot restore /backup/rollcall.snap --data-dir /var/lib/rollcall --advertise 10.0.0.1:7400")]
    Restore {
        /// The file.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// For the audit trail.
        #[command(flatten)]
        origin: Origin,
    },
}

const EXAMPLE: &str = "\
Example: three peers on three machines
  rollcall-coordinator --data-dir /var/lib/rollcall --grpc 0.0.0.0:7400 --advertise 10.0.0.1:7400
  … and so on the other two; then, once, from anywhere:
  rollcall --endpoints 10.0.0.1:7400 cluster init 10.0.0.2:7400 10.0.0.3:7400";

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// What a peer runs with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Its own folder.
    pub data_dir: PathBuf,
    /// Where it listens for gRPC.
    pub grpc: String,
    /// How the others reach it; none: the address it listens at.
    pub advertise: Option<String>,
    /// Where it listens for HTTP.
    pub http: String,
    /// The machine it runs on; empty where that has no id.
    pub machine_id: String,
    /// The numbers it runs with.
    pub tuning: Tuning,
}

/// What the file may say.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    data_dir: Option<PathBuf>,
    grpc: Option<String>,
    advertise: Option<String>,
    http: Option<String>,
    machine_id: Option<String>,
    history_revisions: Option<NonZeroU64>,
}

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file can't be read.
    #[error("can't read the configuration {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file isn't what it should be.
    #[error("{}: {what}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Line, key, and what was expected.
        what: String,
    },
}

impl Config {
    /// Brings flags, environment and file together.
    ///
    /// # Errors
    /// Names the file, and the line and key in it.
    pub fn load(args: &Args) -> Result<Self, ConfigError> {
        let file = args.config.as_deref().map(File::read).transpose()?.unwrap_or_default();
        let history_revisions = args.history_revisions.or(file.history_revisions.map(NonZeroU64::get));
        let defaults = Tuning::default();
        let pick = |flag: &Option<String>, file: Option<String>| flag.clone().or(file);
        Ok(Self {
            data_dir: args.data_dir.clone().or(file.data_dir).unwrap_or_else(|| DEFAULT_DATA_DIR.into()),
            grpc: pick(&args.grpc, file.grpc).unwrap_or_else(|| DEFAULT_GRPC.to_owned()),
            advertise: pick(&args.advertise, file.advertise),
            http: pick(&args.http, file.http).unwrap_or_else(|| DEFAULT_HTTP.to_owned()),
            machine_id: pick(&args.machine_id, file.machine_id).unwrap_or_else(machine_id),
            tuning: Tuning { history_revisions: history_revisions.unwrap_or(defaults.history_revisions), ..defaults },
        })
    }
}

/// What `/etc/machine-id` says; empty where there is none.
fn machine_id() -> String {
    fs::read_to_string("/etc/machine-id").map(|text| text.trim().to_owned()).unwrap_or_default()
}

impl File {
    fn read(path: &Path) -> Result<Self, ConfigError> {
        let text =
            fs::read_to_string(path).map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })?;
        toml::from_str(&text).map_err(|error: toml::de::Error| ConfigError::Invalid {
            path: path.to_owned(),
            what: error.to_string().trim_end().to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str, flags: &[&str]) -> Result<Config, ConfigError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("peer.toml");
        fs::write(&path, text).unwrap();
        let path = path.to_str().unwrap().to_owned();
        let argv = ["rollcall-coordinator", "--config", &path].into_iter().chain(flags.iter().copied());
        Config::load(&Args::parse_from(argv))
    }

    #[test]
    fn flags_win_over_the_file_and_the_file_over_defaults() {
        let config = load("grpc = \"10.0.0.1:1\"\nhttp = \"10.0.0.1:2\"", &["--http", "10.0.0.1:3"]).unwrap();
        assert_eq!((config.grpc.as_str(), config.http.as_str()), ("10.0.0.1:1", "10.0.0.1:3"));
        assert_eq!(config.data_dir, Path::new(DEFAULT_DATA_DIR));
    }

    #[test]
    fn retention_is_configured_and_never_nothing() {
        let retained = |file: &str, flags: &[&str]| load(file, flags).map(|config| config.tuning.history_revisions);
        assert_eq!(retained("", &[]).unwrap(), Tuning::default().history_revisions);
        assert_eq!(retained("history_revisions = 5000", &[]).unwrap(), 5000);
        assert_eq!(retained("history_revisions = 5000", &["--history-revisions", "7"]).unwrap(), 7);
        let error = retained("history_revisions = 0", &[]).unwrap_err().to_string();
        assert!(error.contains("line 1") && error.contains("nonzero"), "{error}");
    }

    #[test]
    fn a_wrong_key_is_named_with_its_line_and_what_was_expected() {
        let error = load("grpc = \"10.0.0.1:1\"\ndatadir = \"/x\"", &[]).unwrap_err().to_string();
        for part in ["peer.toml", "line 2", "datadir", "data_dir"] {
            assert!(error.contains(part), "{part} isn't in: {error}");
        }
        let error = load("grpc = 7400", &[]).unwrap_err().to_string();
        assert!(error.contains("line 1") && error.contains("string"), "{error}");
    }
}
