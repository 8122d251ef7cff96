//! Tokens.

use rollcall_ident::{ClusterTime, NodeId};
use rollcall_proto::v1;
use rollcall_rollout::{DeadlineKey, Phase, State, Token};

use super::moment;
use super::node::phase;

/// Who may be down, and what the coordinator does next by itself.
pub fn token(state: &State, id: NodeId, token: &Token, now: ClusterTime) -> v1::Token {
    let step = state.rollouts().get(&token.rollout).and_then(|rollout| rollout.steps.get(&id));
    let keys = [
        DeadlineKey::ReadyTimeout(token.rollout, id),
        DeadlineKey::DrainTimeout(token.rollout, id),
        DeadlineKey::HealthyDeadline(token.rollout, id),
        DeadlineKey::MinHealthyTime(token.rollout, id),
        DeadlineKey::RebootTimeout(token.rollout, id),
        DeadlineKey::ProgressDeadline(token.rollout),
    ];
    let next = keys.iter().filter_map(|key| Some((state.deadline(key)?, key.name()))).min();
    v1::Token {
        node_id: id.to_string(),
        node_name: state.nodes().get(&id).map_or_else(|| id.to_string(), |node| node.name.to_string()),
        group: token.group.to_string(),
        rollout_id: token.rollout.to_string(),
        fence: token.fence.0,
        granted_at: Some(moment(token.granted_at)),
        phase: phase(step.map_or(Phase::Granted, |step| step.phase)).into(),
        next_deadline: next.map(|(_, name)| name.to_owned()).unwrap_or_default(),
        next_deadline_in_ms: next.map_or(0, |(at, _)| at.since(now).0),
    }
}
