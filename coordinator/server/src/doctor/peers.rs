//! What the peers say of themselves and of each other, judged.

use std::collections::{BTreeMap, BTreeSet};

use rollcall_ident::{Millis, PeerId, Revision};
use rollcall_rollout::{Finding, Severity};

use crate::convert::quorum_margin;
use crate::raft::{Checkup, Examined, MemberStatus, PeerProblem};
use crate::sessions::MAX_SESSIONS;

/// Entries that a peer may be behind the others: a second or two of a busy cluster.
const MAX_LAG: u64 = 1_000;

/// How far two wall clocks may be apart: NTP keeps them within some milliseconds.
const MAX_SKEW: Millis = Millis::from_secs(1);

/// A sync that takes as long as this holds up every write, and keeps elections from coming to an end (`Tuning`).
const SLOW_SYNC: Millis = Millis::from_secs(1);

/// Free space below which a disk is low: in hundredths of its size and in bytes, whichever is less.
const LOW_PERCENT: u64 = 10;
const LOW_BYTES: u64 = 1 << 30;
/// The same, for one that is about to stop its peer.
const CRITICAL_PERCENT: u64 = 2;
const CRITICAL_BYTES: u64 = 200 << 20;

/// Sessions elsewhere from which on a peer that hosts none is conspicuous.
const MANY_SESSIONS: usize = 100;

/// All that is known of the peers.
pub(super) struct Evidence {
    /// Who looks.
    pub me: PeerId,
    /// Who leads, to its knowledge.
    pub leader: Option<PeerId>,
    /// A majority has confirmed what it knows, or wasn't asked.
    pub is_confirmed: bool,
    /// What it has applied.
    pub revision: Revision,
    /// As the leader knows them.
    pub members: Vec<MemberStatus>,
    /// As they are themselves.
    pub peers: Vec<Examined>,
    /// Sessions on each.
    pub sessions: BTreeMap<PeerId, usize>,
}

/// The checks, in the order in which their findings are told.
pub(super) const CHECKS: [fn(&Evidence, &mut Vec<Finding>); 10] = [
    no_leader,
    quorum,
    peer_unreachable,
    peer_not_voting,
    peer_lags,
    disk_low,
    disk_slow,
    clock_skew,
    peer_versions,
    sessions_uneven,
];

impl Evidence {
    /// What somebody should look at.
    pub fn findings(&self) -> Vec<Finding> {
        let mut found = Vec::new();
        CHECKS.iter().for_each(|examine| examine(self, &mut found));
        found
    }

    /// Those that answered.
    fn answers(&self) -> impl Iterator<Item = (&Examined, &Checkup)> {
        self.peers.iter().filter_map(|peer| Some((peer, peer.outcome.as_ref().ok()?)))
    }
}

fn finding(severity: Severity, check: &'static str, subject: String, text: String, advice: String) -> Finding {
    Finding { severity, check, subject, text, advice }
}

fn of(peer: PeerId) -> String {
    format!("peer {peer}")
}

fn cluster() -> String {
    "cluster".to_owned()
}

fn no_leader(evidence: &Evidence, found: &mut Vec<Finding>) {
    if evidence.leader.is_some() && evidence.is_confirmed {
        return;
    }
    let text = format!(
        "no leader answers with a majority behind it: nothing moves. What follows is what peer {} knew at revision {}",
        evidence.me, evidence.revision
    );
    let advice = "start the peers that are down, and look at the network between them; running services aren't touched \
                  meanwhile";
    found.push(finding(Severity::Error, "no_leader", cluster(), text, advice.to_owned()));
}

fn quorum(evidence: &Evidence, found: &mut Vec<Finding>) {
    let voters = evidence.members.iter().filter(|member| member.voter).count();
    let (severity, text, advice) = match (quorum_margin(&evidence.members), voters) {
        // Said by `no_leader`; who leads knows whom it hears.
        (i32::MIN..=-1, _) => return,
        (0, 1) => (
            Severity::Warning,
            "a single peer: the cluster is lost with its disk".to_owned(),
            "start two more, blank, and `rollcall cluster add-peer HOST:PORT` each",
        ),
        (0, 2) => (
            Severity::Warning,
            "two voters: nothing moves once either is down".to_owned(),
            "`rollcall cluster add-peer HOST:PORT` a third",
        ),
        (0, voters) => (
            Severity::Error,
            format!("of {voters} voters none may be lost any more before nothing moves"),
            "bring back those that are down before anything else is restarted",
        ),
        _ => return,
    };
    found.push(finding(severity, "quorum", cluster(), text, advice.to_owned()));
}

