//! Rollouts and their steps.

use rollcall_ident::ClusterTime;
use rollcall_proto::v1;
use rollcall_rollout::{
    AlarmKey, Phase, Rollout, RolloutStatus, Source, State, Step, StepFailure, StepTimings, Waiting, WaitingOn, turns,
};

use super::node::phase;
use super::{member, moment, timestamp};

/// A rollout with its steps in the order of their turns; `now` tells how far a soak is.
pub fn rollout(state: &State, rollout: &Rollout, now: ClusterTime) -> v1::Rollout {
    let name = |id| state.nodes().get(id).map(|node| node.name.to_string());
    let back = rollout.going_back.as_ref();
    let alarm = |key| state.alarm(&key).map(timestamp);
    v1::Rollout {
        rollout_id: rollout.id.to_string(),
        group: rollout.group.to_string(),
        target: rollout.target.to_string(),
        status: status(rollout.status).into(),
        pause_causes: rollout.pause_causes.iter().map(ToString::to_string).collect(),
        kind: rollout.kind.to_string(),
        source: match &rollout.source {
            Source::Operator => "operator".to_owned(),
            Source::Channel(channel) => format!("channel {channel}"),
            Source::CatchUp => "catch_up".to_owned(),
        },
        started_by: rollout.started_by.0.clone(),
        reason: rollout.reason.clone().unwrap_or_default(),
        started_at: Some(moment(rollout.started_at)),
        ended_at: rollout.ended.as_ref().map(|ended| moment(ended.at)),
        steps: turns(state, rollout).into_iter().map(|(each, on)| step(state, rollout, each, on, now)).collect(),
        unchanged_nodes: rollout.unchanged.keys().filter_map(name).collect(),
        waiting_on: rollout.waiting.as_ref().map(waiting_on),
        modified_revision: rollout.modified_revision.0,
        approved_by: rollout.approved_by.as_ref().map(|actor| actor.0.clone()).unwrap_or_default(),
        going_back_why: back.map(|back| back.why.clone()).unwrap_or_default(),
        going_back_since: back.map(|back| moment(back.at)),
        batch: rollout.batch.number,
        one_way: rollout.is_one_way,
        resumes_at: alarm(AlarmKey::ResumeRollout(rollout.id)),
        pauses_at: alarm(AlarmKey::PauseRollout(rollout.id)),
    }
}

/// A reason and since when.
pub fn waiting_on(waiting: &Waiting) -> v1::WaitingOn {
    reason(&waiting.on, Some(moment(waiting.since)))
}

/// A reason alone.
pub(super) fn reason(on: &WaitingOn, since: Option<v1::Moment>) -> v1::WaitingOn {
    v1::WaitingOn {
        reason: on.name().to_owned(),
        detail: on.to_string(),
        nodes: on.nodes().iter().map(ToString::to_string).collect(),
        since,
    }
}

fn step(state: &State, rollout: &Rollout, step: &Step, on: WaitingOn, now: ClusterTime) -> v1::Step {
    let node = state.nodes().get(&step.node);
    let service = node.and_then(|node| Some((node, node.services.get(&rollout.group)?)));
    let (soaked_ms, soak_needed_ms) = soak(state, rollout, step, now);
    let history = step.history.iter().map(|(entered, attempt, at)| v1::PhaseTime {
        phase: phase(*entered).into(),
        attempt: *attempt,
        entered_at: Some(moment(*at)),
    });
    v1::Step {
        node_id: step.node.to_string(),
        node_name: node.map_or_else(|| step.node.to_string(), |node| node.name.to_string()),
        phase: phase(step.phase).into(),
        phase_since: Some(moment(step.phase_since)),
        attempt: step.attempt,
        fence: step.fence.unwrap_or_default().0,
        from: step.from.as_ref().map(ToString::to_string).unwrap_or_default(),
        to: rollout.target_of(step).to_string(),
        history: history.collect(),
        failure: step.failure.as_ref().map(failure),
        waiting_on: (!step.phase.is_settled()).then(|| reason(&on, Some(moment(step.phase_since)))),
        soaked_ms,
        soak_needed_ms,
        reboots: step.reboots,
        timings: step.timings.map(timings),
        member: service.map(|(node, service)| member(node, service)),
        turning: step.turn.as_ref().map(ToString::to_string).unwrap_or_default(),
        holds_token: step.phase.holds_token(),
        way: step.way.to_string(),
        skipped: step.skipped.as_ref().map(ToString::to_string).unwrap_or_default(),
        batch: step.batch,
    }
}

/// How far the soak is and how long it must be; only while verifying.
fn soak(state: &State, rollout: &Rollout, step: &Step, now: ClusterTime) -> (u64, u64) {
    let group = state.groups().get(&rollout.group).filter(|_| step.phase == Phase::Verifying);
    let Some(needed) = group.map(|group| group.policy.min_healthy_time) else { return (0, 0) };
    let soaked = match step.healthy_since {
        _ if step.is_soaked => needed,
        Some(since) => now.since(since.cluster_time).min(needed),
        None => Default::default(),
    };
    (soaked.0, needed.0)
}

fn failure(failure: &StepFailure) -> v1::StepFailure {
    v1::StepFailure {
        phase: phase(failure.phase).into(),
        reason: failure.reason.clone(),
        detail: failure.detail.clone(),
        output: failure.output.clone(),
    }
}

fn timings(timings: StepTimings) -> v1::StepTimings {
    let StepTimings { total_us, hooks_us, service_us, soak_us } = timings;
    v1::StepTimings { total_us, hooks_us, service_us, soak_us }
}

fn status(status: RolloutStatus) -> v1::RolloutStatus {
    match status {
        RolloutStatus::AwaitingApproval => v1::RolloutStatus::AwaitingApproval,
        RolloutStatus::Running => v1::RolloutStatus::Running,
        RolloutStatus::AwaitingPromotion => v1::RolloutStatus::AwaitingPromotion,
        RolloutStatus::Paused => v1::RolloutStatus::Paused,
        RolloutStatus::RollingBack => v1::RolloutStatus::RollingBack,
        RolloutStatus::Succeeded => v1::RolloutStatus::Succeeded,
        RolloutStatus::Stopped => v1::RolloutStatus::Stopped,
        RolloutStatus::RolledBack => v1::RolloutStatus::RolledBack,
        RolloutStatus::Superseded => v1::RolloutStatus::Superseded,
        RolloutStatus::Denied => v1::RolloutStatus::Denied,
    }
}
