//! An operator: makes the cluster, says what the schedule has them say, and at the end does what a person would until
//! everything stands where it should.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use rollcall_ident::RolloutId;
use rollcall_proto::v1;
use tokio::time::{Instant, sleep};

use crate::call::{self, Caller, Outcome};
use crate::judge::{Judge, Violation};
use crate::node::RELEASES;
use crate::peer::address;
use crate::schedule::Verb;
use crate::setup::Setup;

/// How far the run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The cluster and the group are being made.
    Founding,
    /// Things happen.
    Troubled,
    /// Nothing goes wrong any more; the operator brings it to an end.
    Settling,
    /// Everything stands where it should.
    Settled,
}

/// What the run and the operator tell each other.
pub struct Desk {
    /// How far the run is.
    pub stage: Cell<Stage>,
    /// What is to be said.
    pub said: RefCell<VecDeque<Verb>>,
    /// Peers whose disk is to be exchanged for an empty one.
    pub emptied: RefCell<Vec<usize>>,
    /// What it waits for, for who asks why it doesn't end.
    pub waits_for: RefCell<String>,
}

impl Default for Desk {
    fn default() -> Self {
        Self {
            stage: Cell::new(Stage::Founding),
            said: RefCell::default(),
            emptied: RefCell::default(),
            waits_for: RefCell::default(),
        }
    }
}

/// How long a new process must have been well, by the group's policy.
pub const MIN_HEALTHY_MS: u64 = 1_000;

/// So many of the last writes are sent once more in the end, when peers have lost and restored what they had.
const REPEATED: usize = 6;

/// How often the operator looks.
const LOOK: Duration = Duration::from_millis(200);

/// Works until the end.
pub async fn run(setup: Rc<Setup>, desk: Rc<Desk>, judge: Judge) -> turmoil::Result {
    let peers: Vec<_> = (1..=setup.peers).map(|n| address(&format!("p{n}"))).collect();
    let caller = Caller::new(peers, setup.seed, judge.clone());
    let mut operator = Operator { setup, desk, judge, caller };
    operator.found().await;
    operator.desk.stage.set(Stage::Troubled);
    while operator.desk.stage.get() == Stage::Troubled {
        let next = operator.desk.said.borrow_mut().pop_front();
        match next {
            Some(verb) => operator.say(verb).await,
            None => sleep(LOOK).await,
        }
    }
    operator.settle().await;
    operator.desk.stage.set(Stage::Settled);
    std::future::pending::<()>().await;
    Ok(())
}

struct Operator {
    setup: Rc<Setup>,
    desk: Rc<Desk>,
    judge: Judge,
    caller: Caller,
}

impl Operator {
    /// Makes the cluster and the group, and waits for the nodes.
    async fn found(&mut self) {
        let others: Vec<_> = (2..=self.setup.peers).map(|n| address(&format!("p{n}"))).collect();
        loop {
            let made = call::init(&address("p1"), others.clone()).await;
            self.judge.note("op", format_args!("makes the cluster: {:?}", made.as_ref().map_err(tonic::Status::code)));
            if made.is_ok() {
                break;
            }
            sleep(LOOK).await;
        }
        let policy = v1::Policy {
            max_parallel: Some(self.setup.max_parallel.to_string()),
            max_unavailable: Some(self.setup.max_unavailable.to_string()),
            min_healthy_time_ms: Some(MIN_HEALTHY_MS),
            healthy_deadline_ms: Some(20_000),
            ready_timeout_ms: Some(20_000),
            drain_timeout_ms: Some(20_000),
            reboot_timeout_ms: Some(30_000),
            progress_deadline_ms: Some(90_000),
            stale_after_ms: Some(self.setup.lost_after_ms / 3),
            lost_after_ms: Some(self.setup.lost_after_ms),
            failure_action: Some(self.setup.failure_action.to_owned()),
            ..v1::Policy::default()
        };
        while !matches!(self.caller.apply_group(policy.clone()).await, Outcome::Done(_)) {
            sleep(LOOK).await;
        }
        loop {
            let group = self.caller.group().await;
            let present = group.map_or(0, |group| group.members.iter().filter(|it| it.presence == "present").count());
            if present == self.setup.nodes {
                return;
            }
            sleep(LOOK).await;
        }
    }

    /// Takes a peer out, gives its machine an empty disk, and takes it in again: under another id.
    async fn replace(&mut self, peer: usize) {
        if self.caller.remove_peer(peer).await {
            self.desk.emptied.borrow_mut().push(peer);
            sleep(Duration::from_secs(2)).await;
            self.caller.add_peer(peer).await;
        }
    }

    /// Who isn't a member in the end is taken in.
    async fn complete_peers(&mut self) {
        for peer in 0..self.setup.peers {
            while !self.caller.is_member(peer).await {
                // What a removal that was cut off has left.
                self.caller.remove_peer(peer).await;
                self.desk.emptied.borrow_mut().push(peer);
                sleep(Duration::from_secs(3)).await;
                let is_added = self.caller.add_peer(peer).await;
                self.wait(format!("p{} is taken in: {is_added}", peer + 1)).await;
            }
        }
    }

