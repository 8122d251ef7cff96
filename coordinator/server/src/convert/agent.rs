//! What agents say and what they are told.

use rollcall_ident::{ClusterId, Digest, NodeId, SessionEpoch};
use rollcall_proto::v1;
use rollcall_rollout::{
    Go, GroupOrders, Health, Hello, Instance, NodeReport, Orders, Phase, PrefetchReport, Report, RolloutKind,
    ServiceStatus, StepEvent, StepOrder, StepReport, StepTimings,
};

use super::field::{Keep, clipped};
use super::node::phase;
use super::{FieldError, optional, required};

/// BOUND: what a hook printed, as the log keeps it.
const MAX_OUTPUT_BYTES: usize = 4 << 10;
/// BOUND: one line for people.
const MAX_DETAIL_BYTES: usize = 1 << 10;
/// BOUND: names that are made by programs: reasons, versions, machine ids, loci.
const MAX_NAME_BYTES: usize = 256;
/// BOUND: labels of a node: for zones and the like, not for data.
const MAX_LABELS: usize = 64;
/// BOUND: services of a node: a machine, not a fleet.
const MAX_SERVICES: usize = 256;

/// A hello, with the cluster that the agent believes to be in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Greeting {
    /// None: it has never been in one.
    pub cluster: Option<ClusterId>,
    /// Who it is.
    pub hello: Hello,
}

/// Who an agent says it is. `address` is where it connected from.
///
/// # Errors
/// Names the field that can't be.
pub fn greeting(hello: v1::Hello, address: String) -> Result<Greeting, FieldError> {
    let v1::Hello {
        node_id,
        node_name,
        machine_id,
        identity_locus,
        boot_id,
        agent_version,
        labels,
        services,
        highest_fence,
        last_epoch: _,
        cluster_id,
        hosts_peer,
    } = hello;
    at_most("labels", labels.len(), MAX_LABELS)?;
    at_most("services", services.len(), MAX_SERVICES)?;
    for (key, value) in &labels {
        short("labels", key)?;
        short("labels", value)?;
    }
    if identity_locus.is_empty() {
        return Err(FieldError::new("identity_locus", "is missing; without it a copied identity can't be told"));
    }
    let hello = Hello {
        node: required("node_id", &node_id)?,
        name: required("node_name", &node_name)?,
        identity_locus: short("identity_locus", &identity_locus)?,
        machine_id: short("machine_id", &machine_id)?,
        hosts_peer: Some(short("hosts_peer", &hosts_peer)?).filter(|named| !named.is_empty()),
        boot_id: required("boot_id", &boot_id)?,
        agent_version: short("agent_version", &agent_version)?,
        address,
        labels: labels.into_iter().collect(),
        services: services.into_iter().map(service_status).collect::<Result<_, _>>()?,
        highest_fence: rollcall_ident::Fence(highest_fence),
    };
    Ok(Greeting { cluster: optional("cluster_id", &cluster_id)?, hello })
}

/// A report that came by a session.
///
/// # Errors
/// Names the field that can't be.
pub fn node_report(
    node: NodeId,
    epoch: SessionEpoch,
    kind: Option<v1::report::Kind>,
) -> Result<NodeReport, FieldError> {
    let report = match kind.ok_or_else(|| missing("kind"))? {
        v1::report::Kind::Status(status) => Report::Status(service_status(status)?),
        v1::report::Kind::Step(step) => Report::Step(step_report(step)?),
        v1::report::Kind::Prefetch(prefetch) => Report::Prefetch(prefetch_report(prefetch)?),
    };
    Ok(NodeReport { node, epoch, report })
}

