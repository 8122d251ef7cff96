//! Nothing happens: what do peers and agents cost?

use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rollcall_jepsen::depot::Depot;
use rollcall_jepsen::procfs;
use rollcall_proto::v1;
use tokio::process::Command;

use crate::handover::{GROUP, add_release, agent, roll};
use crate::report::Findings;
use crate::rollcall::Rollcall;
use crate::row::Row;
use crate::system::System;

const NODES: usize = 3;

/// It is quiet once nothing was written for so long.
const QUIET: Duration = Duration::from_secs(3);

/// BOUND: for that.
const QUIET_WITHIN: Duration = Duration::from_secs(60);

/// All that makes bytes durable.
const SYNCS: &str = "trace=fsync,fdatasync,sync_file_range,msync,sync,syncfs";

/// Measures it.
pub async fn measure(quick: bool) -> Result<Findings> {
    let lasts = Duration::from_secs(if quick { 8 } else { 30 });
    let mut rollcall = Rollcall::start().await?;
    let depot = Depot::create(rollcall.run.folder("depot")?)?;
    let marks = rollcall.run.path().join("marks");
    let release = add_release(&depot, rollcall.run.path(), &marks, 0)?;
    rollcall.add_agents((1..=NODES).map(|number| agent(&depot, number))).await?;
    let policy = v1::Policy { min_healthy_time_ms: Some(1), ..Default::default() };
    let spec = v1::GroupSpec {
        name: GROUP.to_owned(),
        package: Some("acme/bench".to_owned()),
        policy: Some(policy),
        ..Default::default()
    };
    rollcall.api.apply_group(spec).await?;
    roll(&rollcall, &release).await?;
    rollcall.await_whole().await?;
    await_quiet(&rollcall).await?;
    let peers: Vec<u32> = rollcall.cluster.peers.iter().filter_map(|peer| peer.id()).collect();
    let agents: Vec<u32> = rollcall.cluster.agents.iter().filter_map(|agent| agent.id()).collect();
    let before = revision(&rollcall).await?;
    let (peer_cpu, agent_cpu, began) = (cpu(&peers)?, cpu(&agents)?, Instant::now());
    tokio::time::sleep(lasts).await;
    let took = began.elapsed().as_secs_f64();
    let share = |before: &[Duration], after: &[Duration]| {
        before
            .iter()
            .zip(after)
            .map(|(before, after)| (*after - *before).as_secs_f64() / took * 100.0)
            .fold(0.0, f64::max)
    };
    let (peer_share, agent_share) = (share(&peer_cpu, &cpu(&peers)?), share(&agent_cpu, &cpu(&agents)?));
    let grown = revision(&rollcall).await? - before;
    let syncs = count_syncs(&peers, &rollcall.run.path().join("syncs"), lasts).await?;
    let memory = |pids: &[u32]| {
        pids.iter().filter_map(|pid| procfs::resident_memory(*pid)).max().unwrap_or(0) as f64 / f64::from(1 << 20)
    };
    let rows = vec![
        Row::new("P8.entries", format!("idle for {} s: entries of the log", lasts.as_secs()), grown as f64, "")
            .at_most(0.0),
        Row::new("P8.cpu.peer", "idle: CPU of a peer", peer_share, "% of a core")
            .at_most(1.0)
            .note("the busiest, with its share of the sessions"),
        Row::new("P8.cpu.agent", "idle: CPU of an agent", agent_share, "% of a core").at_most(1.0),
        Row::new("P8.syncs", "idle: syncs of all peers together", syncs as f64 * 60.0 / lasts.as_secs_f64(), "/min"),
        Row::new("P8.memory.peer", "idle: memory of a peer", memory(&peers), "MiB").at_most(64.0),
        Row::new("P8.memory.agent", "idle: memory of an agent", memory(&agents), "MiB").at_most(16.0),
    ];
    Ok(Findings { rows, charts: Vec::new() })
}

async fn revision(rollcall: &Rollcall) -> Result<u64> {
    Ok(rollcall.api.cluster(false).await?.revision)
}

/// Waits until what was done before has left nothing to do.
async fn await_quiet(rollcall: &Rollcall) -> Result<()> {
    let deadline = Instant::now() + QUIET_WITHIN;
    let (mut latest, mut since) = (revision(rollcall).await?, Instant::now());
    while since.elapsed() < QUIET {
        if Instant::now() > deadline {
            bail!("the log still grows after {QUIET_WITHIN:?}");
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        let now = revision(rollcall).await?;
        if now != latest {
            (latest, since) = (now, Instant::now());
        }
    }
    Ok(())
}

fn cpu(pids: &[u32]) -> Result<Vec<Duration>> {
    pids.iter().map(|pid| procfs::cpu_time(*pid).with_context(|| format!("process {pid} is gone"))).collect()
}

/// As the kernel sees them, of all threads.
async fn count_syncs(pids: &[u32], file: &std::path::Path, lasts: Duration) -> Result<usize> {
    let mut command = Command::new("strace");
    command.args(["--quiet=attach,exit", "-f", "-e", SYNCS, "-o"]).arg(file);
    command.args(pids.iter().flat_map(|pid| ["-p".to_owned(), pid.to_string()]));
    let mut strace = command.stdin(Stdio::null()).spawn().context("strace can't be started")?;
    tokio::time::sleep(lasts).await;
    if let Some(how) = strace.try_wait()? {
        bail!("strace can't watch the peers ({how}): may this user trace?");
    }
    let id = strace.id().and_then(|id| i32::try_from(id).ok()).context("strace is gone")?;
    // It lets go of them, and ends.
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(id), nix::sys::signal::Signal::SIGINT)?;
    strace.wait().await?;
    Ok(std::fs::read_to_string(file)?.lines().filter(|line| line.contains("sync") && !line.contains("resumed")).count())
}
