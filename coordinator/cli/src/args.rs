//! The command line: what is global, and the command families. Each family lives in its own file under
//! [`commands`].
//!
//! Precedence of a setting: option, environment, config file, default.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use rollcall_ident::{Digest, GroupName, Millis, ReleaseIdent, RequestId, RolloutId};

use crate::client::PeerAddress;
use crate::commands;

const AFTER_HELP: &str = "\
Examples:
  rollcall dev                                        try all of it on this machine
  rollcall --endpoints 10.0.0.1:7400 cluster status   how the peers stand
  rollcall group apply -f redis.toml                  declare a service group
  rollcall rollout start redis.default --to acme/redis/7.2.1/20261130101500
  rollcall rollout status redis.default --watch       watch it, node by node
  rollcall explain redis.default                      why it does or doesn't move

Exit codes: 0 done, 1 refused or failed, 2 usage, 3 unreachable or no leader, 4 timed out.";

/// Rolls a new release over the machines of a service group, one healthy node after the other.
#[derive(Debug, Parser)]
#[command(name = "rollcall", version, after_help = AFTER_HELP, max_term_width = 100)]
pub struct Cli {
    #[command(flatten)]
    pub global: GlobalArgs,
    #[command(subcommand)]
    pub command: Command,
}

/// What every command takes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub struct GlobalArgs {
    /// The peers to ask, tried in turn [default: 127.0.0.1:7400]
    #[arg(long, global = true, env = "ROLLCALL_ENDPOINTS", hide_env_values = true, value_name = "HOST:PORT,…")]
    #[arg(value_delimiter = ',')]
    pub endpoints: Vec<PeerAddress>,

    /// How to print answers; json is a stable contract [default: table]
    #[arg(long, short, global = true, env = "ROLLCALL_OUTPUT", hide_env_values = true)]
    #[arg(value_name = "table|json|yaml", hide_possible_values = true)]
    pub output: Option<Format>,

    /// How long to wait for an answer, over all peers and retries; with --watch, how long to watch [default: 10s; no end]
    #[arg(long, global = true, env = "ROLLCALL_TIMEOUT", hide_env_values = true, value_name = "DURATION")]
    pub timeout: Option<Millis>,

    /// Certificates of the authorities that sign the peers' certificates (PEM)
    #[arg(long, global = true, env = "ROLLCALL_CA", hide_env_values = true, value_name = "FILE")]
    pub ca: Option<PathBuf>,

    /// This client's certificate (PEM)
    #[arg(long, global = true, env = "ROLLCALL_CERT", hide_env_values = true, value_name = "FILE")]
    pub cert: Option<PathBuf>,

    /// This client's private key (PEM)
    #[arg(long, global = true, env = "ROLLCALL_KEY", hide_env_values = true, value_name = "FILE")]
    pub key: Option<PathBuf>,

    /// A TOML file with `endpoints`, `output`, `timeout` and `log_format`
    #[arg(long, global = true, env = "ROLLCALL_CONFIG", hide_env_values = true, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// How to write logs to stderr; what is logged says ROLLCALL_LOG [default: text]
    #[arg(long, global = true, env = "ROLLCALL_LOG_FORMAT", hide_env_values = true)]
    #[arg(value_name = "text|json", hide_possible_values = true)]
    pub log_format: Option<LogFormat>,
}

/// How answers are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// For people: fits 80 columns.
    Table,
    /// For programs: a stable contract.
    Json,
    /// The same as json, as YAML.
    Yaml,
}

/// How logs are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// Lines for people.
    Text,
    /// One JSON object per line.
    Json,
}

/// The command families.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Declare service groups: the nodes that run one package under one policy
    #[command(subcommand)]
    Group(commands::group::GroupCommand),
    /// Move a group to a release, and watch, steer, stop or undo that
    #[command(subcommand)]
    Rollout(commands::rollout::RolloutCommand),
    /// See, hold and remove the machines that run the agent
    #[command(subcommand)]
    Node(commands::node::NodeCommand),
    /// See who may be down, and take that from them
    #[command(subcommand)]
    Token(commands::token::TokenCommand),
    /// Manage channels: named sets of releases that groups follow
    #[command(subcommand)]
    Channel(commands::channel::ChannelCommand),
    /// Put releases into channels and take them out
    #[command(subcommand)]
    Package(commands::package::PackageCommand),
    /// Keep releases from being started
    #[command(subcommand)]
    Quarantine(commands::quarantine::QuarantineCommand),
    /// Say when groups may be disturbed: maintenance windows
    #[command(subcommand)]
    Window(commands::window::WindowCommand),
    /// Forbid changes for a while: change freezes
    #[command(subcommand)]
    Freeze(commands::freeze::FreezeCommand),
    Explain(commands::explain::ExplainArgs),
    Events(commands::events::EventsArgs),
    Audit(commands::audit::AuditArgs),
    /// Care for the peers
    #[command(subcommand)]
    Cluster(commands::cluster::ClusterCommand),
    /// Save, look into, and restore snapshots of the cluster
    #[command(subcommand)]
    Snapshot(commands::snapshot::SnapshotCommand),
    Doctor(commands::doctor::DoctorArgs),
    Dev(crate::dev::DevArgs),
    Completions(commands::completions::CompletionsArgs),
    Man(commands::man::ManArgs),
}