fn service_status(status: v1::ServiceStatus) -> Result<ServiceStatus, FieldError> {
    let health = health(status.health())?;
    let v1::ServiceStatus {
        group,
        release,
        instance: process,
        health: _,
        health_detail,
        primary,
        priority,
        prefetched: _,
    } = status;
    Ok(ServiceStatus {
        group: required("group", &group)?,
        release: optional("release", &release)?,
        instance: process.map(instance).transpose()?,
        health,
        health_detail: clipped(health_detail, MAX_DETAIL_BYTES, Keep::Begin),
        primary,
        priority,
    })
}

fn instance(instance: v1::Instance) -> Result<Instance, FieldError> {
    let v1::Instance { pid, start_time, boot_id, release } = instance;
    Ok(Instance {
        pid,
        start_time,
        boot_id: required("instance.boot_id", &boot_id)?,
        release: required("instance.release", &release)?,
    })
}

fn health(health: v1::Health) -> Result<Health, FieldError> {
    match health {
        v1::Health::Healthy => Ok(Health::Healthy),
        v1::Health::Warning => Ok(Health::Warning),
        v1::Health::Critical => Ok(Health::Critical),
        v1::Health::Unknown => Ok(Health::Unknown),
        v1::Health::Unprovisioned => Ok(Health::Unprovisioned),
        v1::Health::Unspecified => Err(missing("health")),
    }
}

fn prefetch_report(report: v1::PrefetchReport) -> Result<PrefetchReport, FieldError> {
    let v1::PrefetchReport { group, release, failure, detail, digest, no_rollback } = report;
    let outcome = if failure.is_empty() {
        Ok(required::<Digest>("digest", &digest)?)
    } else {
        Err((short("failure", &failure)?, clipped(detail, MAX_DETAIL_BYTES, Keep::Begin)))
    };
    Ok(PrefetchReport {
        group: required("group", &group)?,
        release: required("release", &release)?,
        outcome,
        rollback: !no_rollback,
    })
}

fn step_report(report: v1::StepReport) -> Result<StepReport, FieldError> {
    let v1::StepReport { group, rollout_id, fence, attempt, event } = report;
    Ok(StepReport {
        group: required("group", &group)?,
        rollout: required("rollout_id", &rollout_id)?,
        fence: rollcall_ident::Fence(fence),
        attempt,
        event: step_event(event.ok_or_else(|| missing("event"))?)?,
    })
}

fn step_event(event: v1::step_report::Event) -> Result<StepEvent, FieldError> {
    use v1::step_report::Event;
    Ok(match event {
        Event::Accepted(v1::Accepted {}) => StepEvent::Accepted,
        Event::Prepared(v1::Prepared {}) => StepEvent::Prepared,
        Event::Drained(v1::Drained {}) => StepEvent::Drained,
        Event::Stopped(v1::Stopped { killed }) => StepEvent::Stopped { killed },
        Event::Installed(v1::Installed { hook_ran }) => StepEvent::Installed { hook_ran },
        Event::RebootBegun(v1::RebootBegun { boot_id, asked_for: _ }) => {
            StepEvent::RebootBegun { boot_id: required("boot_id", &boot_id)? }
        }
        Event::Started(v1::Started { instance: process }) => {
            StepEvent::Started { instance: instance(process.ok_or_else(|| missing("instance"))?)? }
        }
        Event::Finished(v1::Finished { total_us, hooks_us, service_us, soak_us }) => {
            StepEvent::Finished { timings: StepTimings { total_us, hooks_us, service_us, soak_us } }
        }
        Event::TurnedBack(v1::TurnedBack {}) => StepEvent::TurnedBack,
        Event::Failed(failed) => {
            let phase = failed_phase(failed.phase())?;
            let v1::Failed { phase: _, reason, detail, output } = failed;
            StepEvent::Failed {
                phase,
                reason: short("reason", &reason)?,
                detail: clipped(detail, MAX_DETAIL_BYTES, Keep::Begin),
                output: clipped(output, MAX_OUTPUT_BYTES, Keep::End),
            }
        }
    })
}

