//! Each rule, broken by a trail that is right but for one record.

use rollcall_ident::{ClusterTime, NodeId, Revision, SessionEpoch, WallTime};
use rollcall_rollout::{Actor, ChainHead, Health, RolloutKind, SkipCause, Stamp};
use rollcall_steps::Milestone;

use super::*;

const ROLLOUT: RolloutId = RolloutId(4);

/// A trail with two members, of which one may be down, and a rollout; and what the nodes have told.
struct Told {
    trail: Trail,
    witness: Witness,
    head: ChainHead,
    now_ms: u64,
    found: Vec<String>,
}

impl Told {
    fn new() -> Self {
        let limits = Limits { max_parallel: 1, max_unavailable: 1, min_healthy_ms: 1_000 };
        let (trail, witness) = (Trail::new(limits), Witness::new(1));
        let mut told = Self { trail, witness, head: ChainHead::default(), now_ms: 0, found: Vec::new() };
        told.entry("coordinator", joined("a", 1));
        told.entry("coordinator", joined("b", 2));
        let target = "acme/app/2.0.0/20260201000000".parse().unwrap();
        let kind = RolloutKind::Update;
        told.entry("op-1", vec![Event::RolloutStarted { rollout: ROLLOUT, group: group(), target, kind }]);
        told
    }

    /// The next record: 10 ms and one revision later.
    fn entry(&mut self, actor: &str, events: Vec<Event>) -> &mut Self {
        self.now_ms += 10;
        let stamp = Stamp { cluster_time: ClusterTime(self.now_ms), wall_time: WallTime(0) };
        let revision = Revision(self.head.revision.0 + 1);
        let record = HistoryRecord { revision, stamp, actor: Actor(actor.to_owned()), reason: None, events };
        let record = ChainedRecord::new(self.head, record);
        self.head = ChainHead { revision, hash: record.hash };
        self.found.extend(self.trail.shown(&record, &self.witness).into_iter().map(|violation| violation.rule));
        self
    }

    fn grant(&mut self, node: &str, fence: u64) -> &mut Self {
        let (rollout, group, id, name) = (ROLLOUT, group(), NodeId([0; 16]), node.parse().unwrap());
        let granted = Event::TokenGranted { rollout, group, node: id, name, fence: Fence(fence) };
        self.entry("coordinator", vec![granted, entered(node, Phase::Granted)])
    }

    fn tell(&mut self, node: &str, fence: u64, milestones: &[Milestone]) -> &mut Self {
        milestones.iter().for_each(|milestone| self.witness.tells(node, Fence(fence), milestone));
        self
    }

    fn enter(&mut self, node: &str, phase: Phase) -> &mut Self {
        self.entry("coordinator", vec![entered(node, phase)])
    }

    /// A whole step of a node, up to the phase in which it is to be proved.
    fn update(&mut self, node: &str, fence: u64) -> &mut Self {
        let started = Milestone::Started(rollcall_steps::Instance {
            pid: 1,
            start_time: 1,
            boot_id: rollcall_ident::BootId([1; 16]),
            release: "acme/app/2.0.0/20260201000000".parse().unwrap(),
        });
        let told = [
            Milestone::Accepted,
            Milestone::Prepared,
            Milestone::Drained,
            Milestone::Stopped { killed: false },
            Milestone::Installed { hook_ran: true },
            started,
            Milestone::Finished(Default::default()),
        ];
        self.grant(node, fence).tell(node, fence, &told);
        let phases = [Phase::Preparing, Phase::Draining, Phase::Stopping, Phase::Installing, Phase::Starting];
        phases.into_iter().for_each(|phase| {
            self.enter(node, phase);
        });
        self.enter(node, Phase::Verifying)
    }

    fn succeed(&mut self, node: &str, fence: u64) -> &mut Self {
        self.now_ms += 1_000;
        self.entry("coordinator", vec![entered(node, Phase::Succeeded), ended(node, fence)])
    }

    #[track_caller]
    fn breaks(&self, rules: &[&str]) {
        assert_eq!(self.found, rules);
    }
}

fn group() -> rollcall_ident::GroupName {
    "app.default".parse().unwrap()
}

fn joined(node: &str, epoch: u64) -> Vec<Event> {
    let to = Some("acme/app/1.0.0/20260101000000".parse().unwrap());
    vec![
        session(node, epoch),
        Event::ReleaseChanged { node: NodeId([0; 16]), name: node.parse().unwrap(), group: group(), from: None, to },
        health(node, Health::Healthy),
    ]
}

fn session(node: &str, epoch: u64) -> Event {
    let (id, name, host) = (NodeId([0; 16]), node.parse().unwrap(), rollcall_ident::PeerId(1));
    Event::SessionOpened { node: id, name, epoch: SessionEpoch(epoch), host }
}

