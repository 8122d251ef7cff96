//! Reports of sessions: many share one entry of the log. Beside the most puts that etcd got done in the same run.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rollcall_proto::v1;
use tokio::sync::mpsc;

use crate::fleet::{Fleet, Order, PACKAGE};
use crate::report::Findings;
use crate::rollcall::Rollcall;
use crate::row::Row;
use crate::times::Times;

const GROUP: &str = "bench.reports";

const NODES: usize = 192;

/// Reports of a node that wait for their answers.
const AT_ONCE: usize = 32;

/// BOUND: for what is on its way at the end.
const ANSWERED_WITHIN: Duration = Duration::from_secs(30);

/// Measures it. `writes` are what was measured beside etcd just before.
pub async fn measure(quick: bool, writes: &[Row]) -> Result<Findings> {
    let lasts = Duration::from_secs(if quick { 4 } else { 10 });
    let rollcall = Rollcall::start().await?;
    let spec = v1::GroupSpec { name: GROUP.to_owned(), package: Some(PACKAGE.to_owned()), ..Default::default() };
    rollcall.api.apply_group(spec).await?;
    let fleet = Fleet::start(NODES, GROUP, &rollcall.cluster.endpoints()).await?;
    let began = Instant::now();
    let mut floods = Vec::new();
    for number in 0..fleet.count() {
        let (told, flood) = mpsc::unbounded_channel();
        fleet.order(number, Order::Flood { until: began + lasts, at_once: AT_ONCE, told });
        floods.push(flood);
    }
    let (mut times, mut last) = (Vec::new(), BTreeMap::new());
    for (number, flood) in floods.iter_mut().enumerate() {
        let told = tokio::time::timeout(lasts + ANSWERED_WITHIN, flood.recv()).await;
        let (detail, took) =
            told.ok().flatten().with_context(|| format!("reports of node {number} aren't answered"))?;
        times.extend(took);
        last.insert(format!("node-{number:06}"), detail);
    }
    let took = began.elapsed();
    fleet.ensure_nothing_refused()?;
    read_back(&rollcall, &last).await?;
    let times = Times::new(times);
    let unary = writes.iter().filter(|row| row.unit == "/s").filter_map(|row| row.beside);
    let row = Row::new("P1.reports", "reports of sessions", times.count() as f64 / took.as_secs_f64(), "/s")
        .note(format!("{NODES} sessions, {AT_ONCE} at once; beside etcd's best of the above"));
    let row = row.beside(unary.fold(0.0, f64::max)).at_least_times(10.0);
    let p99 = Row::new("P1.reports.p99", "their latency, p99", times.percentile_ms(99.0), "ms");
    Ok(Findings { rows: vec![row, p99], charts: Vec::new() })
}

/// Reports of a session are applied in their order: who has the last one of each has had all of them.
async fn read_back(rollcall: &Rollcall, last: &BTreeMap<String, String>) -> Result<()> {
    let group = rollcall.api.group(GROUP).await?;
    let stored: BTreeMap<_, _> = group.members.into_iter().map(|it| (it.node_name, it.health_detail)).collect();
    for (name, detail) in last {
        if stored.get(name) != Some(detail) {
            bail!("the last report of {name} was acknowledged, and isn't there");
        }
    }
    Ok(())
}