fn failed_phase(phase: v1::Phase) -> Result<Phase, FieldError> {
    match phase {
        v1::Phase::Queued => Ok(Phase::Queued),
        v1::Phase::Granted => Ok(Phase::Granted),
        v1::Phase::Preparing => Ok(Phase::Preparing),
        v1::Phase::Draining => Ok(Phase::Draining),
        v1::Phase::Stopping => Ok(Phase::Stopping),
        v1::Phase::Installing => Ok(Phase::Installing),
        v1::Phase::Rebooting => Ok(Phase::Rebooting),
        v1::Phase::Starting => Ok(Phase::Starting),
        v1::Phase::Verifying => Ok(Phase::Verifying),
        v1::Phase::Succeeded => Ok(Phase::Succeeded),
        v1::Phase::Failed => Ok(Phase::Failed),
        v1::Phase::Skipped => Ok(Phase::Skipped),
        v1::Phase::Unspecified => Err(missing("phase")),
    }
}

/// All that a node should be doing now.
pub fn orders(orders: &Orders) -> v1::Orders {
    v1::Orders {
        revision: orders.revision.0,
        groups: orders.groups.iter().map(group_orders).collect(),
        highest_fence: orders.highest_fence.0,
    }
}

fn group_orders(orders: &GroupOrders) -> v1::GroupOrders {
    let GroupOrders { group, package, prefetch, step, on_warning, success_threshold, failure_threshold } = orders;
    let digest = prefetch.as_ref().and_then(|prefetch| prefetch.digest);
    let config = prefetch.as_ref().and_then(|prefetch| prefetch.config.clone());
    v1::GroupOrders {
        group: group.to_string(),
        package: package.as_ref().map(ToString::to_string).unwrap_or_default(),
        prefetch: prefetch.as_ref().map(|prefetch| prefetch.release.to_string()).unwrap_or_default(),
        prefetch_digest: digest.map(|digest| digest.to_string()).unwrap_or_default(),
        prefetch_config: config.unwrap_or_default(),
        step: step.as_ref().map(step_order),
        on_warning: on_warning.to_string(),
        success_threshold: *success_threshold,
        failure_threshold: *failure_threshold,
        known: package.is_some(),
    }
}

fn step_order(order: &StepOrder) -> v1::StepOrder {
    let StepOrder { rollout, kind, fence, attempt, from, to, digest, config, go, .. } = order;
    let StepOrder { cut_drain, phase: at, max_reboots, reboots, .. } = order;
    let go = match go {
        Go::Prepare => v1::Go::Prepare,
        Go::Drain => v1::Go::Drain,
        Go::Replace => v1::Go::Replace,
        Go::Finish => v1::Go::Finish,
        Go::TurnBack => v1::Go::TurnBack,
    };
    let reason = match kind {
        RolloutKind::Update => "update",
        RolloutKind::Rollback => "rollback",
        RolloutKind::CatchUp => "catch-up",
    };
    v1::StepOrder {
        rollout_id: rollout.to_string(),
        fence: fence.0,
        attempt: *attempt,
        from: from.as_ref().map(ToString::to_string).unwrap_or_default(),
        to: to.to_string(),
        digest: digest.map(|digest| digest.to_string()).unwrap_or_default(),
        go: go.into(),
        reason: reason.to_owned(),
        max_reboots: *max_reboots,
        reboots: *reboots,
        phase: phase(*at).into(),
        config: config.clone().unwrap_or_default(),
        cut_drain: *cut_drain,
    }
}

fn missing(field: &str) -> FieldError {
    FieldError::new(field, "is missing, or of a newer version")
}

fn short(field: &str, text: &str) -> Result<String, FieldError> {
    at_most(field, text.len(), MAX_NAME_BYTES)?;
    Ok(text.to_owned())
}

fn at_most(field: &str, given: usize, limit: usize) -> Result<(), FieldError> {
    if given <= limit { Ok(()) } else { Err(FieldError::new(field, format!("{given} are too many; at most {limit}"))) }
}