    /// Says something, where it makes sense at all.
    async fn say(&mut self, verb: Verb) {
        if let Verb::ReplacePeer(peer) = verb {
            return self.replace(peer).await;
        }
        if let Verb::Repeat(back) = verb {
            // It may be heard for the first time.
            self.caller.unanswered(back).into_iter().for_each(|id| self.may_go_on(&id));
        }
        if matches!(verb, Verb::Hold(_) | Verb::Release(_) | Verb::Repeat(_)) {
            self.caller.say(verb, &v1::Rollout::default()).await;
            return;
        }
        let Some(rollout) = self.caller.rollout().await else {
            if let Verb::Start(release) = verb {
                self.caller.start(release).await;
            }
            return;
        };
        let Ok(id) = rollout.rollout_id.parse::<RolloutId>() else { return };
        if matches!(verb, Verb::Resume | Verb::Retry | Verb::Abort | Verb::Promote) {
            self.may_go_on(&rollout.rollout_id);
        }
        let outcome = self.caller.say(verb, &rollout).await;
        if let (Verb::Pause | Verb::Stop, Outcome::Done(revision)) = (verb, &outcome) {
            self.judge.witness(|witness, _| {
                witness.stands_still(id, *revision);
                None
            });
        }
    }

    /// Does what a person would, until nothing is open; then one more rollout must succeed.
    async fn settle(&mut self) {
        self.complete_peers().await;
        for back in 0..REPEATED {
            self.say(Verb::Repeat(back)).await;
        }
        for node in 0..self.setup.nodes {
            self.caller.say_until_answered(Verb::Release(node)).await;
        }
        self.end_what_is_open().await;
        let last = RELEASES.len() - 1;
        while !matches!(self.caller.start(last).await, Outcome::Done(_)) {
            self.wait("the last rollout is taken".to_owned()).await;
        }
        self.end_what_is_open().await;
        loop {
            let Some(group) = self.caller.group().await else { continue };
            let members = &group.members;
            if members.len() == self.setup.nodes && members.iter().all(|member| member.release == RELEASES[last]) {
                return;
            }
            let run: Vec<_> = members.iter().map(|member| (&member.node_name, &member.release)).collect();
            self.judge.accuse(Violation::new("R5", format_args!("the last rollout has ended, and nodes run {run:?}")));
            return;
        }
    }

    /// A rollout that moves is let be; one that stands still says why, and is helped.
    async fn end_what_is_open(&mut self) {
        let mut resumed = BTreeSet::new();
        loop {
            let Some(rollout) = self.caller.rollout().await else { return };
            let waits =
                rollout.waiting_on.as_ref().map(|it| format!("{}: {}", it.reason, it.detail)).unwrap_or_default();
            let causes = rollout.pause_causes.join(", ");
            match rollout.status() {
                v1::RolloutStatus::Paused if causes.is_empty() => {
                    self.judge.accuse(Violation::new(
                        "R13",
                        format_args!("{} is paused without a cause", rollout.rollout_id),
                    ));
                    return;
                }
                v1::RolloutStatus::Paused if rollout.pause_causes.iter().any(|cause| cause.ends_with("_failed")) => {
                    // Where a member that was brought back went bad there is nothing to try again.
                    if let Outcome::Refused(_) = self.go_on(Verb::Retry, &rollout).await {
                        self.go_on(Verb::Resume, &rollout).await;
                    }
                }
                v1::RolloutStatus::Paused => {
                    // It got nowhere once more: what it waits for, such as a node that was left down by a step that somebody
                    // skipped, only the way back brings up.
                    let is_stuck = causes == "progress_deadline" && !resumed.insert(rollout.rollout_id.clone());
                    let turned = is_stuck && matches!(self.go_on(Verb::Abort, &rollout).await, Outcome::Done(_));
                    if !turned {
                        self.go_on(Verb::Resume, &rollout).await;
                    }
                }
                v1::RolloutStatus::AwaitingPromotion => {
                    self.go_on(Verb::Promote, &rollout).await;
                }
                v1::RolloutStatus::Running | v1::RolloutStatus::RollingBack => {
                    let is_held = rollout.steps.iter().any(|step| step.holds_token);
                    if waits.is_empty() && !is_held {
                        self.judge.note("op", format_args!("{} says nothing of what it waits for", rollout.rollout_id));
                    }
                }
                _ => return,
            }
            self.wait(format!("{} is {:?} {causes} {waits}", rollout.rollout_id, rollout.status())).await;
        }
    }

    async fn go_on(&mut self, verb: Verb, rollout: &v1::Rollout) -> Outcome {
        self.may_go_on(&rollout.rollout_id);
        self.caller.say(verb, rollout).await
    }

    /// From now on nobody knows whether this rollout stands still.
    fn may_go_on(&self, rollout: &str) {
        let Ok(id) = rollout.parse::<RolloutId>() else { return };
        self.judge.witness(|witness, _| {
            witness.may_go_on(id);
            None
        });
    }

    async fn wait(&mut self, what: String) {
        if *self.desk.waits_for.borrow() != what {
            self.judge.note("op", format_args!("waits: {what}"));
            *self.desk.waits_for.borrow_mut() = what;
        }
        let until = Instant::now() + Duration::from_secs(1);
        tokio::time::sleep_until(until).await;
    }
}
