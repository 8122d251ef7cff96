//! `rollcall dev`: peers, agents and a sample service on this machine, in one process tree.
//!
//! The peers and agents are the real binaries with real data folders on loopback: what works here works on machines.
//!
//! # How it ends cleanly
//! An agent leaves its services running when it ends, as it should. So this process makes itself the *subreaper* of its
//! tree: whatever loses its parent becomes its child. After the agents have ended, every child that is no peer is a
//! service or what a hook left, and is ended too ([`orphans`]). Nothing is ever looked up by name.

mod binaries;
mod bring_up;
mod children;
mod folder;
mod orphans;
mod report;
mod sample;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::app::App;
use crate::client::Client;
use crate::commands::events;
use crate::failure::{Exit, Failure, Outcome};
use binaries::Binaries;
pub use binaries::find as find_program;
use children::Children;
use folder::Folder;

/// How long one call to the peers may take: they run on this machine, and elections take half a second or so.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// How often it is looked whether a child has died, and processes that lost their parent are laid to rest.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Run peers, agents and a sample service on this machine, to try everything out; Ctrl-C ends it all
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rollcall dev
  rollcall dev --nodes 5 --data-dir ./rollcall-dev    kept, and gone on with at the next start")]
pub struct DevArgs {
    /// How many peers: 1, 3 or 5 [default: 3, or as many as DIR has]
    #[arg(long, value_name = "N", value_parser = parse_peer_count)]
    pub peers: Option<usize>,
    /// How many nodes, 1 to 50 [default: 3, or as many as DIR has]
    #[arg(long, value_name = "N", value_parser = parse_node_count)]
    pub nodes: Option<usize>,
    /// Where everything is kept [default: a folder that is removed at the end]
    #[arg(long, value_name = "DIR", env = "ROLLCALL_DEV_DATA_DIR", hide_env_values = true)]
    pub data_dir: Option<PathBuf>,
}

fn parse_peer_count(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|count| matches!(count, 1 | 3 | 5)).ok_or_else(|| "expected 1, 3 or 5".to_owned())
}

fn parse_node_count(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|count| (1..=50).contains(count)).ok_or_else(|| "expected 1 to 50".to_owned())
}

/// Runs the command.
pub async fn run(args: DevArgs, app: &App) -> Outcome {
    let binaries = Binaries::find()?;
    let folder = Folder::open(args.data_dir.as_deref(), args.peers, args.nodes)?;
    orphans::adopt_all()?;
    let mut interrupts = Interrupts::listen()?;
    let mut children = Children::default();
    let worked = tokio::select! {
        outcome = play(&folder, &binaries, &mut children, app) => outcome,
        () = interrupts.next() => Ok(Exit::Done),
    };
    app.output.note("ending the agents, the services and the peers; once more to kill them");
    tokio::select! {
        () = children.end_all(&app.output) => {}
        () = interrupts.next() => children.kill_all(),
    }
    folder.close(&app.output);
    worked
}

/// Brings everything up and follows it, until a child that is needed dies.
async fn play(folder: &Folder, binaries: &Binaries, children: &mut Children, app: &App) -> Outcome {
    let client = Client::with_endpoints(&folder.endpoints(), CALL_TIMEOUT);
    let dev = app.with_client(client);
    dev.output.note(&format!(
        "starting {} peers and {} nodes in {}",
        folder.peers.len(),
        folder.nodes.len(),
        folder.path().display()
    ));
    for peer in &folder.peers {
        children.start(&peer.name, &binaries.coordinator, &peer.config, &peer.log)?;
    }
    children.while_alive(bring_up::form_cluster(folder, &dev)).await?;
    for node in &folder.nodes {
        children.start(&node.name, &binaries.node, &node.config, &node.log)?;
    }
    children.while_alive(bring_up::provide_service(folder, &dev)).await?;
    report::show(folder, &dev)?;
    let follow = events::follow(bring_up::revision(&dev).await?, String::new(), &dev);
    tokio::select! {
        outcome = follow => outcome,
        () = children.tell_deaths(&dev.output) => Ok(Exit::Done),
    }
}

/// Whatever asks this process to end.
struct Interrupts {
    signals: [Signal; 3],
}

impl Interrupts {
    fn listen() -> Result<Self, Failure> {
        let listen = |kind| signal(kind).map_err(Failure::failed);
        Ok(Self {
            signals: [
                listen(SignalKind::interrupt())?,
                listen(SignalKind::terminate())?,
                listen(SignalKind::hangup())?,
            ],
        })
    }

    async fn next(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.signals;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}