/// What every command that changes something takes.
#[derive(Debug, Clone, Default, Args)]
pub struct WriteArgs {
    /// Why, for the audit trail
    #[arg(long, env = "ROLLCALL_REASON", hide_env_values = true, value_name = "TEXT")]
    pub reason: Option<String>,

    /// Who you are, for the audit trail and for approvals; unless it is said, this user at this host
    #[arg(long, env = "ROLLCALL_ACTOR", hide_env_values = true, value_name = "NAME")]
    pub actor: Option<String>,

    /// Names this request: the same id again is answered with the first outcome [default: a new UUID]
    #[arg(long, value_name = "ID")]
    pub request_id: Option<RequestId>,

    /// Refuse if the object has changed after this revision
    #[arg(long, value_name = "REVISION")]
    pub expected_revision: Option<u64>,
}

/// What every command that only reads takes.
#[derive(Debug, Clone, Default, Args)]
pub struct ReadArgs {
    /// Take what the asked peer has, without asking the others: works without a leader, may be old
    #[arg(long)]
    pub stale: bool,
}

/// What every command that lists takes.
#[derive(Debug, Clone, Default, Args)]
pub struct ListArgs {
    #[command(flatten)]
    pub read: ReadArgs,

    /// Print at most so many
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
}

/// What makes a new cluster of one peer's files on this machine.
#[derive(Debug, Clone, Args)]
pub struct RefoundArgs {
    /// The peer's own folder
    #[arg(long, value_name = "DIR")]
    pub data_dir: PathBuf,

    /// How others reach the peer [default: as before; of a snapshot: to be said here or when it is started]
    #[arg(long, value_name = "HOST:PORT")]
    pub advertise: Option<String>,

    /// Why, for the audit trail
    #[arg(long, env = "ROLLCALL_REASON", hide_env_values = true, value_name = "TEXT")]
    pub reason: Option<String>,

    /// Who you are, for the audit trail; unless it is said, this user at this host
    #[arg(long, env = "ROLLCALL_ACTOR", hide_env_values = true, value_name = "NAME")]
    pub actor: Option<String>,
}

/// The target of a rollout.
#[derive(Debug, Clone, Args)]
pub struct TargetArgs {
    /// The group to move
    #[arg(value_name = "GROUP")]
    pub group: GroupName,

    /// The release to move it to: origin/name/version/release
    #[arg(long, value_name = "IDENT")]
    pub to: ReleaseIdent,
}

/// A digest that a release must have.
#[derive(Debug, Clone, Args)]
pub struct DigestArgs {
    /// The BLAKE3 digest that the release must have, as 64 hexadecimal digits
    #[arg(long, value_name = "DIGEST")]
    pub digest: Option<Digest>,
}

impl RefoundArgs {
    /// As the coordinator's binary takes them.
    pub fn into_arguments(self) -> Vec<OsString> {
        let mut arguments = vec!["--data-dir".into(), self.data_dir.into_os_string()];
        let actor = self.actor.filter(|actor| !actor.is_empty()).unwrap_or_else(crate::client::operator);
        for (option, value) in [("--advertise", self.advertise), ("--reason", self.reason), ("--actor", Some(actor))] {
            if let Some(value) = value {
                arguments.extend([option.into(), value.into()]);
            }
        }
        arguments
    }
}

impl DigestArgs {
    /// As requests carry it: empty where it isn't checked.
    pub fn into_wire(self) -> String {
        self.digest.map(|digest| digest.to_string()).unwrap_or_default()
    }
}

/// A rollout by its id, or a group for its active or else latest rollout.
#[derive(Debug, Clone)]
pub enum RolloutSubject {
    Id(RolloutId),
    Group(GroupName),
}

impl RolloutSubject {
    /// Id and group, as requests carry them: one of them empty.
    pub fn to_wire(&self) -> (String, String) {
        match self {
            Self::Id(id) => (id.to_string(), String::new()),
            Self::Group(group) => (String::new(), group.to_string()),
        }
    }
}

impl std::str::FromStr for RolloutSubject {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(id) = text.parse() {
            return Ok(Self::Id(id));
        }
        text.parse()
            .map(Self::Group)
            .map_err(|_| format!("{text:?} is neither a rollout id (like r42) nor a group (like redis.default)"))
    }
}
