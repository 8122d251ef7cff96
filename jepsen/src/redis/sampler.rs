//! Looks at one Redis from outside, every 50 ms, and says whether it is healthy.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use redis::RedisResult;
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use crate::availability::{Look, SharedAvailability};
use crate::clock::Clock;
use crate::redis::link::Link;

/// How often each member is looked at.
const EVERY: Duration = Duration::from_millis(50);

/// BOUND: a member that doesn't answer for so long isn't healthy, whatever the reason.
const ANSWERS_WITHIN: Duration = Duration::from_secs(1);

/// How the ailment of a replica without its primary begins; the primary's address follows.
pub const LINK_DOWN: &str = "has no link to its primary";

/// A member to look at.
#[derive(Debug, Clone)]
pub struct Member {
    /// The node's name.
    pub name: String,
    /// Where its Redis listens.
    pub address: SocketAddr,
}

/// Running samplers, one per member, so that one that hangs hides no other. Dropping it stops them.
#[derive(Debug)]
pub struct Samplers {
    tasks: Vec<JoinHandle<()>>,
}

impl Samplers {
    /// Starts to look at all members.
    pub fn start(members: &[Member], seen: &SharedAvailability, clock: Clock) -> Self {
        let tasks = members.iter().map(|member| tokio::spawn(watch(member.clone(), seen.clone(), clock))).collect();
        Self { tasks }
    }
}

impl Drop for Samplers {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

async fn watch(member: Member, seen: SharedAvailability, clock: Clock) {
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut link = None;
    loop {
        ticks.tick().await;
        let look = match tokio::time::timeout(ANSWERS_WITHIN, look_at(&mut link, member.address)).await {
            Ok(Ok(look)) => look,
            Ok(Err(error)) => failed(&mut link, format!("does not answer: {error}")),
            Err(_) => failed(&mut link, "does not answer in time".into()),
        };
        seen.add(clock.now(), &member.name, look);
    }
}

fn failed(link: &mut Option<Link>, ailment: String) -> Look {
    *link = None;
    Look { ailment: Some(ailment), ..Look::default() }
}

async fn look_at(link: &mut Option<Link>, address: SocketAddr) -> RedisResult<Look> {
    let link = match link {
        Some(link) => link,
        None => link.insert(Link::connect(address).await?),
    };
    let mut told = BTreeMap::new();
    for words in [&["PING"][..], &["INFO", "server", "persistence", "replication"], &["CLUSTER", "INFO"]] {
        let text: String = link.ask(words).await?;
        told.extend(
            text.lines()
                .filter_map(|line| line.split_once(':'))
                .map(|(key, value)| (key.to_owned(), value.trim_end().to_owned())),
        );
    }
    Ok(judge(&told))
}

/// What the fields of `INFO` and `CLUSTER INFO` mean.
fn judge(told: &BTreeMap<String, String>) -> Look {
    let field = |name: &str| told.get(name).map(String::as_str).unwrap_or_default();
    let primary = match field("role") {
        "master" => Some(true),
        "slave" => Some(false),
        _ => None,
    };
    let ailment = if field("loading") != "0" {
        Some("loading its data".into())
    } else if field("cluster_state") != "ok" {
        Some(format!("cluster_state is {}", field("cluster_state")))
    } else if primary == Some(false) && field("master_link_status") != "up" {
        Some(format!("{LINK_DOWN} {}:{}", field("master_host"), field("master_port")))
    } else {
        None
    };
    // The install hook puts the configuration below a folder that is named after its release.
    let release = field("config_file").rsplit('/').nth(1).filter(|release| !release.is_empty()).map(str::to_owned);
    Look { ailment, primary, release, pid: field("process_id").parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(changes: &[(&str, &str)]) -> BTreeMap<String, String> {
        let mut told: BTreeMap<String, String> = [
            ("role", "slave"),
            ("loading", "0"),
            ("cluster_state", "ok"),
            ("master_link_status", "up"),
            ("config_file", "/x/etc/20260101000000/redis.conf"),
            ("process_id", "77"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
        told.extend(changes.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
        told
    }

    #[test]
    fn a_healthy_replica_shows_its_release_and_process() {
        let look = judge(&told(&[]));
        let expected =
            Look { ailment: None, primary: Some(false), release: Some("20260101000000".into()), pid: Some(77) };
        assert_eq!(look, expected);
    }

    #[test]
    fn each_ailment_is_seen() {
        for change in [("loading", "1"), ("cluster_state", "fail"), ("master_link_status", "down")] {
            assert!(judge(&told(&[change])).ailment.is_some(), "{change:?}");
        }
        assert_eq!(judge(&told(&[("role", "master"), ("master_link_status", "")])).ailment, None);
    }
}
