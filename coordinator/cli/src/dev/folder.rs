//! What `dev` keeps on disk: who there is and on which ports, their configs and data, the depot.
//!
//! A given folder is gone on with at the next start. Its peers know each other by address, so ports are kept too.

use std::fs;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use super::sample;
use crate::client::PeerAddress;
use crate::failure::Failure;
use crate::output::Output;
use crate::toml_error::TomlSource;

const RECORD: &str = "dev.toml";
const DEFAULT_COUNT: usize = 3;

/// The open folder.
pub struct Folder {
    path: PathBuf,
    /// Removed when it is dropped; `None` for a folder that is kept.
    temporary: Option<TempDir>,
    /// Held as long as this process runs.
    _lock: Flock<fs::File>,
    pub peers: Vec<Process>,
    pub nodes: Vec<Process>,
}

/// A peer or agent.
pub struct Process {
    pub name: String,
    pub config: PathBuf,
    pub log: PathBuf,
    pub ports: Ports,
}

/// Where a process listens. Agents have no gRPC.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ports {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grpc: Option<SocketAddr>,
    pub http: SocketAddr,
}

/// The record of who there is.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    #[serde(default)]
    peer: Vec<Ports>,
    #[serde(default)]
    node: Vec<Ports>,
}

impl Folder {
    /// Opens the folder, or a new one, for so many peers and nodes.
    pub fn open(kept: Option<&Path>, peers: Option<usize>, nodes: Option<usize>) -> Result<Self, Failure> {
        let temporary = match kept {
            Some(_) => None,
            None => Some(tempfile::Builder::new().prefix("rollcall-dev-").tempdir().map_err(Failure::failed)?),
        };
        let path = kept.or(temporary.as_ref().map(TempDir::path)).ok_or_else(|| Failure::Failed("no folder".into()))?;
        let lock = lock(path)?;
        let path = path.canonicalize().map_err(|error| io_failure(path, error))?;
        let record = open_record(&path, peers, nodes)?;
        sample::write(&path)?;
        let folder = Self {
            peers: record.peer.iter().enumerate().map(|(index, ports)| process(&path, "peer", index, *ports)).collect(),
            nodes: record.node.iter().enumerate().map(|(index, ports)| process(&path, "node", index, *ports)).collect(),
            path,
            temporary,
            _lock: lock,
        };
        folder.write_configs()?;
        Ok(folder)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The peers' gRPC addresses.
    pub fn endpoints(&self) -> Vec<PeerAddress> {
        self.peers.iter().filter_map(|peer| peer.ports.grpc).map(PeerAddress::from).collect()
    }

    /// Removes it if it isn't kept.
    pub fn close(self, output: &Output) {
        match self.temporary {
            Some(temporary) => {
                if let Err(error) = temporary.close() {
                    output.note(&format!("{} can't be removed: {error}; remove it by hand", self.path.display()));
                }
            }
            None => output.note(&format!("everything is kept in {}", self.path.display())),
        }
    }

    fn write_configs(&self) -> Result<(), Failure> {
        for process in self.peers.iter().chain(&self.nodes) {
            let data = self.path.join("data").join(&process.name);
            fs::create_dir_all(&data).map_err(|error| io_failure(&data, error))?;
            let text = match process.ports.grpc {
                Some(grpc) => sample::peer_config(&data, grpc, process.ports.http),
                None => sample::node_config(&process.name, &data, process.ports.http, &self.endpoints(), &self.path),
            };
            write_file(&process.config, text.as_bytes())?;
        }
        Ok(())
    }
}

fn process(path: &Path, kind: &str, index: usize, ports: Ports) -> Process {
    let name = format!("{kind}-{}", index + 1);
    let config = path.join("config").join(format!("{name}.toml"));
    let log = path.join("logs").join(format!("{name}.log"));
    Process { name, config, log, ports }
}

/// One `dev` at a time works in a folder.
fn lock(path: &Path) -> Result<Flock<fs::File>, Failure> {
    for folder in ["config", "logs", "data"] {
        let folder = path.join(folder);
        fs::create_dir_all(&folder).map_err(|error| io_failure(&folder, error))?;
    }
    let file = path.join("dev.lock");
    let opened = fs::File::create(&file).map_err(|error| io_failure(&file, error))?;
    Flock::lock(opened, FlockArg::LockExclusiveNonblock).map_err(|(_, error)| {
        Failure::Failed(format!("{}: {error}; does another `rollcall dev` run in this folder?", file.display()))
    })
}

/// Reads the record, or makes one; grows it where more nodes are asked for.
fn open_record(path: &Path, peers: Option<usize>, nodes: Option<usize>) -> Result<Record, Failure> {
    let file = path.join(RECORD);
    let mut record = match fs::read_to_string(&file) {
        Ok(text) => TomlSource::new(&file, &text).parse::<Record>()?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Record::default(),
        Err(error) => return Err(io_failure(&file, error)),
    };
    let peer_count = peers.unwrap_or(if record.peer.is_empty() { DEFAULT_COUNT } else { record.peer.len() });
    let node_count = nodes.unwrap_or(if record.node.is_empty() { DEFAULT_COUNT } else { record.node.len() });
    if !record.peer.is_empty() && record.peer.len() != peer_count {
        return Err(Failure::Usage(format!(
            "--peers {peer_count}: {} has {} peers, and a cluster's peers aren't changed here; leave --peers out",
            path.display(),
            record.peer.len()
        )));
    }
    if record.node.len() > node_count {
        return Err(Failure::Usage(format!(
            "--nodes {node_count}: {} has {} nodes, and nodes only leave by `rollcall node remove`; leave --nodes out",
            path.display(),
            record.node.len()
        )));
    }
    refuse_taken_ports(&record)?;
    let mut free = FreePorts::default();
    while record.peer.len() < peer_count {
        record.peer.push(Ports { grpc: Some(free.take()?), http: free.take()? });
    }
    while record.node.len() < node_count {
        record.node.push(Ports { grpc: None, http: free.take()? });
    }
    let text = toml::to_string(&record).map_err(Failure::failed)?;
    let head = "# Made by `rollcall dev`: who there is, and on which ports.\n\n";
    write_file(&file, format!("{head}{text}").as_bytes())?;
    Ok(record)
}

/// What an earlier `dev` that was killed left running still has its ports.
fn refuse_taken_ports(record: &Record) -> Result<(), Failure> {
    let all = record.peer.iter().chain(&record.node).flat_map(|ports| ports.grpc.into_iter().chain([ports.http]));
    for address in all {
        if let Err(error) = TcpListener::bind(address) {
            return Err(Failure::Failed(format!(
                "{address}: {error}\n  an earlier `rollcall dev` in this folder may still run: `ss -ltnp` shows what listens there"
            )));
        }
    }
    Ok(())
}

/// Ports that were free a moment ago; all held until the last one is found, so that none is given twice.
#[derive(Default)]
struct FreePorts(Vec<TcpListener>);

impl FreePorts {
    fn take(&mut self) -> Result<SocketAddr, Failure> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(Failure::failed)?;
        let address = listener.local_addr().map_err(Failure::failed)?;
        self.0.push(listener);
        Ok(address)
    }
}

/// Writes a file whole or not at all.
pub fn write_file(path: &Path, content: &[u8]) -> Result<(), Failure> {
    let write = || -> std::io::Result<()> {
        let folder = path.parent().unwrap_or(Path::new("."));
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(content)?;
        file.persist(path).map_err(|error| error.error)?;
        Ok(())
    };
    write().map_err(|error| io_failure(path, error))
}

pub fn io_failure(path: &Path, error: std::io::Error) -> Failure {
    Failure::Failed(format!("{}: {error}", path.display()))
}
