//! A peer with many applied entries behind it: how long until it has its state, and how much disk does it use?

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rollcall_jepsen::api::Api;
use rollcall_jepsen::binaries::Binaries;
use rollcall_jepsen::peer::Peer;
use rollcall_jepsen::ports::free_port;
use rollcall_jepsen::run_dir::RunDir;
use serde_json::Value;

use crate::report::Findings;
use crate::row::Row;
use crate::times::Times;

const STARTS: usize = 10;

/// BOUND: for one start.
const STARTS_WITHIN: Duration = Duration::from_secs(120);

const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Measures it.
pub async fn measure(quick: bool) -> Result<Findings> {
    let entries = if quick { 100_000 } else { 1_000_000 };
    let run = RunDir::create("rollcall-bench-")?;
    let binaries = Binaries::find()?;
    let folder = run.folder("peer")?;
    let mut peer = Peer::create("peer", folder.clone(), binaries.coordinator.clone(), free_port()?, free_port()?)?;
    let data = folder.join("data");
    let filled = fill(&binaries, &data, &peer.grpc, entries, 0)?;
    // What counts is what a running peer keeps, not what its end leaves.
    let api = Api::new(std::slice::from_ref(&peer.grpc))?;
    let (mut applied, mut serving) = (Vec::new(), Vec::new());
    for _ in 0..STARTS {
        let began = Instant::now();
        peer.start()?;
        until(began, &api, |status| status.revision >= filled.revision).await?;
        applied.push(began.elapsed());
        until(began, &api, |status| status.condition == "serving").await?;
        serving.push(began.elapsed());
        peer.kill()?;
    }
    let (applied, serving) = (Times::new(applied), Times::new(serving));
    let [log, snapshots, history] = ["log", "snapshots", "history"].map(|part| folder_bytes(&data.join(part)));
    let state = newest_snapshot_bytes(&data.join("snapshots"))?;
    let rows = vec![
        Row::new(
            "P7.fill",
            format!("{} entries applied, many at once", filled.revision),
            filled.revision as f64 / filled.took.as_secs_f64(),
            "/s",
        ),
        Row::new("P7.start", "a peer with them starts, and has its state", applied.percentile_ms(100.0), "ms")
            .at_most(2_000.0)
            .note(format!("the slowest of {STARTS}")),
        Row::new("P7.serves", "it is elected, and serves", serving.percentile_ms(100.0), "ms"),
        Row::new("P7.disk", "disk, beside live state and retained log", mebibytes(folder_bytes(&data)), "MiB")
            .beside(mebibytes(state + log))
            .at_most_times(3.0)
            .note(format!("snapshots {:.1}, event history {:.1}", mebibytes(snapshots), mebibytes(history))),
    ];
    Ok(Findings { rows, charts: Vec::new() })
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// What is on the disk now.
pub struct Filled {
    pub revision: u64,
    pub took: Duration,
}

/// Has the coordinator's own storage apply the entries: the API would need an hour.
pub fn fill(binaries: &Binaries, data: &Path, address: &str, entries: u64, nodes: u64) -> Result<Filled> {
    let folder = binaries.coordinator.parent().context("the binaries have no folder")?;
    let program: PathBuf = folder.join("examples/fill");
    let began = Instant::now();
    let output = Command::new(&program).arg(data).arg(address).args([entries, nodes].map(|it| it.to_string())).output();
    let output = output.with_context(|| {
        format!("{} isn't built: cargo build --release -p rollcall-coordinator --example fill", program.display())
    })?;
    if !output.status.success() {
        bail!("{}: {}", program.display(), String::from_utf8_lossy(&output.stderr));
    }
    let told: Value = serde_json::from_slice(&output.stdout)?;
    let revision = told["revision"].as_u64().context("fill tells no revision")?;
    Ok(Filled { revision, took: began.elapsed() })
}

async fn until(
    began: Instant,
    api: &Api,
    is_so: impl Fn(&rollcall_proto::v1::ClusterStatusResponse) -> bool,
) -> Result<()> {
    loop {
        if api.cluster_now().await.is_some_and(|status| is_so(&status)) {
            return Ok(());
        }
        if began.elapsed() > STARTS_WITHIN {
            bail!("the peer isn't there within {STARTS_WITHIN:?}");
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn newest_snapshot_bytes(folder: &Path) -> Result<u64> {
    let mut files: Vec<_> = std::fs::read_dir(folder)?.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "snap"));
    files.sort();
    let newest = files.pop().context("there is no snapshot")?;
    Ok(std::fs::metadata(newest)?.len())
}

/// What the files below a folder hold.
fn folder_bytes(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let bytes = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => folder_bytes(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    };
    entries.flatten().map(bytes).sum()
}