fn peer_unreachable(evidence: &Evidence, found: &mut Vec<Finding>) {
    for peer in &evidence.peers {
        let Err(what) = &peer.outcome else { continue };
        let member = evidence.members.iter().find(|member| member.peer == peer.peer);
        let advice = match member.and_then(|member| member.problem.as_ref()) {
            Some(
                problem @ (PeerProblem::Blank { .. } | PeerProblem::SomebodyElse { .. } | PeerProblem::WeAreRemoved),
            ) => problem.to_string(),
            Some(PeerProblem::Unreachable { .. }) | None => format!(
                "start it, and look at its log; if it is gone for good: `rollcall cluster remove-peer {}`",
                peer.peer
            ),
        };
        let text = format!("it doesn't tell peer {} how it is: {what}", evidence.me);
        found.push(finding(Severity::Error, "peer_unreachable", of(peer.peer), text, advice));
    }
}

fn peer_not_voting(evidence: &Evidence, found: &mut Vec<Finding>) {
    for member in evidence.members.iter().filter(|member| !member.voter) {
        let text = "it is a learner: it has the log and doesn't vote".to_owned();
        let advice =
            format!("`rollcall cluster add-peer {}` again makes it a voter once it has caught up", member.address);
        found.push(finding(Severity::Warning, "peer_not_voting", of(member.peer), text, advice));
    }
}

fn peer_lags(evidence: &Evidence, found: &mut Vec<Finding>) {
    let Some(furthest) = evidence.answers().map(|(_, checkup)| checkup.applied).max() else { return };
    for (peer, checkup) in evidence.answers() {
        let lag = furthest.0.saturating_sub(checkup.applied.0);
        if lag > MAX_LAG {
            let text = format!("it has applied up to revision {}, and is {lag} behind", checkup.applied);
            let advice = "look at its disk and its network; until it has caught up it is no good successor, and reads on it \
                          take longer";
            found.push(finding(Severity::Warning, "peer_lags", of(peer.peer), text, advice.to_owned()));
        }
    }
}

fn disk_low(evidence: &Evidence, found: &mut Vec<Finding>) {
    for (peer, checkup) in evidence.answers() {
        let disk = match &checkup.disk {
            Ok(disk) => disk,
            Err(what) => {
                let text = format!("what is free where its data lies isn't known: {what}");
                let advice = "look at the file system of its data_dir".to_owned();
                found.push(finding(Severity::Warning, "disk_low", of(peer.peer), text, advice));
                continue;
            }
        };
        let is_below = |percent: u64, bytes: u64| disk.free_bytes < (disk.total_bytes / 100 * percent).min(bytes);
        let severity = if is_below(CRITICAL_PERCENT, CRITICAL_BYTES) {
            Severity::Error
        } else if is_below(LOW_PERCENT, LOW_BYTES) {
            Severity::Warning
        } else {
            continue;
        };
        let (free, total) = (disk.free_bytes >> 20, disk.total_bytes >> 20);
        let text = format!("{free} MiB of {total} MiB are free where its data lies; it stops when they are used up");
        let advice = "make room on the file system of its data_dir, or move it to a larger one".to_owned();
        found.push(finding(severity, "disk_low", of(peer.peer), text, advice));
    }
}

fn disk_slow(evidence: &Evidence, found: &mut Vec<Finding>) {
    for (peer, checkup) in evidence.answers() {
        let slowest = Millis(checkup.slowest_sync_us / 1_000);
        if slowest >= SLOW_SYNC {
            let text =
                format!("a sync of its log has taken {slowest} since it started; writes and elections wait for it");
            let advice =
                "give the log a disk of its own, or a faster one; rollcall_fsync_duration_seconds shows the rest";
            found.push(finding(Severity::Warning, "disk_slow", of(peer.peer), text, advice.to_owned()));
        }
    }
}