fn closed(node: &str, epoch: u64) -> Event {
    Event::SessionClosed { node: NodeId([0; 16]), name: node.parse().unwrap(), epoch: SessionEpoch(epoch) }
}

fn health(node: &str, to: Health) -> Event {
    let (id, name, detail) = (NodeId([0; 16]), node.parse().unwrap(), String::new());
    Event::HealthChanged { node: id, name, group: group(), from: Health::Unknown, to, detail }
}

fn entered(node: &str, phase: Phase) -> Event {
    let (id, name) = (NodeId([0; 16]), node.parse().unwrap());
    Event::StepEntered { rollout: ROLLOUT, group: group(), node: id, name, phase }
}

fn ended(node: &str, fence: u64) -> Event {
    let (id, name) = (NodeId([0; 16]), node.parse().unwrap());
    Event::TokenEnded { rollout: ROLLOUT, group: group(), node: id, name, fence: Fence(fence) }
}

fn paused() -> Event {
    Event::RolloutPaused { rollout: ROLLOUT, group: group(), cause: PauseCause::Operator }
}

fn failed(node: &str) -> Event {
    Event::StepFailed {
        rollout: ROLLOUT,
        group: group(),
        node: NodeId([0; 16]),
        name: node.parse().unwrap(),
        phase: Phase::Installing,
        reason: "hook_failed".to_owned(),
        detail: String::new(),
        output: String::new(),
    }
}

#[test]
fn a_lawful_rollout_breaks_nothing() {
    Told::new().update("a", 4).succeed("a", 4).update("b", 13).succeed("b", 13).breaks(&[]);
}

#[test]
fn a_session_has_an_epoch_of_its_own() {
    Told::new().entry("coordinator", vec![session("a", 1)]).breaks(&["I-22"]);
}

#[test]
fn who_holds_a_token_is_granted_no_other() {
    Told::new().grant("a", 4).grant("a", 5).breaks(&["I-02", "R12"]);
}

#[test]
fn a_fence_rises() {
    let mut told = Told::new();
    told.grant("a", 4).entry("coordinator", vec![entered("a", Phase::Queued), ended("a", 4)]);
    told.grant("a", 4).breaks(&["R2"]);
}

#[test]
fn one_holds_where_one_may() {
    Told::new().grant("a", 4).grant("b", 5).breaks(&["R4"]);
}

#[test]
fn each_waits_for_its_turn() {
    Told::new().grant("b", 4).breaks(&["R4"]);
    Told::new().entry("coordinator", vec![health("b", Health::Critical)]).grant("b", 5).breaks(&[]);
}

#[test]
fn nobody_is_granted_anything_beside_one_that_is_away_or_not_well() {
    Told::new().entry("coordinator", vec![closed("b", 2)]).grant("a", 5).breaks(&["I-03"]);
    Told::new().entry("coordinator", vec![health("b", Health::Critical)]).grant("a", 5).breaks(&["I-03"]);
    // Who isn't well itself takes nothing more.
    let both = vec![health("b", Health::Critical), health("a", Health::Critical)];
    Told::new().entry("coordinator", both).grant("a", 5).breaks(&[]);
}

#[test]
fn what_was_true_at_the_grant_is_true_at_the_commit_points() {
    let mut told = Told::new();
    told.grant("a", 4).tell("a", 4, &[Milestone::Accepted, Milestone::Prepared]).enter("a", Phase::Preparing);
    told.entry("coordinator", vec![health("b", Health::Critical)]).enter("a", Phase::Draining).breaks(&["I-03"]);
}

#[test]
fn nothing_is_granted_while_a_rollout_stands_or_after_its_end() {
    Told::new().entry("op-2", vec![paused()]).grant("a", 5).breaks(&["I-08"]);
    let ended = Event::RolloutEnded { rollout: ROLLOUT, group: group(), status: RolloutStatus::Stopped };
    Told::new().entry("op-2", vec![ended.clone()]).grant("a", 5).breaks(&["R9"]);
    Told::new().entry("op-2", vec![ended.clone(), ended]).breaks(&["R9"]);
}

#[test]
fn only_an_operator_has_it_go_on() {
    let resumed = || vec![Event::RolloutResumed { rollout: ROLLOUT, group: group() }];
    Told::new().entry("op-2", vec![paused()]).entry("op-3", resumed()).grant("a", 6).breaks(&[]);
    Told::new().entry("op-2", vec![paused()]).entry("coordinator", resumed()).breaks(&["R8"]);
}

