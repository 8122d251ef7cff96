//! Forms the Redis Cluster with Redis's own tool, as an operator would.

use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::availability::SharedAvailability;

/// BOUND: how long the members may take until all of them are healthy.
const HEALTHY_WITHIN: Duration = Duration::from_secs(60);

/// The arguments for `redis-cli`.
pub fn arguments(members: &[SocketAddr]) -> Vec<String> {
    let mut arguments = vec!["--cluster".to_owned(), "create".to_owned()];
    arguments.extend(members.iter().map(SocketAddr::to_string));
    arguments.extend(["--cluster-replicas", "1", "--cluster-yes"].map(str::to_owned));
    arguments
}

/// Runs `redis-cli`.
pub async fn form(arguments: &[String]) -> Result<()> {
    let output = tokio::process::Command::new("redis-cli")
        .args(arguments)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .context("can't start redis-cli (Debian's package redis-server brings it)")?;
    if !output.status.success() {
        bail!("redis-cli could not form the cluster:\n{}", String::from_utf8_lossy(&output.stdout));
    }
    Ok(())
}

/// Waits until every member is healthy, and stays so for a second: roles settle after the last election.
pub async fn wait_until_healthy(seen: &SharedAvailability, member_count: usize) -> Result<()> {
    let deadline = tokio::time::Instant::now() + HEALTHY_WITHIN;
    let mut good_since = None;
    loop {
        let now = tokio::time::Instant::now();
        if seen.ask(|seen| seen.healthy_count()) < member_count {
            good_since = None;
        } else if now - *good_since.get_or_insert(now) >= Duration::from_secs(1) {
            return Ok(());
        }
        if now > deadline {
            let ailing: Vec<String> = seen.ask(|seen| {
                let ailing = seen.latest.iter().filter_map(|(member, look)| Some((member, look.ailment.as_ref()?)));
                ailing.map(|(member, why)| format!("{member}: {why}")).collect()
            });
            bail!("not all members are healthy after {HEALTHY_WITHIN:?}: {}", ailing.join("; "));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
