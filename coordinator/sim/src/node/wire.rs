//! Between the wire and the step machine's types, as the agent has it.

use rollcall_ident::{Fence, ReleaseIdent};
use rollcall_proto::v1;
use rollcall_proto::v1::step_report::Event;
use rollcall_steps::{Go, Instance, Milestone, Phase, Reason, StepOpened};

use super::GROUP;

/// What the coordinator wants of the service.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupOrders {
    /// A release to fetch.
    pub prefetch: Option<ReleaseIdent>,
    /// The step, how far it may go (none: back), and where the log has it.
    pub step: Option<OrderedStep>,
    /// Whether who gave them knew of every grant that this node has seen.
    pub are_current: bool,
}

/// The step that is ordered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderedStep {
    /// As it is to be opened.
    pub opened: StepOpened,
    /// How far it may go; none: it is to be turned back.
    pub go: Option<Go>,
    /// Where the log has it.
    pub logged: Option<Phase>,
}

impl OrderedStep {
    /// What sets one try of a step apart from every other.
    pub fn key(&self) -> (Fence, u32) {
        (self.opened.fence, self.opened.attempt)
    }
}

/// Orders for our group. What can't be read is a defect of the coordinator.
pub fn orders(wire: &v1::Orders, highest: Fence) -> GroupOrders {
    let group = wire.groups.iter().find(|group| group.group == GROUP);
    GroupOrders {
        prefetch: group.and_then(|group| release(&group.prefetch)),
        step: group.and_then(|group| group.step.as_ref()).map(ordered_step),
        are_current: wire.revision >= highest.0,
    }
}

fn release(text: &str) -> Option<ReleaseIdent> {
    (!text.is_empty()).then(|| text.parse().expect("the coordinator sends idents"))
}

fn ordered_step(wire: &v1::StepOrder) -> OrderedStep {
    let reasons = [Reason::Update, Reason::Rollback, Reason::CatchUp];
    let opened = StepOpened {
        fence: Fence(wire.fence),
        attempt: wire.attempt,
        rollout: wire.rollout_id.parse().expect("the coordinator sends ids"),
        from: release(&wire.from),
        to: release(&wire.to).expect("a step has a target"),
        digest: None,
        reason: reasons.into_iter().find(|reason| reason.name() == wire.reason).expect("a reason that we know"),
        max_reboots: wire.max_reboots,
        reboots: wire.reboots,
    };
    let go = match wire.go() {
        v1::Go::Prepare => Some(Go::Prepare),
        v1::Go::Drain => Some(Go::Drain),
        v1::Go::Replace => Some(Go::Replace),
        v1::Go::Finish => Some(Go::Finish),
        v1::Go::TurnBack => None,
        v1::Go::Unspecified => panic!("the coordinator says how far"),
    };
    OrderedStep { opened, go, logged: logged(wire.phase()) }
}

fn logged(phase: v1::Phase) -> Option<Phase> {
    match phase {
        v1::Phase::Preparing => Some(Phase::Preparing),
        v1::Phase::Draining => Some(Phase::Draining),
        v1::Phase::Stopping => Some(Phase::Stopping),
        v1::Phase::Installing => Some(Phase::Installing),
        v1::Phase::Rebooting => Some(Phase::Rebooting),
        v1::Phase::Starting => Some(Phase::Starting),
        v1::Phase::Verifying => Some(Phase::Verifying),
        v1::Phase::Unspecified
        | v1::Phase::Queued
        | v1::Phase::Granted
        | v1::Phase::Succeeded
        | v1::Phase::Failed
        | v1::Phase::Skipped => None,
    }
}

/// A milestone of a step, as a report.
pub fn step_report(opened: &StepOpened, milestone: &Milestone) -> v1::report::Kind {
    let event = match milestone {
        Milestone::Accepted => Event::Accepted(v1::Accepted {}),
        Milestone::Prepared => Event::Prepared(v1::Prepared {}),
        Milestone::Drained => Event::Drained(v1::Drained {}),
        Milestone::Stopped { killed } => Event::Stopped(v1::Stopped { killed: *killed }),
        Milestone::Installed { hook_ran } => Event::Installed(v1::Installed { hook_ran: *hook_ran }),
        Milestone::RebootBegun { boot_id, asked_for } => {
            Event::RebootBegun(v1::RebootBegun { boot_id: boot_id.to_string(), asked_for: *asked_for })
        }
        Milestone::Started(started) => Event::Started(v1::Started { instance: Some(instance(started)) }),
        Milestone::Finished(_) => Event::Finished(v1::Finished::default()),
        Milestone::TurnedBack => Event::TurnedBack(v1::TurnedBack {}),
        Milestone::Failed { phase: failed, failure } => Event::Failed(v1::Failed {
            phase: phase(*failed).into(),
            reason: failure.reason.name().to_owned(),
            detail: failure.detail.clone(),
            output: failure.output.clone(),
        }),
    };
    v1::report::Kind::Step(v1::StepReport {
        group: GROUP.to_owned(),
        rollout_id: opened.rollout.to_string(),
        fence: opened.fence.0,
        attempt: opened.attempt,
        event: Some(event),
    })
}

/// A process, as reports name it.
pub fn instance(instance: &Instance) -> v1::Instance {
    v1::Instance {
        pid: instance.pid,
        start_time: instance.start_time,
        boot_id: instance.boot_id.to_string(),
        release: instance.release.to_string(),
    }
}

fn phase(phase: Phase) -> v1::Phase {
    match phase {
        Phase::Preparing => v1::Phase::Preparing,
        Phase::Draining => v1::Phase::Draining,
        Phase::Stopping => v1::Phase::Stopping,
        Phase::Installing => v1::Phase::Installing,
        Phase::Rebooting => v1::Phase::Rebooting,
        Phase::Starting => v1::Phase::Starting,
        Phase::Verifying => v1::Phase::Verifying,
    }
}

/// Of the release, whatever it is.
pub fn prefetched(release: &ReleaseIdent) -> v1::report::Kind {
    v1::report::Kind::Prefetch(v1::PrefetchReport {
        group: GROUP.to_owned(),
        release: release.to_string(),
        digest: "ab".repeat(32),
        ..v1::PrefetchReport::default()
    })
}