#[test]
fn a_held_node_is_left_alone() {
    let (node, name) = (NodeId([0; 16]), "a".parse().unwrap());
    Told::new().entry("op-2", vec![Event::NodeHeld { node, name }]).grant("a", 5).breaks(&["R8"]);
}

#[test]
fn a_step_moves_by_what_its_node_has_told_under_its_fence() {
    let mut told = Told::new();
    told.tell("a", 3, &[Milestone::Accepted]).grant("a", 4).enter("a", Phase::Preparing).breaks(&["I-04"]);
}

#[test]
fn a_step_moves_along_the_edges() {
    let mut told = Told::new();
    told.grant("a", 4).tell("a", 4, &[Milestone::Accepted]).enter("a", Phase::Installing).breaks(&["R12"]);
}

#[test]
fn a_step_is_proved_by_a_process_that_was_well_for_long_enough() {
    let mut told = Told::new();
    let end = || vec![entered("a", Phase::Succeeded), ended("a", 4)];
    told.update("a", 4).entry("coordinator", end()).breaks(&["I-05"]);
    let mut told = Told::new();
    told.update("a", 4).now_ms += 995;
    told.entry("coordinator", vec![health("a", Health::Critical), health("a", Health::Healthy)]);
    told.entry("coordinator", end()).breaks(&["I-05"]);
}

#[test]
fn who_is_away_keeps_its_token() {
    let end = || vec![entered("a", Phase::Skipped), ended("a", 4)];
    let mut told = Told::new();
    told.update("a", 4).entry("coordinator", vec![closed("a", 1)]).entry("coordinator", end()).breaks(&["I-07"]);
    let mut told = Told::new();
    told.update("a", 4).entry("coordinator", vec![closed("a", 1)]).entry("op-2", end()).breaks(&[]);
}

#[test]
fn a_failure_is_heeded() {
    let mut told = Told::new();
    told.update("a", 4).entry("coordinator", vec![failed("a"), entered("a", Phase::Failed), ended("a", 4)]);
    told.breaks(&["R7"]);
    let mut told = Told::new();
    told.update("a", 4).entry("coordinator", vec![failed("a"), entered("a", Phase::Failed), ended("a", 4), paused()]);
    told.breaks(&[]);
}

#[test]
fn the_way_back_visits_each_that_was_updated_the_last_one_first() {
    let back = || Event::RollbackBegun { rollout: ROLLOUT, group: group(), why: String::new() };
    let queued = |node: &str| {
        let (id, name) = (NodeId([0; 16]), node.parse().unwrap());
        Event::StepQueued { rollout: ROLLOUT, group: group(), node: id, name }
    };
    let end = || Event::RolloutEnded { rollout: ROLLOUT, group: group(), status: RolloutStatus::RolledBack };
    let updated = || {
        let mut told = Told::new();
        told.update("a", 4).succeed("a", 4).update("b", 12).succeed("b", 12);
        told.entry("op-2", vec![back(), queued("a"), queued("b")]);
        told
    };
    updated().update("b", 21).succeed("b", 21).update("a", 29).succeed("a", 29).entry("op-3", vec![end()]).breaks(&[]);
    updated().update("a", 21).breaks(&["R10"]);
    updated().update("b", 21).succeed("b", 21).entry("coordinator", vec![end()]).breaks(&["R10"]);
    let skipped = Event::StepSkipped {
        rollout: ROLLOUT,
        group: group(),
        node: NodeId([0; 16]),
        name: "a".parse().unwrap(),
        cause: SkipCause::Operator,
    };
    let left_out = vec![entered("a", Phase::Skipped), skipped, end()];
    updated().update("b", 21).succeed("b", 21).entry("op-3", left_out).breaks(&[]);
}

#[test]
fn a_record_waits_for_the_one_before_it() {
    let mut whole = Told::new();
    let stamp = Stamp { cluster_time: ClusterTime(0), wall_time: WallTime(0) };
    let record = |revision, head, events| {
        let actor = Actor("coordinator".to_owned());
        ChainedRecord::new(head, HistoryRecord { revision: Revision(revision), stamp, actor, reason: None, events })
    };
    let first = record(whole.head.revision.0 + 1, whole.head, vec![session("b", 9)]);
    let second = record(
        first.record.revision.0 + 1,
        ChainHead { revision: first.record.revision, hash: first.hash },
        vec![session("b", 8)],
    );
    assert_eq!(whole.trail.shown(&second, &whole.witness), Vec::new());
    assert_eq!(whole.trail.missing(), 1);
    let found = whole.trail.shown(&first, &whole.witness);
    assert_eq!(found.iter().map(|violation| violation.rule.as_str()).collect::<Vec<_>>(), ["I-22"]);
    assert_eq!(whole.trail.missing(), 0);
}
