//! `apply`: one entry in, one outcome out. Every safety rule is checked here, whoever proposed the entry.
//!
//! A [`Transition`] is one entry at work. Each family of commands has a file of its own; all of them go through the
//! verbs in `step.rs` to move a step, so the rules of a step stand in one place.
//!
//! # Invariants
//! - A rejected command changes nothing but the clock and what was due by it.
//! - After every entry the state passes the linter ([`crate::check()`]); debug builds assert it.
//!
//! # Deliberately absent
//! Choices. Who goes next is the planner's; `apply` never calls it.

mod back;
mod batch;
mod channel;
mod cluster;
mod deadline;
mod group;
mod index;
mod member;
mod operator;
mod peers;
mod proof;
mod recovery;
mod replace;
mod rollout;
mod session;
mod settle;
mod step;
mod step_report;
mod suppose;
mod verbs;
mod window;

pub(crate) use index::Standing;
pub use recovery::{Recovered, Recovery, recovered_revision};

use std::collections::BTreeSet;

use bincode::{Decode, Encode};
use rollcall_ident::{ClusterTime, GroupName, NodeId, Revision};

use crate::state::Answered;
use crate::{Actor, Command, Event, HistoryRecord, LogEntry, Proposal, Rejection, Reply, Stamp, State};

/// What an entry brought about.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Applied {
    /// The index of the entry; of the first one where a retry was answered.
    pub revision: Revision,
    /// The answer.
    pub outcome: Result<Reply, Rejection>,
    /// What has happened, for the history.
    pub record: HistoryRecord,
}

/// One entry at work.
pub(crate) struct Transition<'a> {
    state: &'a mut State,
    revision: Revision,
    now: Stamp,
    actor: &'a Actor,
    reason: Option<&'a str>,
    expected_revision: Option<Revision>,
    events: Vec<Event>,
    /// Groups whose rollouts must be looked at before the entry is done.
    touched: BTreeSet<GroupName>,
    /// Members whose steps must be.
    touched_members: BTreeSet<(GroupName, NodeId)>,
}

impl State {
    /// Applies the entry at `revision`.
    ///
    /// # Panics
    /// In debug builds, if the new state breaks an invariant: a defect of this crate.
    pub fn apply(&mut self, revision: Revision, entry: &LogEntry) -> Applied {
        debug_assert!(revision > self.revision, "revision {revision} after {}", self.revision);
        // DETERMINISM: a leader whose clock lags behind what was applied can't turn time back.
        let now = Stamp {
            cluster_time: self.now.cluster_time.max(entry.stamp.cluster_time),
            wall_time: entry.stamp.wall_time,
        };
        self.now = now;
        self.revision = revision;
        let proposal = &entry.proposal;
        let (actor, reason) = (&proposal.actor, proposal.reason.as_deref());
        let mut transition = Transition::begin(self, revision, now, actor, reason, proposal.expected_revision);
        transition.fire_deadlines();
        let (answered_at, outcome) = transition.answer(proposal);
        transition.fire_deadlines();
        transition.settle();
        let record = transition.into_record();
        let violations = if cfg!(debug_assertions) { crate::check(self) } else { Vec::new() };
        assert!(violations.is_empty(), "revision {revision} breaks invariants: {violations:?}\nby {proposal:?}");
        self.chain(&record);
        Applied { revision: answered_at, outcome, record }
    }
}

impl<'a> Transition<'a> {
    fn begin(
        state: &'a mut State,
        revision: Revision,
        now: Stamp,
        actor: &'a Actor,
        reason: Option<&'a str>,
        expected_revision: Option<Revision>,
    ) -> Self {
        let (events, touched, touched_members) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
        Self { state, revision, now, actor, reason, expected_revision, events, touched, touched_members }
    }

    /// What has happened.
    fn into_record(self) -> HistoryRecord {
        HistoryRecord {
            revision: self.revision,
            stamp: self.now,
            actor: self.actor.clone(),
            reason: self.reason.map(str::to_owned),
            events: self.events,
        }
    }
}

