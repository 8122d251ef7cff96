//! What was promised, held against what was seen.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::Result;
use rollcall_jepsen::availability::{Availability, Outage};
use rollcall_jepsen::check::{
    Verdict, accepted_release, fences, hook_journal, lost_writes, no_repeat, no_skip, one_outcome, order, runs, serial,
    width,
};
use rollcall_jepsen::history::{EventKind, History};
use rollcall_jepsen::redis::ledger::Write;
use rollcall_jepsen::redis::sampler::LINK_DOWN;
use rollcall_proto::v1::Rollout;

use crate::cutter::{Cut, Done};
use crate::plan::Plan;
use crate::site::{NODE_COUNT, Site};

/// The budget of the group.
const BUDGET: usize = 1;

/// How long after its primary answers again a replica may still be without its link: it asks once a second.
const LINKED_WITHIN: Duration = Duration::from_secs(2);

/// All that was seen of one rollout.
pub struct Evidence<'a> {
    /// Just before it.
    pub begun_at: Duration,
    /// As the log has it.
    pub rollout: Rollout,
    /// All writes.
    pub writes: Vec<Write>,
    /// What is there at the end.
    pub read_back: BTreeMap<String, Option<String>>,
    /// What was to be done.
    pub plan: &'a Plan,
    /// What was done.
    pub done: Done,
}

/// The judgements.
pub fn judge(site: &Site, evidence: &Evidence) -> Result<Vec<Verdict>> {
    let history = site.witness.history();
    let seen = site.seen.snapshot();
    let nodes = site.node_names();
    let target = &site.releases.second;
    let release = target.rsplit('/').next().unwrap_or(target);
    let least_looks = seen.looks.values().copied().min().unwrap_or(0);
    let rollout_id = &evidence.rollout.rollout_id;
    let outages = outages_by_themselves(&seen, evidence.begun_at, site);
    let waiting = seen.outages_since(evidence.begun_at).len() - outages.len();
    Ok(vec![
        accepted_release::check(&seen.latest, release, NODE_COUNT),
        one_outcome::check(&evidence.rollout, &nodes),
        hook_journal::check(&site.journals()?, &history.records),
        with_note(width::check(&outages, least_looks, BUDGET), waiting),
        lost_writes::check(&evidence.writes, &evidence.read_back, &site.ledger.missed()),
        serial::check(&history, target),
        order::check(&turns(&history, rollout_id, &seen)),
        no_skip::check(&history, rollout_id, target, &nodes),
        no_repeat::check(&history),
        runs::check(&history, target, &nodes),
        fences::check(&history, &BTreeSet::new()),
        cuts_were_done(evidence, &history),
        reboots_were_done(evidence),
    ])
}

/// A replica whose primary has no power waits for it, or is elected: that is the primary's outage, not one more.
fn outages_by_themselves(seen: &Availability, since: Duration, site: &Site) -> Vec<Outage> {
    let outages = seen.outages_since(since);
    let primary_of = |outage: &Outage| {
        let address = outage.why.strip_prefix(LINK_DOWN)?.trim();
        site.members.iter().find(|member| member.address.to_string() == address).map(|member| member.name.clone())
    };
    let belongs_to_another = |outage: &Outage| {
        primary_of(outage).is_some_and(|primary| {
            outages.iter().any(|other| {
                other.member == primary
                    && other.from <= outage.from + LINKED_WITHIN
                    && other.to.is_none_or(|to| outage.from <= to + LINKED_WITHIN)
            })
        })
    };
    outages.iter().filter(|outage| !belongs_to_another(outage)).cloned().collect()
}

/// What was left out is told.
fn with_note(mut verdict: Verdict, waiting: usize) -> Verdict {
    if waiting > 0 {
        verdict.evidence.push_str(&format!("; {waiting} times a replica waited for its primary, which had no power"));
    }
    verdict
}

/// Each node's turn begins with its first hook, before anything of its own step could have changed its role.
fn turns(history: &History, rollout_id: &str, seen: &Availability) -> Vec<order::Turn> {
    let mut begun = BTreeSet::new();
    history
        .records
        .iter()
        .filter(|record| record.event == EventKind::Begin && record.rollout == rollout_id)
        .filter(|record| begun.insert(record.node.clone()))
        .map(|record| order::Turn {
            node: record.node.clone(),
            at: record.at,
            primary: seen.was_primary(&record.node, record.at),
        })
        .collect()
}

/// A run without its cuts proves nothing: each was done, in the phase that it was meant for or not at all, and seen to
/// bite.
fn cuts_were_done(evidence: &Evidence, history: &History) -> Verdict {
    let promise = "every cut that was planned was done where it was meant to be";
    let (plan, done) = (evidence.plan, &evidence.done);
    let mut missing: Vec<String> = plan
        .nodes
        .keys()
        .filter(|point| !done.nodes.contains_key(*point))
        .map(|(node, moment)| format!("{node}, {}", moment.name()))
        .collect();
    if done.peers.len() < plan.peers.len() {
        missing.push(format!("{} of {} peers", plan.peers.len() - done.peers.len(), plan.peers.len()));
    }
    missing.extend(done.nodes.values().filter(|cut| !came_back_in_another_boot(cut, history)).map(|cut| {
        let (node, moment) = &cut.point;
        format!("{node} was not seen in another boot after {}", moment.name())
    }));
    match missing.first() {
        Some(first) => Verdict::unknown(promise, format!("not so: {first} ({} in all)", missing.len())),
        None => Verdict::held(promise, format!("{} of nodes, {} of peers", done.nodes.len(), done.peers.len())),
    }
}

fn came_back_in_another_boot(cut: &Cut, history: &History) -> bool {
    let of_node = history.records.iter().filter(|record| record.node == cut.machine);
    let after = of_node.skip_while(|record| record.boot != cut.boot);
    after.into_iter().any(|record| !record.boot.is_empty() && record.boot != cut.boot)
}

fn reboots_were_done(evidence: &Evidence) -> Verdict {
    let rebooted: BTreeSet<&String> = evidence.done.reboots.iter().collect();
    let meant: BTreeSet<&String> = evidence.plan.rebooting.iter().collect();
    let promise = format!("{} nodes rebooted themselves in install", meant.len());
    if rebooted != meant || evidence.done.reboots.len() != meant.len() {
        return Verdict::unknown(&promise, format!("{:?} did", evidence.done.reboots));
    }
    Verdict::held(&promise, meant.into_iter().cloned().collect::<Vec<_>>().join(" "))
}
