//! What two standings of the model must share to be the same: everything but the numbers that only count up. Times,
//! fences and revisions enter by their order.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use rollcall_rollout::{Presence, Rollout, State, Step};

use crate::support::{World, group};

pub fn of(world: &World) -> String {
    let mut out = String::with_capacity(1024);
    let state = &world.state;
    let ranks = fences(state);
    if let Some(group) = state.groups().get(&group()) {
        let left_out: Vec<_> = group.left_out.keys().collect();
        write!(out, "{:?} {} {left_out:?};", group.target, group.settled).unwrap();
    }
    for rollout in state.rollouts().values().filter(|it| it.is_active() || !it.in_flight.is_empty()) {
        rollout_view(&mut out, rollout, &ranks);
    }
    for node in state.nodes().values() {
        let presence = match node.presence {
            Presence::Present(_) => "up",
            Presence::Away { .. } => "away",
            Presence::Departed { .. } => "departed",
        };
        write!(out, "\n{} {presence} {}", node.name, node.hold.is_some()).unwrap();
        for service in node.services.values() {
            let fetched = service.prefetch.as_ref().map(|fetched| &fetched.release);
            let instance = service.instance.as_ref().map(|instance| &instance.release);
            write!(out, " {:?} {instance:?} {} {fetched:?}", service.release, service.health).unwrap();
        }
    }
    for machine in world.machines.values() {
        write!(out, "\n{} {:?}", machine.connected, machine.finished.and_then(|fence| ranks.get(&fence.0))).unwrap();
        for service in machine.services.values() {
            let instance = service.instance.as_ref().map(|instance| &instance.release);
            write!(out, " {:?} {instance:?} {}", service.release, service.health).unwrap();
        }
    }
    let deadlines: Vec<&'static str> = state.deadlines_in_order().map(|key| key.name()).collect();
    let quarantined: Vec<_> = state.quarantine().keys().collect();
    write!(out, "\n{deadlines:?} {quarantined:?}").unwrap();
    out
}

/// Each fence's place among all that steps carry.
fn fences(state: &State) -> BTreeMap<u64, usize> {
    let steps = state.rollouts().values().flat_map(|rollout| rollout.steps.values());
    let mut fences: Vec<u64> = steps.filter_map(|step| step.fence).map(|fence| fence.0).collect();
    fences.sort_unstable();
    fences.dedup();
    fences.into_iter().enumerate().map(|(place, fence)| (fence, place)).collect()
}

fn rollout_view(out: &mut String, rollout: &Rollout, ranks: &BTreeMap<u64, usize>) {
    let Rollout { target, previous, was_settled, status, pause_causes, batch, begun, is_one_way, .. } = rollout;
    let back = rollout.going_back.is_some();
    write!(
        out,
        "\n{target} {previous:?} {was_settled} {status} {back} {pause_causes:?} {batch:?} {begun} {is_one_way}"
    )
    .unwrap();
    let queue: Vec<_> = rollout.queue.values().collect();
    let unchanged: Vec<_> = rollout.unchanged.keys().collect();
    write!(out, " {queue:?} {unchanged:?}").unwrap();
    for step in rollout.steps.values() {
        let Step { node, phase, way, origin, is_disturbed, batch, skipped, turn, reboots, .. } = step;
        let proof = (step.is_soaked, step.is_finishing, step.timings.is_some());
        let fence = step.fence.and_then(|fence| ranks.get(&fence.0));
        let (healthy, failed) = (step.healthy_since.is_some(), step.failures.min(2));
        write!(
            out,
            "\n {node} {phase} {way} {origin:?} {is_disturbed} {batch:?} {skipped:?} {turn:?} {proof:?} {reboots} \
             {fence:?} {healthy} {failed} {}",
            step.failure.is_some()
        )
        .unwrap();
    }
}
