//! Writes through the public API, one by one, beside etcd's puts: throughput and latency by the number of clients.

use std::time::Duration;

use anyhow::Result;

use crate::chart::{Axis, Chart, Series};
use crate::drive::{Spell, write_for};
use crate::etcd::Etcd;
use crate::report::Findings;
use crate::rollcall::Rollcall;
use crate::row::Row;
use crate::system::System;
use crate::times::median;

/// How many clients write at once.
const CLIENTS: [usize; 4] = [1, 16, 64, 256];

/// Whose latencies are drawn.
const DRAWN: usize = 64;

/// How much more than etcd is promised, where anything is.
fn goal(clients: usize) -> Option<f64> {
    match clients {
        1 => Some(1.2),
        64 | 256 => Some(2.0),
        _ => None,
    }
}

/// What one system did with so many clients, in several rounds.
struct Rounds {
    rates: Vec<f64>,
    p50s: Vec<f64>,
    p99s: Vec<f64>,
    percentiles: Vec<(f64, f64)>,
}

/// Measures them in turn.
pub async fn measure(quick: bool) -> Result<Findings> {
    let (rounds, lasts) = if quick { (1, Duration::from_secs(3)) } else { (3, Duration::from_secs(5)) };
    let (rollcall, etcd) = (Rollcall::start().await?, Etcd::start().await?);
    let mut found = Findings::default();
    let mut curves = [Vec::new(), Vec::new()];
    let mut drawn = [Vec::new(), Vec::new()];
    for clients in CLIENTS {
        let (mut ours, mut theirs) = (Rounds::new(), Rounds::new());
        for round in 0..rounds {
            let run = format!("w{clients}-{round}");
            ours.add(&spell(&rollcall, &run, clients, lasts).await?);
            theirs.add(&spell(&etcd, &run, clients, lasts).await?);
        }
        let medians = |series: &Rounds| [&series.rates, &series.p50s, &series.p99s].map(|it| median(it.clone()));
        let ([rate, p50, p99], [etcd_rate, etcd_p50, etcd_p99]) = (medians(&ours), medians(&theirs));
        curves[0].push((clients as f64, rate));
        curves[1].push((clients as f64, etcd_rate));
        if clients == DRAWN {
            drawn = [ours.percentiles, theirs.percentiles];
        }
        let id = format!("P1.unary.{clients}");
        let who = if clients == 1 { "1 client".to_owned() } else { format!("{clients} clients") };
        let row = Row::new(&id, format!("writes, {who}"), rate, "/s").beside(etcd_rate);
        found.rows.push(match goal(clients) {
            Some(goal) => row.at_least_times(goal),
            None => row,
        });
        found
            .rows
            .push(Row::new(format!("{id}.p50"), format!("their latency, {who}, p50"), p50, "ms").beside(etcd_p50));
        let row = Row::new(format!("{id}.p99"), format!("their latency, {who}, p99"), p99, "ms").beside(etcd_p99);
        found.rows.push(row.at_most_times(0.5));
    }
    let named = |points: [Vec<(f64, f64)>; 2]| {
        let names = [Rollcall::NAME, Etcd::NAME].map(str::to_owned);
        names.into_iter().zip(points).map(|(name, points)| Series { name, points }).collect()
    };
    found.charts.push(Chart {
        file: "writes",
        title: "Acknowledged writes of 300 bytes, 3 peers, synced to the same disk".to_owned(),
        x: Axis::log("clients, each with one write on its way").ticks(CLIENTS.map(|it| (it as f64, it.to_string()))),
        y: Axis::linear("writes per second"),
        series: named(curves),
    });
    found.charts.push(Chart {
        file: "latency",
        title: format!("Latency of a write with {DRAWN} clients"),
        x: Axis::log("of all writes").ticks(PERCENTILES.map(|percent| (slowest(percent), format!("{percent} %")))),
        y: Axis::log("milliseconds"),
        series: named(drawn),
    });
    Ok(found)
}

const PERCENTILES: [f64; 5] = [10.0, 50.0, 90.0, 99.0, 99.9];

/// On an axis where the slowest have as much room as the rest.
fn slowest(percent: f64) -> f64 {
    100.0 / (100.0 - percent)
}

impl Rounds {
    fn new() -> Self {
        Self { rates: Vec::new(), p50s: Vec::new(), p99s: Vec::new(), percentiles: Vec::new() }
    }

    fn add(&mut self, spell: &Spell) {
        self.rates.push(spell.rate());
        self.p50s.push(spell.times.percentile_ms(50.0));
        self.p99s.push(spell.times.percentile_ms(99.0));
        self.percentiles = PERCENTILES.map(|percent| (slowest(percent), spell.times.percentile_ms(percent))).to_vec();
    }
}

async fn spell(system: &impl System, run: &str, clients: usize, lasts: Duration) -> Result<Spell> {
    let spell = write_for(system.clients(clients).await?, run, lasts).await?;
    system.read_back(run, &spell.acknowledged).await?;
    Ok(spell)
}