fn clock_skew(evidence: &Evidence, found: &mut Vec<Finding>) {
    for (peer, checkup) in evidence.answers() {
        // What the clock showed lies between question and answer, unless it is wrong.
        let behind = peer.asked_at.0.saturating_sub(checkup.wall_clock.0);
        let ahead = checkup.wall_clock.0.saturating_sub(peer.answered_at.0);
        let (apart, which) = if behind > ahead { (behind, "behind") } else { (ahead, "ahead of") };
        if apart > MAX_SKEW.0 {
            let text = format!("its wall clock is {} {which} that of peer {}", Millis(apart), evidence.me);
            let advice = "set both by NTP: windows, freezes, holds and pauses go by the clock of whoever leads";
            found.push(finding(Severity::Warning, "clock_skew", of(peer.peer), text, advice.to_owned()));
        }
    }
}

fn peer_versions(evidence: &Evidence, found: &mut Vec<Finding>) {
    let versions: BTreeSet<&str> = evidence.answers().map(|(_, checkup)| checkup.version.as_str()).collect();
    if versions.len() > 1 {
        let each: Vec<String> =
            evidence.answers().map(|(peer, checkup)| format!("{} on peer {}", checkup.version, peer.peer)).collect();
        let text = format!("the peers run different versions: {}", each.join(", "));
        let advice = "finish the update, one peer after the other".to_owned();
        found.push(finding(Severity::Warning, "peer_versions", cluster(), text, advice));
    }
}

fn sessions_uneven(evidence: &Evidence, found: &mut Vec<Finding>) {
    let all: usize = evidence.sessions.values().sum();
    for (peer, count) in &evidence.sessions {
        if *count > MAX_SESSIONS / 10 * 8 {
            let text = format!("it hosts {count} sessions of agents; it takes {MAX_SESSIONS}");
            let advice = "name more peers in the agents' `endpoints`, or add one".to_owned();
            found.push(finding(Severity::Warning, "sessions_uneven", of(*peer), text, advice));
        } else if *count == 0 && all >= MANY_SESSIONS {
            let text = format!("it hosts none of {all} sessions: the others carry its share");
            let advice = "name it in the agents' `endpoints`, and see that they reach it".to_owned();
            found.push(finding(Severity::Warning, "sessions_uneven", of(*peer), text, advice));
        }
    }
}

#[cfg(test)]
mod tests {
    use rollcall_ident::WallTime;

    use super::*;
    use crate::storage::DiskSpace;

    const NOW: u64 = 1_780_000_000_000;

    /// Three peers that are well.
    fn evidence() -> Evidence {
        let peers = [1, 5, 7].map(PeerId);
        let member = |peer| MemberStatus {
            peer,
            address: format!("10.0.0.{peer}:7400"),
            voter: true,
            leader: peer == PeerId(1),
            last_heard_ms: Some(100),
            matched: None,
            problem: None,
        };
        let checkup = || Checkup {
            version: "0.1.0".to_owned(),
            wall_clock: WallTime(NOW + 5),
            applied: Revision(10_000),
            disk: Ok(DiskSpace { free_bytes: 50 << 30, total_bytes: 100 << 30 }),
            slowest_sync_us: 20_000,
        };
        let examined =
            |peer| Examined { peer, asked_at: WallTime(NOW), answered_at: WallTime(NOW + 10), outcome: Ok(checkup()) };
        Evidence {
            me: PeerId(1),
            leader: Some(PeerId(1)),
            is_confirmed: true,
            revision: Revision(10_000),
            members: peers.map(member).to_vec(),
            peers: peers.map(examined).to_vec(),
            sessions: peers.map(|peer| (peer, 40)).into(),
        }
    }

    /// The checks that find something, and how bad, once `change` is made.
    fn found(change: impl FnOnce(&mut Evidence)) -> Vec<(&'static str, Severity, String)> {
        let mut evidence = evidence();
        change(&mut evidence);
        evidence.findings().into_iter().map(|finding| (finding.check, finding.severity, finding.subject)).collect()
    }

    fn of_last(change: impl FnOnce(&mut Checkup)) -> impl FnOnce(&mut Evidence) {
        |evidence| change(evidence.peers[2].outcome.as_mut().unwrap())
    }

    fn warning(check: &'static str) -> Vec<(&'static str, Severity, String)> {
        vec![(check, Severity::Warning, "peer 7".to_owned())]
    }

