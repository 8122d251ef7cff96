//! `rollcall cluster`: care for the peers.

use std::ffi::{OsStr, OsString};

use clap::Subcommand;
use rollcall_proto::v1;

use crate::app::App;
use crate::args::{ReadArgs, RefoundArgs, WriteArgs};
use crate::client::{PeerAddress, clusters, read_options};
use crate::commands::local;
use crate::failure::{Exit, Outcome};
use crate::output::View as _;
use crate::view::{At, ClusterView, PeerView, PeersView, RefoundedView};

/// What can be done to the peers.
#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Make a new cluster of the first endpoint and the blank peers that are named, or the other endpoints
    #[command(after_help = "\
Example:
  rollcall --endpoints 10.0.0.1:7400 cluster init 10.0.0.2:7400 10.0.0.3:7400")]
    Init {
        /// The other peers; they must be blank
        #[arg(value_name = "PEER")]
        peers: Vec<PeerAddress>,
        #[command(flatten)]
        write: WriteArgs,
    },
    /// Show the peers; exit code 3 where there is no leader, 1 where there is no cluster yet
    #[command(after_help = "Example:\n  rollcall cluster status")]
    Status {
        #[command(flatten)]
        read: ReadArgs,
    },
    /// Add a blank peer: it learns, catches up, and then votes
    #[command(after_help = "Example:\n  rollcall cluster add-peer 10.0.0.4:7400 --timeout 2m")]
    AddPeer {
        /// Its address
        #[arg(value_name = "PEER")]
        address: PeerAddress,
        #[command(flatten)]
        write: WriteArgs,
    },
    /// Remove a peer for good; its id is never used again
    #[command(after_help = "Example:\n  rollcall cluster remove-peer 3 --reason 'disk lost'")]
    RemovePeer {
        /// Its id, as `cluster status` shows it
        #[arg(value_name = "PEER-ID")]
        peer_id: u64,
        #[command(flatten)]
        write: WriteArgs,
    },
    /// A majority is lost for good: make a new cluster of one stopped peer's data, on its machine
    #[command(after_help = "\
Example:
  rollcall cluster recover --data-dir /var/lib/rollcall            what the peer has, and what would be made of it
  rollcall cluster recover --data-dir /var/lib/rollcall --force
  … then start rollcall-coordinator there, and `cluster add-peer` for the others")]
    Recover {
        #[command(flatten)]
        refound: RefoundArgs,
        /// Do it: the other peers' data counts for nothing from then on
        #[arg(long)]
        force: bool,
    },
    /// Hand leadership to another peer
    #[command(after_help = "Example:\n  rollcall cluster transfer-leader 2")]
    TransferLeader {
        /// Its id, as `cluster status` shows it
        #[arg(value_name = "PEER-ID")]
        peer_id: u64,
    },
}

/// Runs a command of this family.
pub async fn run(command: ClusterCommand, app: &App) -> Outcome {
    match command {
        ClusterCommand::Init { peers, write } => init(&peers, write, app).await,
        ClusterCommand::Status { read } => status(&read, app).await,
        ClusterCommand::AddPeer { address, write } => add_peer(&address, write, app).await,
        ClusterCommand::RemovePeer { peer_id, write } => remove_peer(peer_id, write, app).await,
        ClusterCommand::Recover { refound, force } => recover(refound, force, app).await,
        ClusterCommand::TransferLeader { peer_id } => transfer_leader(peer_id, app).await,
    }
}

async fn init(named: &[PeerAddress], write: WriteArgs, app: &App) -> Outcome {
    let mut endpoints = app.client.addresses();
    let first = endpoints.next();
    let others: Vec<_> = if named.is_empty() { endpoints.collect() } else { named.iter().collect() };
    let peers = others.into_iter().filter(|peer| Some(*peer) != first).map(ToString::to_string).collect();
    let request = v1::InitClusterRequest { peers, options: Some(write.into_wire()) };
    let response =
        app.client.call_first(request, async |channel, request| clusters(channel).init(request).await).await?;
    let peers: Vec<_> = response.peers.into_iter().map(PeerView::from).collect();
    let line = format!("cluster {} made of {} peers", response.cluster_id, peers.len());
    let view = PeersView { cluster_id: Some(response.cluster_id), peer_id: None, peers };
    show(&view, &line, app)
}

async fn status(read: &ReadArgs, app: &App) -> Outcome {
    let request = v1::ClusterStatusRequest { options: read_options(read) };
    let status = app.client.call(request, async |channel, request| clusters(channel).status(request).await).await?;
    let revision = status.revision;
    let view = At { revision, item: ClusterView::from(status) };
    app.output.show(&view)?;
    Ok(match view.item.condition.as_str() {
        "no_leader" => {
            app.output.note("no leader: a majority of the peers must run and see each other");
            Exit::NoLeader
        }
        "uninitialized" => {
            app.output.note("no cluster yet: `rollcall cluster init PEER…` makes one of this peer and blank ones");
            Exit::NotWell
        }
        _ => Exit::Done,
    })
}

async fn add_peer(address: &PeerAddress, write: WriteArgs, app: &App) -> Outcome {
    let request = v1::AddPeerRequest { address: address.to_string(), options: Some(write.into_wire()) };
    let response = app.client.call(request, async |channel, request| clusters(channel).add_peer(request).await).await?;
    let line = format!("peer {} at {address} added", response.peer_id);
    let peers = response.peers.into_iter().map(PeerView::from).collect();
    show(&PeersView { cluster_id: None, peer_id: Some(response.peer_id.to_string()), peers }, &line, app)
}

async fn remove_peer(peer_id: u64, write: WriteArgs, app: &App) -> Outcome {
    let request = v1::RemovePeerRequest { peer_id, options: Some(write.into_wire()) };
    let response =
        app.client.call(request, async |channel, request| clusters(channel).remove_peer(request).await).await?;
    let peers = response.peers.into_iter().map(PeerView::from).collect();
    let view = PeersView { cluster_id: None, peer_id: Some(peer_id.to_string()), peers };
    show(&view, &format!("peer {peer_id} removed"), app)
}

async fn recover(refound: RefoundArgs, force: bool, app: &App) -> Outcome {
    let mut given = refound.into_arguments();
    if force {
        given.push("--force".into());
    }
    let mut arguments = vec![OsStr::new("cluster"), OsStr::new("recover")];
    arguments.extend(given.iter().map(OsString::as_os_str));
    let view: RefoundedView = local::ask(&arguments).await?;
    app.output.show_change(&view, &view.to_table(app.output.page()))?;
    Ok(Exit::Done)
}

async fn transfer_leader(peer_id: u64, app: &App) -> Outcome {
    let request = v1::TransferLeaderRequest { peer_id };
    let response =
        app.client.call(request, async |channel, request| clusters(channel).transfer_leader(request).await).await?;
    let leader = response.leader_peer_id.to_string();
    let line = format!("peer {leader} leads");
    let view = PeersView { cluster_id: None, peer_id: Some(leader), peers: Vec::new() };
    app.output.show_change(&view, &line)?;
    Ok(Exit::Done)
}

fn show(view: &PeersView, line: &str, app: &App) -> Outcome {
    app.output.show_change(view, &format!("{line}\n\n{}", view.to_table(app.output.page())))?;
    Ok(Exit::Done)
}
