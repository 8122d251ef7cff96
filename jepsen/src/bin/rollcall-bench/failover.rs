//! The leader is killed again and again: for how long gets a client that writes all the time no acknowledgement?

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rollcall_jepsen::agent::AgentConfig;
use tokio::sync::mpsc;

use crate::chart::{Axis, Chart, Series};
use crate::client::Client;
use crate::drive::Acknowledged;
use crate::etcd::Etcd;
use crate::report::Findings;
use crate::rollcall::Rollcall;
use crate::row::Row;
use crate::system::{System, connect};
use crate::times::Times;

/// Their sessions must outlive every leader.
const AGENTS: usize = 3;

/// The next write doesn't wait for the one before: one that a dead leader took with it holds nobody up.
const WRITE_EVERY: Duration = Duration::from_millis(10);

/// The client writes for so long before the kill.
const BEFORE: Duration = Duration::from_millis(200);

/// So many writes that began after the kill must be acknowledged before the client stops.
const AFTER: usize = 20;

/// BOUND: for that.
const BACK_WITHIN: Duration = Duration::from_secs(30);

/// BOUND: for one write.
const WRITE_WITHIN: Duration = Duration::from_secs(10);

/// Measures both, one after the other.
pub async fn measure(quick: bool) -> Result<Findings> {
    let kills = if quick { 8 } else { 100 };
    let mut rollcall = Rollcall::start().await?;
    let agents = (1..=AGENTS).map(|number| AgentConfig { name: format!("node-{number}"), ..AgentConfig::default() });
    rollcall.add_agents(agents).await?;
    // In two halves, in turn with etcd's, so that both see the same machine.
    let mut etcd = Etcd::start().await?;
    let (mut ours, mut theirs, mut departed) = (Vec::new(), Vec::new(), 0);
    for half in 0..2 {
        let since = rollcall.events_since(0).await.map(|(_, revision)| revision).unwrap_or_default();
        ours.extend(kill_leaders(&mut rollcall, half, kills / 2).await?);
        departed += rollcall.count_departed(since).await?;
        theirs.extend(kill_leaders(&mut etcd, half, kills / 2).await?);
    }
    let (ours, theirs) = (Times::new(ours), Times::new(theirs));
    let row = |percent: f64, name: &str| {
        let row = Row::new(
            format!("P4.gap.{name}"),
            format!("leader killed: no write acknowledged for, {name}"),
            ours.percentile_ms(percent),
            "ms",
        );
        row.beside(theirs.percentile_ms(percent))
    };
    let of = format!("of {} kills each", ours.count());
    let rows = vec![
        row(50.0, "p50").at_most_times(0.5).note(of),
        row(99.0, "p99").at_most_times(0.5),
        row(100.0, "max"),
        Row::new("P4.departed", "nodes declared departed meanwhile", departed as f64, "").at_most(0.0),
    ];
    let series = |name: &str, times: &Times| Series { name: name.to_owned(), points: times.distribution() };
    let chart = Chart {
        file: "failover",
        title: "The leader is killed: how long no write is acknowledged".to_owned(),
        x: Axis::linear("milliseconds"),
        y: Axis::linear("% of kills that are over by then"),
        series: vec![series(Rollcall::NAME, &ours), series(Etcd::NAME, &theirs)],
    };
    Ok(Findings { rows, charts: vec![chart] })
}

async fn kill_leaders<S: System>(system: &mut S, half: usize, kills: usize) -> Result<Vec<Duration>> {
    let mut gaps = Vec::new();
    for kill in 0..kills {
        let leader = system.await_whole().await?;
        let run = format!("k{half}-{kill}");
        let (gap, acknowledged) =
            kill_one(system, &leader, &run).await.with_context(|| format!("{} {run}", S::NAME))?;
        system.start_member(&leader)?;
        system.await_whole().await?;
        system.read_back(&run, &acknowledged).await?;
        gaps.push(gap);
        if kill % 10 == 9 {
            eprintln!("{}: {} of {kills} kills", S::NAME, kill + 1);
        }
    }
    Ok(gaps)
}

/// What became of a write.
struct Told {
    began: Instant,
    told: Instant,
    acknowledged: Option<Acknowledged>,
}

/// Writes through the peers that stay, kills the leader meanwhile, and writes on until writes are acknowledged again.
async fn kill_one<S: System>(system: &mut S, leader: &str, run: &str) -> Result<(Duration, Vec<Acknowledged>)> {
    // Connected before: what is measured is the cluster, not TCP.
    let mut clients = Vec::new();
    for address in system.addresses().iter().filter(|address| *address != leader) {
        clients.push(system.client(connect(address).await?));
    }
    let (tell, mut told) = mpsc::unbounded_channel();
    let writer = tokio::spawn(write_all_the_time(clients, run.to_owned(), tell));
    let mut all: Vec<Told> = Vec::new();
    let begun = Instant::now();
    while begun.elapsed() < BEFORE || !all.iter().any(|it| it.acknowledged.is_some()) {
        all.push(told.recv().await.context("the client has ended")?);
        if begun.elapsed() > BACK_WITHIN {
            bail!("nothing is acknowledged before anything is killed");
        }
    }
    let killed_at = Instant::now();
    system.kill(leader)?;
    let is_after = |it: &Told| it.began > killed_at && it.acknowledged.is_some();
    let back = async {
        while all.iter().filter(|it| is_after(it)).count() < AFTER {
            all.push(told.recv().await.context("the client has ended")?);
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(BACK_WITHIN, back).await.with_context(|| format!("no writes within {BACK_WITHIN:?}"))??;
    writer.abort();
    // What was on its way when the leader died may be acknowledged late; what counts is the longest silence.
    let mut at: Vec<Instant> = all.iter().filter(|it| it.acknowledged.is_some()).map(|it| it.told).collect();
    at.sort_unstable();
    let gap = at.windows(2).map(|pair| pair[1] - pair[0]).max().context("nothing was acknowledged")?;
    Ok((gap, all.into_iter().filter_map(|it| it.acknowledged).collect()))
}

/// Each write is the only one of its client, so that they may overtake each other. Ends when it's aborted.
async fn write_all_the_time(clients: Vec<Client>, run: String, tell: mpsc::UnboundedSender<Told>) {
    let mut ticks = tokio::time::interval(WRITE_EVERY);
    for number in 0.. {
        ticks.tick().await;
        let mut client = clients[number % clients.len()].clone();
        let (run, tell) = (run.clone(), tell.clone());
        tokio::spawn(async move {
            let began = Instant::now();
            let written = tokio::time::timeout(WRITE_WITHIN, client.write(&run, number, 0)).await;
            let revision = written.ok().and_then(Result::ok);
            let acknowledged = revision.map(|revision| Acknowledged { client: number, number: 0, revision });
            // Nobody may listen any more.
            let _ = tell.send(Told { began, told: Instant::now(), acknowledged });
        });
    }
}