    fn error(check: &'static str, subject: &str) -> (&'static str, Severity, String) {
        (check, Severity::Error, subject.to_owned())
    }

    #[test]
    fn peers_that_are_well_have_no_findings() {
        assert_eq!(found(|_| {}), []);
    }

    #[test]
    fn a_peer_that_does_not_answer_is_named_and_so_is_what_is_left() {
        let down = |evidence: &mut Evidence| {
            evidence.members[2].last_heard_ms = Some(9_000);
            evidence.peers[2].outcome = Err("no connection".to_owned());
        };
        assert_eq!(found(down), [error("quorum", "cluster"), error("peer_unreachable", "peer 7")]);
        let lost = |evidence: &mut Evidence| evidence.is_confirmed = false;
        assert_eq!(found(lost), [error("no_leader", "cluster")]);
    }

    #[test]
    fn a_peer_whose_disk_was_lost_is_to_be_replaced() {
        let mut evidence = evidence();
        evidence.peers[2].outcome = Err("it is blank".to_owned());
        evidence.members[2].problem = Some(PeerProblem::Blank { peer: PeerId(7) });
        let finding = evidence.findings().remove(0);
        assert!(finding.advice.contains("remove-peer 7"), "{}", finding.advice);
    }

    #[test]
    fn few_voters_are_told_of_though_all_are_there() {
        for voters in [1, 2] {
            let few = found(|evidence| {
                evidence.members.truncate(voters);
                evidence.peers.truncate(voters);
            });
            assert_eq!(few, [("quorum", Severity::Warning, "cluster".to_owned())]);
        }
        assert_eq!(found(|evidence| evidence.members[2].voter = false).last(), warning("peer_not_voting").last());
    }

    #[test]
    fn a_peer_that_is_behind_is_told_from_a_limit_on() {
        assert_eq!(found(of_last(|peer| peer.applied = Revision(9_000))), []);
        assert_eq!(found(of_last(|peer| peer.applied = Revision(8_999))), warning("peer_lags"));
    }

    #[test]
    fn a_disk_is_low_by_its_size_or_by_what_is_left() {
        let disk = |free_mib: u64, total_mib: u64| {
            found(of_last(|peer| {
                peer.disk = Ok(DiskSpace { free_bytes: free_mib << 20, total_bytes: total_mib << 20 });
            }))
        };
        assert_eq!(disk(1_024, 100_000), [], "a gigabyte is enough for a while, whatever the size");
        assert_eq!(disk(1_023, 100_000), warning("disk_low"));
        assert_eq!(disk(100, 500), [], "a small disk that is mostly free");
        assert_eq!(disk(199, 100_000), [error("disk_low", "peer 7")]);
        assert_eq!(found(of_last(|peer| peer.disk = Err("denied".to_owned()))), warning("disk_low"));
    }

    #[test]
    fn clocks_that_are_apart_are_told_with_the_time_the_question_took_off() {
        for wall in [NOW - 1_000, NOW + 1_010] {
            assert_eq!(found(of_last(|peer| peer.wall_clock = WallTime(wall))), []);
        }
        for wall in [NOW - 1_001, NOW + 1_011] {
            assert_eq!(found(of_last(|peer| peer.wall_clock = WallTime(wall))), warning("clock_skew"));
        }
    }

    #[test]
    fn slow_disks_other_versions_and_idle_hosts_are_told() {
        assert_eq!(found(of_last(|peer| peer.slowest_sync_us = 1_000_000)), warning("disk_slow"));
        let versions = found(of_last(|peer| peer.version = "0.2.0".to_owned()));
        assert_eq!(versions, [("peer_versions", Severity::Warning, "cluster".to_owned())]);
        let hosts = |count| move |evidence: &mut Evidence| evidence.sessions.extend([(PeerId(7), count)]);
        assert_eq!(found(hosts(0)), [], "80 sessions may be so");
        assert_eq!(found(hosts(32_000)), []);
        assert_eq!(found(hosts(32_001)), warning("sessions_uneven"));
        let many = |evidence: &mut Evidence| evidence.sessions = [(PeerId(1), 100), (PeerId(7), 0)].into();
        assert_eq!(found(many), warning("sessions_uneven"));
    }
}
