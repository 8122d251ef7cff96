//! Linearizable reads, asked of all peers, beside etcd's.

use std::time::Duration;

use anyhow::Result;

use crate::drive::{Spell, read_for};
use crate::etcd::Etcd;
use crate::report::Findings;
use crate::rollcall::Rollcall;
use crate::row::Row;
use crate::system::System;
use crate::times::median;

/// Measures them in turn.
pub async fn measure(quick: bool) -> Result<Findings> {
    let (rounds, lasts) = if quick { (1, Duration::from_secs(3)) } else { (3, Duration::from_secs(4)) };
    let (rollcall, etcd) = (Rollcall::start().await?, Etcd::start().await?);
    prepare(&rollcall).await?;
    prepare(&etcd).await?;
    let mut found = Findings::default();
    for (clients, is_stale) in [(64, false), (256, false), (256, true)] {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            ours.push(spell(&rollcall, clients, is_stale, lasts).await?);
            theirs.push(spell(&etcd, clients, is_stale, lasts).await?);
        }
        let of = |spells: &[Spell], figure: fn(&Spell) -> f64| median(spells.iter().map(figure).collect());
        let rate = |id: &str, what: &str| {
            let row = Row::new(
                format!("P2.{id}.{clients}"),
                format!("{what}, {clients} clients"),
                of(&ours, Spell::rate),
                "/s",
            );
            row.beside(of(&theirs, Spell::rate))
        };
        if is_stale {
            // What the calls themselves cost on this machine, its clients included: no confirmation can be faster.
            found.rows.push(rate("stale", "reads without any confirmation").note("what is possible here"));
            continue;
        }
        found.rows.push(rate("reads", "linearizable reads").at_least_times(3.0));
        let p99 = |spell: &Spell| spell.times.percentile_ms(99.0);
        let what = format!("their latency, {clients} clients, p99");
        let row = Row::new(format!("P2.reads.{clients}.p99"), what, of(&ours, p99), "ms");
        found.rows.push(row.beside(of(&theirs, p99)));
    }
    Ok(found)
}

async fn prepare(system: &impl System) -> Result<()> {
    for client in system.clients(1).await?.iter_mut() {
        client.prepare_read().await?;
    }
    Ok(())
}

async fn spell(system: &impl System, clients: usize, is_stale: bool, lasts: Duration) -> Result<Spell> {
    read_for(system.clients(clients).await?, is_stale, lasts).await
}
