//! Between the wire and our own types. Wire types stop here.

use rollcall_ident::{Fence, GroupName, ParseError, RolloutId};
use rollcall_proto::v1;
use rollcall_proto::v1::step_report::Event;
use rollcall_steps::{Go, Instance, Milestone, Phase, Reason, StepOpened};

use super::outbox::{PrefetchOutcome, Report, StepMilestone};
use crate::service::{GroupOrders, Health, HealthRules, OrderedStep, ServiceStatus, Target};

/// Orders that this agent can't understand.
#[derive(Debug, thiserror::Error)]
pub(super) enum OrderError {
    #[error(transparent)]
    Malformed(#[from] ParseError),
    #[error("{0:?} is not a reason that this agent knows: update, rollback, catch-up")]
    Reason(String),
    #[error("{0} is not a `go` that this agent knows")]
    Go(i32),
}

pub(super) fn group_orders(wire: &v1::GroupOrders) -> Result<(GroupName, GroupOrders), OrderError> {
    let prefetch = match wire.prefetch.as_str() {
        "" => None,
        release => Some(Target {
            release: release.parse()?,
            digest: optional(&wire.prefetch_digest)?,
            config: given(&wire.prefetch_config),
        }),
    };
    let orders = GroupOrders {
        prefetch,
        step: wire.step.as_ref().map(ordered_step).transpose()?,
        health: HealthRules {
            warning_is_good: wire.on_warning == "pass",
            success_threshold: wire.success_threshold.max(1),
            failure_threshold: wire.failure_threshold.max(1),
        },
        // Known where they meet the node's fence.
        are_current: false,
    };
    Ok((wire.group.parse()?, orders))
}

fn ordered_step(wire: &v1::StepOrder) -> Result<OrderedStep, OrderError> {
    let opened = StepOpened {
        fence: Fence(wire.fence),
        attempt: wire.attempt,
        rollout: wire.rollout_id.parse::<RolloutId>()?,
        from: optional(&wire.from)?,
        to: wire.to.parse()?,
        digest: optional(&wire.digest)?,
        reason: reason(&wire.reason)?,
        max_reboots: wire.max_reboots,
        reboots: wire.reboots,
    };
    let go = match v1::Go::try_from(wire.go) {
        Ok(v1::Go::Prepare) => Some(Go::Prepare),
        Ok(v1::Go::Drain) => Some(Go::Drain),
        Ok(v1::Go::Replace) => Some(Go::Replace),
        Ok(v1::Go::Finish) => Some(Go::Finish),
        Ok(v1::Go::TurnBack) => None,
        Ok(v1::Go::Unspecified) | Err(_) => return Err(OrderError::Go(wire.go)),
    };
    Ok(OrderedStep { opened, config: given(&wire.config), go, cut_drain: wire.cut_drain, logged: logged(wire.phase()) })
}

/// Empty on the wire: not given.
fn given(text: &str) -> Option<String> {
    Some(text.to_owned()).filter(|text| !text.is_empty())
}

/// None: the log has nothing of it from the node yet.
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

fn reason(text: &str) -> Result<Reason, OrderError> {
    [Reason::Update, Reason::Rollback, Reason::CatchUp]
        .into_iter()
        .find(|reason| reason.name() == text)
        .ok_or_else(|| OrderError::Reason(text.to_owned()))
}

fn optional<T: std::str::FromStr<Err = ParseError>>(text: &str) -> Result<Option<T>, ParseError> {
    if text.is_empty() { Ok(None) } else { text.parse().map(Some) }
}

pub(super) fn report(number: u64, report: Report) -> v1::AgentMessage {
    let kind = match report {
        Report::Status(status) => v1::report::Kind::Status(service_status(*status)),
        Report::Step(step) => v1::report::Kind::Step(step_report(*step)),
        Report::Prefetch(outcome) => v1::report::Kind::Prefetch(prefetch_report(*outcome)),
    };
    let report = v1::Report { number, kind: Some(kind) };
    v1::AgentMessage { kind: Some(v1::agent_message::Kind::Report(report)) }
}

pub(super) fn service_status(status: ServiceStatus) -> v1::ServiceStatus {
    let health = match status.health {
        Some(Health::Healthy) => v1::Health::Healthy,
        Some(Health::Warning) => v1::Health::Warning,
        Some(Health::Critical) => v1::Health::Critical,
        Some(Health::Unknown) => v1::Health::Unknown,
        None => v1::Health::Unprovisioned,
    };
    v1::ServiceStatus {
        group: status.group.to_string(),
        release: text(status.release),
        instance: status.instance.map(instance),
        health: health.into(),
        health_detail: status.detail,
        primary: status.primary,
        priority: status.priority,
        prefetched: text(status.prefetched),
    }
}

fn prefetch_report(outcome: PrefetchOutcome) -> v1::PrefetchReport {
    v1::PrefetchReport {
        group: outcome.group.to_string(),
        release: outcome.release.to_string(),
        failure: outcome.failure,
        detail: outcome.detail,
        digest: text(outcome.digest),
        no_rollback: !outcome.rollback,
    }
}

fn step_report(step: StepMilestone) -> v1::StepReport {
    let event = match step.milestone {
        Milestone::Accepted => Event::Accepted(v1::Accepted {}),
        Milestone::Prepared => Event::Prepared(v1::Prepared {}),
        Milestone::Drained => Event::Drained(v1::Drained {}),
        Milestone::Stopped { killed } => Event::Stopped(v1::Stopped { killed }),
        Milestone::Installed { hook_ran } => Event::Installed(v1::Installed { hook_ran }),
        Milestone::RebootBegun { boot_id, asked_for } => {
            Event::RebootBegun(v1::RebootBegun { boot_id: boot_id.to_string(), asked_for })
        }
        Milestone::Started(started) => Event::Started(v1::Started { instance: Some(instance(started)) }),
        Milestone::Finished(timings) => Event::Finished(v1::Finished {
            total_us: timings.total_us,
            hooks_us: timings.hooks_us,
            service_us: timings.service_us,
            soak_us: timings.soak_us,
        }),
        Milestone::TurnedBack => Event::TurnedBack(v1::TurnedBack {}),
        Milestone::Failed { phase: failed, failure } => Event::Failed(v1::Failed {
            phase: phase(failed).into(),
            reason: failure.reason.name().to_owned(),
            detail: failure.detail,
            output: failure.output,
        }),
    };
    v1::StepReport {
        group: step.group.to_string(),
        rollout_id: step.rollout.to_string(),
        fence: step.fence.0,
        attempt: step.attempt,
        event: Some(event),
    }
}

fn instance(instance: Instance) -> v1::Instance {
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

fn text(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire() -> v1::GroupOrders {
        v1::GroupOrders {
            group: "app.default".to_owned(),
            step: Some(v1::StepOrder {
                rollout_id: "r3".to_owned(),
                fence: 7,
                attempt: 1,
                to: "acme/app/2.0/20260102000000".to_owned(),
                go: v1::Go::Drain.into(),
                reason: "update".to_owned(),
                ..v1::StepOrder::default()
            }),
            ..v1::GroupOrders::default()
        }
    }

    #[test]
    fn orders_are_read() {
        let (group, orders) = group_orders(&wire()).unwrap();
        assert_eq!(group.as_str(), "app.default");
        let step = orders.step.unwrap();
        assert_eq!((step.go, step.opened.fence, step.opened.from), (Some(Go::Drain), Fence(7), None));
        assert_eq!(orders.health, HealthRules::default());
    }

    #[test]
    fn orders_that_make_no_sense_are_refused() {
        for spoil in [
            |step: &mut v1::StepOrder| step.to.clear(),
            |step: &mut v1::StepOrder| step.go = 0,
            |step: &mut v1::StepOrder| step.go = 99,
            |step: &mut v1::StepOrder| step.reason = "why not".to_owned(),
            |step: &mut v1::StepOrder| step.rollout_id = "3".to_owned(),
            |step: &mut v1::StepOrder| step.digest = "abc".to_owned(),
        ] {
            let mut wire = wire();
            spoil(wire.step.as_mut().unwrap());
            assert!(group_orders(&wire).is_err());
        }
    }
}
