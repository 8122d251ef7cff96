//! Thousands of agents: what they cost the peers, and how soon all are served again after the leader was killed.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rand::Rng;
use rollcall_jepsen::procfs;
use rollcall_proto::v1;

use crate::fleet::{Fleet, Order, PACKAGE};
use crate::report::Findings;
use crate::rollcall::Rollcall;
use crate::row::Row;
use crate::system::System;
use crate::times::ms;

const GROUP: &str = "bench.sessions";

/// One change of health per second for so many nodes.
const NODES_PER_CHANGE: usize = 100;

/// The peers take a breath after so many hellos before anything is measured.
const BREATH: Duration = Duration::from_secs(5);

/// Measures it.
pub async fn measure(quick: bool) -> Result<Findings> {
    let (count, lasts) = if quick { (2_000, 8) } else { (10_000, 30) };
    let lasts = Duration::from_secs(lasts);
    let mut rollcall = Rollcall::start().await?;
    let spec = v1::GroupSpec { name: GROUP.to_owned(), package: Some(PACKAGE.to_owned()), ..Default::default() };
    rollcall.api.apply_group(spec).await?;
    let empty = memory(&rollcall)?;
    let began = Instant::now();
    let fleet = Fleet::start(count, GROUP, rollcall.addresses()).await?;
    let opening = began.elapsed();
    change_health(&fleet, BREATH).await;
    let (cpu_before, answered_before, began) = (cpu(&rollcall)?, fleet.answered(), Instant::now());
    change_health(&fleet, lasts).await;
    let took = began.elapsed().as_secs_f64();
    let cores = (cpu(&rollcall)? - cpu_before).as_secs_f64() / took;
    let changes = (fleet.answered() - answered_before) as f64 / took;
    let per_session = memory(&rollcall)?.saturating_sub(empty) as f64 / count as f64 / 1_024.0;
    let leader = rollcall.await_whole().await?;
    rollcall.kill(&leader)?;
    let served = fleet.report_all("after the kill").await?;
    rollcall.start_member(&leader)?;
    rollcall.await_whole().await?;
    fleet.ensure_nothing_refused()?;
    let departed = rollcall.count_departed(0).await?;
    let rows = vec![
        Row::new("P5.cpu", format!("{count} sessions: CPU of all peers together"), cores, "cores")
            .at_most(1.0)
            .note(format!("{changes:.0} changes of health a second")),
        Row::new("P5.memory", "memory of all peers together, per session", per_session, "KiB").at_most(12.0),
        Row::new("P5.opened", "all sessions opened within", opening.as_secs_f64(), "s"),
        Row::new(
            "P5.served.p50",
            "leader killed: a report of each node is answered, p50",
            served.percentile_ms(50.0),
            "ms",
        ),
        Row::new("P5.served", "the same, the last of all", ms(served.percentile(100.0)), "ms").at_most(3_000.0),
        Row::new("P5.departed", "nodes declared departed meanwhile", departed as f64, "").at_most(0.0),
    ];
    Ok(Findings { rows, charts: Vec::new() })
}

/// Here a node falls ill, and there another, or the same one, is well again.
async fn change_health(fleet: &Fleet, lasts: Duration) {
    let until = Instant::now() + lasts;
    let per_second = (fleet.count() / NODES_PER_CHANGE).max(1);
    let mut ticks = tokio::time::interval(Duration::from_secs(1) / u32::try_from(per_second).unwrap_or(u32::MAX));
    let mut is_ill = vec![false; fleet.count()];
    while Instant::now() < until {
        ticks.tick().await;
        let number = rand::rng().random_range(0..fleet.count());
        is_ill[number] = !is_ill[number];
        let order = Order::Report { detail: String::new(), is_healthy: !is_ill[number], told: None };
        fleet.order(number, order);
    }
}

/// CPU time of all peers together.
pub fn cpu(rollcall: &Rollcall) -> Result<Duration> {
    sum(rollcall, procfs::cpu_time)
}

fn memory(rollcall: &Rollcall) -> Result<u64> {
    sum(rollcall, procfs::resident_memory)
}

fn sum<T: std::iter::Sum>(rollcall: &Rollcall, of: impl Fn(u32) -> Option<T>) -> Result<T> {
    let of = |peer: &rollcall_jepsen::peer::Peer| of(peer.id()?).with_context(|| format!("{} is gone", peer.name)).ok();
    rollcall.cluster.peers.iter().map(of).sum::<Option<T>>().context("a peer is gone")
}
