//! A peer's storage under load, and the check of what a crash left of it. For tests of power cuts; never shipped.
//!
//! `logtool child DIR SEED` prints `A <n>` once entry n is durable and `Q <n>` before it purges up to n, until it is killed.
//! `logtool verify DIR ACKED PURGED` ends with 0 if nothing acknowledged is lost and nothing else is wrong.
//! `docs/adr/0001-raft-log-not-sled.md` has the command that cuts the power.

#[path = "../tests/server/storage_support/mod.rs"]
mod support;

use anyhow::{Context as _, bail};

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |text: &str| text.parse::<u64>().with_context(|| format!("{text:?} is not a number"));
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["child", dir, seed] => support::child::run(dir.as_ref(), number(seed)?),
        ["verify", dir, acked, purged] => support::verify::run(dir.as_ref(), number(acked)?, number(purged)?),
        _ => bail!("usage: logtool child DIR SEED | logtool verify DIR ACKED PURGED"),
    }
}
