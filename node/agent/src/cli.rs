//! Options of the `rollcall-node` program.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use rollcall_ident::NodeName;

use crate::config::Overrides;

/// The Rollcall agent: installs releases, runs hooks and the service, reports to the coordinator.
#[derive(Debug, Parser)]
#[command(
    name = "rollcall-node",
    version,
    after_help = "Example:\n  rollcall-node --config /etc/rollcall/node.toml --log-format json"
)]
pub struct Args {
    /// The config file (TOML)
    #[arg(long, env = "ROLLCALL_CONFIG", value_name = "FILE")]
    pub config: PathBuf,

    /// The node's name, instead of the config's
    #[arg(long, env = "ROLLCALL_NAME")]
    pub name: Option<NodeName>,

    /// Peers, instead of the config's
    #[arg(long, env = "ROLLCALL_ENDPOINTS", value_name = "HOST:PORT,…", value_delimiter = ',')]
    pub endpoints: Option<Vec<String>>,

    /// The data folder, instead of the config's
    #[arg(long, env = "ROLLCALL_DATA_DIR", value_name = "DIR")]
    pub data_dir: Option<PathBuf>,

    /// Where the agent's HTTP listens, instead of the config's
    #[arg(long, env = "ROLLCALL_HTTP", value_name = "ADDRESS:PORT")]
    pub http: Option<SocketAddr>,

    /// The machine's id, instead of /etc/machine-id
    #[arg(long, env = "ROLLCALL_MACHINE_ID", value_name = "ID")]
    pub machine_id: Option<String>,

    /// How logs are written to stderr
    #[arg(long, env = "ROLLCALL_LOG_FORMAT", value_enum, default_value = "text")]
    pub log_format: LogFormat,

    /// What is logged: a level, or a filter like info,rollcall_node=debug
    #[arg(long, env = "ROLLCALL_LOG", value_name = "FILTER", default_value = "info")]
    pub log: String,
}

/// How logs are written.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For programs.
    Json,
}

impl Args {
    /// What goes above the config file.
    #[must_use]
    pub fn overrides(&self) -> Overrides {
        Overrides {
            name: self.name.clone(),
            endpoints: self.endpoints.clone(),
            data_dir: self.data_dir.clone(),
            http: self.http,
            machine_id: self.machine_id.clone(),
        }
    }
}
