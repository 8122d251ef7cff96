//! Snapshots of a large state while it serves: how long takes the slowest write?

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rollcall_jepsen::api::Api;
use rollcall_jepsen::binaries::Binaries;
use rollcall_jepsen::peer::Peer;
use rollcall_jepsen::ports::free_port;
use rollcall_jepsen::run_dir::RunDir;
use tokio::sync::mpsc;

use crate::client::{Client, RollcallClient};
use crate::report::Findings;
use crate::row::Row;
use crate::start::fill;
use crate::system::connect;
use crate::times::Times;

/// They write all the time. Few, so that a slow write isn't slow because of the others.
const CLIENTS: usize = 16;

/// So many snapshots must be taken meanwhile.
const SNAPSHOTS: usize = 3;

/// BOUND: for them.
const TAKEN_WITHIN: Duration = Duration::from_secs(120);

/// A snapshot is written within so long before it is there.
const WINDOW: Duration = Duration::from_secs(2);

const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Measures it.
pub async fn measure(quick: bool) -> Result<Findings> {
    let nodes = if quick { 10_000 } else { 100_000 };
    let run = RunDir::create("rollcall-bench-")?;
    let binaries = Binaries::find()?;
    let folder = run.folder("peer")?;
    let mut peer = Peer::create("peer", folder.clone(), binaries.coordinator.clone(), free_port()?, free_port()?)?;
    fill(&binaries, &folder.join("data"), &peer.grpc, 0, nodes)?;
    peer.start()?;
    let api = Api::new(std::slice::from_ref(&peer.grpc))?;
    await_serving(&api).await?;
    let (writes, taken) = write_through_snapshots(&peer.grpc, &api).await?;
    let is_within =
        |(began, ended): &(Instant, Instant)| taken.iter().any(|at| *began <= *at && *ended + WINDOW >= *at);
    let (within, without): (Vec<_>, Vec<_>) = writes.iter().partition(|write| is_within(write));
    let times =
        |spans: Vec<&(Instant, Instant)>| Times::new(spans.iter().map(|(began, ended)| *ended - *began).collect());
    let (within, without) = (times(within), times(without));
    let row = Row::new(
        "P7.snapshot",
        format!("slowest write while a snapshot of {nodes} nodes is taken"),
        within.percentile_ms(100.0),
        "ms",
    );
    let note = format!(
        "{} snapshots, {} writes; beside the slowest of {} without",
        taken.len(),
        within.count(),
        without.count()
    );
    let p50 = Row::new("P7.snapshot.p50", "the same, p50", within.percentile_ms(50.0), "ms");
    let (mut row, mut p50) = (row.at_most(50.0).note(note), p50);
    // On a fast disk one snapshot follows the other.
    if without.count() > 0 {
        (row, p50) = (row.beside(without.percentile_ms(100.0)), p50.beside(without.percentile_ms(50.0)));
    }
    let rows = vec![row, p50];
    Ok(Findings { rows, charts: Vec::new() })
}

async fn await_serving(api: &Api) -> Result<()> {
    let deadline = Instant::now() + TAKEN_WITHIN;
    while Instant::now() < deadline {
        if api.cluster_now().await.is_some_and(|status| status.condition == "serving") {
            return Ok(());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    bail!("the peer doesn't serve within {TAKEN_WITHIN:?}")
}

/// From when to when each write was on its way, and when each snapshot was there.
async fn write_through_snapshots(address: &str, api: &Api) -> Result<(Vec<(Instant, Instant)>, Vec<Instant>)> {
    let (tell, mut told) = mpsc::unbounded_channel();
    let mut writers = tokio::task::JoinSet::new();
    for number in 0..CLIENTS {
        let client = Client::Rollcall(RollcallClient::new(connect(address).await?));
        writers.spawn(write(client, number, tell.clone()));
    }
    drop(tell);
    let (began, mut taken, mut latest) = (Instant::now(), Vec::new(), None);
    while taken.len() < SNAPSHOTS {
        if began.elapsed() > TAKEN_WITHIN {
            bail!("{} snapshots within {TAKEN_WITHIN:?}", taken.len());
        }
        if let Some(status) = api.cluster_now().await
            && latest.replace(status.snapshot_revision).is_some_and(|before| before != status.snapshot_revision)
        {
            taken.push(Instant::now());
        }
        tokio::time::sleep(LOOK_EVERY).await;
        if let Some(ended) = writers.try_join_next() {
            ended?.context("a write failed")?;
        }
    }
    writers.abort_all();
    let mut writes = Vec::new();
    while let Ok(write) = told.try_recv() {
        writes.push(write);
    }
    Ok((writes, taken))
}

/// One after the other, until it's aborted.
async fn write(
    mut client: Client,
    number: usize,
    tell: mpsc::UnboundedSender<(Instant, Instant)>,
) -> Result<(), tonic::Status> {
    for count in 0.. {
        let began = Instant::now();
        client.write("snapshot", number, count).await?;
        // Nobody may listen any more.
        let _ = tell.send((began, Instant::now()));
    }
    Ok(())
}