impl Transition<'_> {
    /// The outcome of the proposal: the first one, where it is a retry.
    fn answer(&mut self, proposal: &Proposal) -> (Revision, Result<Reply, Rejection>) {
        let Some(id) = &proposal.request_id else {
            return (self.revision, self.run_or_undo(&proposal.command));
        };
        if let Some(answered) = self.state.requests.get(id) {
            let outcome = if answered.command == proposal.command {
                answered.outcome.clone()
            } else {
                Err(Rejection::RequestIdReused(id.to_string()))
            };
            return (answered.revision, outcome);
        }
        let outcome = self.run_or_undo(&proposal.command);
        let answered =
            Answered { revision: self.revision, command: proposal.command.clone(), outcome: outcome.clone() };
        self.state.requests.remember(id.clone(), answered);
        (self.revision, outcome)
    }

    /// Runs the command; where it is rejected, everything is as it was. The copy of the state costs nothing, but what is
    /// shared must be copied to be changed: commands of every step do without.
    fn run_or_undo(&mut self, command: &Command) -> Result<Reply, Rejection> {
        if cfg!(not(debug_assertions)) && refuses_first(command) {
            return self.run(command);
        }
        let (before, event_count) = (self.state.clone(), self.events.len());
        let (touched, touched_members) = (self.touched.clone(), self.touched_members.clone());
        let outcome = self.run(command);
        if outcome.is_err() {
            assert!(!refuses_first(command) || *self.state == before, "{command:?} was refused and changed something");
            *self.state = before;
            self.events.truncate(event_count);
            self.touched = touched;
            self.touched_members = touched_members;
        }
        outcome
    }

    fn run(&mut self, command: &Command) -> Result<Reply, Rejection> {
        match command {
            Command::InitCluster { cluster_id } => self.init_cluster(*cluster_id),
            Command::AddPeer { address } => self.add_peer(address),
            Command::RemovePeer { peer } => self.remove_peer(*peer),
            Command::MovePeer { peer, address } => self.move_peer(*peer, address),
            Command::AdvanceClock => Ok(Reply::Done),
            Command::ApplyGroup { patch } => self.apply_group(patch),
            Command::DeleteGroup { group } => self.delete_group(group),
            Command::CreateChannel { channel } => self.create_channel(channel),
            Command::DeleteChannel { channel } => self.delete_channel(channel),
            Command::Promote { releases, channel } => self.promote(releases, channel),
            Command::Demote { releases, channel } => self.demote(releases, channel),
            Command::AddQuarantine { release } => self.add_quarantine(release),
            Command::RemoveQuarantine { release } => self.remove_quarantine(release),
            Command::AddWindow { group, window } => self.add_window(group, window),
            Command::RemoveWindow { group, window } => self.remove_window(group, *window),
            Command::CreateFreeze { groups, from, until } => self.create_freeze(groups, *from, *until),
            Command::LiftFreeze { freeze } => self.lift_freeze(*freeze),
            Command::StartRollout { group, target, digest, kind } => {
                self.start_rollout_by_request(group, target, *digest, *kind)
            }
            Command::UndoRollout { group, to } => self.undo_rollout(group, *to),
            Command::Steer { rollout, verb } => self.steer(*rollout, verb),
            Command::GrantToken { rollout, node, based_on: _ } => self.grant_token(*rollout, *node),
            Command::OpenSession { host, hello } => self.open_session(*host, hello),
            Command::CloseSession { node, epoch, silent_for } => self.close_session(*node, *epoch, *silent_for),
            Command::OrphanSessions { host, silent_for, up_to } => self.orphan_sessions(*host, *silent_for, *up_to),
            Command::Reports { reports } => Ok(self.take_reports(reports)),
            Command::RemoveNode { node, force } => self.remove_node(*node, *force),
            Command::HoldNode { node, until } => self.hold_node(*node, *until),
            Command::ReleaseNode { node } => self.release_node(*node),
            Command::SetHealth { node, is_healthy } => self.set_health(*node, *is_healthy),
            Command::RevokeToken { node, force } => self.revoke_token(*node, *force),
            Command::ReplaceNode { old, new, force } => self.replace_node(*old, *new, *force),
            Command::DescribePeer { peer, facts } => self.describe_peer(*peer, facts),
            Command::RaiseFeatureLevel { level } => self.raise_feature_level(*level),
            #[cfg(feature = "next-level")]
            Command::TryLevel => self.try_level(),
            Command::NotePeers { leader, standings } => self.note_peers(*leader, standings),
        }
    }

    fn emit(&mut self, event: Event) {
        self.events.push(event);
    }

    fn touch(&mut self, group: &GroupName) {
        self.touched.insert(group.clone());
    }

    fn clock(&self) -> ClusterTime {
        self.now.cluster_time
    }

    /// Refuses where the caller looked at an older version of what it changes.
    fn expect_unchanged_since(&self, modified: Revision) -> Result<(), Rejection> {
        match self.expected_revision {
            Some(expected) if modified > expected => Err(Rejection::RevisionMoved { expected, actual: modified }),
            _ => Ok(()),
        }
    }
}

/// Whether a command is checked as a whole before it changes anything: those that come with every step.
fn refuses_first(command: &Command) -> bool {
    matches!(
        command,
        Command::Reports { .. } | Command::GrantToken { .. } | Command::AdvanceClock | Command::CloseSession { .. }
    )
}
