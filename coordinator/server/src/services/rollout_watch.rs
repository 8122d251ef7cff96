//! Following one rollout: now, after each of its changes, and to its end.

use futures::Stream;
use rollcall_ident::RolloutId;
use rollcall_proto::v1;
use tonic::Status;

use super::api::Api;
use crate::convert;
use crate::raft::{Consensus, View};

/// The rollout now and after each of its changes. A burst of changes may be seen as one.
pub fn watch(
    api: Api,
    consensus: Consensus,
    first: View,
    id: RolloutId,
) -> impl Stream<Item = Result<v1::GetRolloutResponse, Status>> + Send {
    async_stream::try_stream! {
        let mut applied = consensus.applied();
        let mut view = first;
        let mut last = None;
        while let Some(rollout) = view.state.rollouts().get(&id) {
            let has_ended = !rollout.is_active();
            let now = api.now(&consensus, &view);
            let shown = convert::rollout(&view.state, rollout, now.cluster_time);
            // Time alone is no change.
            let compared = without_time(shown.clone());
            if last.as_ref() != Some(&compared) {
                last = Some(compared);
                yield v1::GetRolloutResponse {
                    revision: view.revision.0,
                    now: Some(convert::moment(now)),
                    rollout: Some(shown),
                };
            }
            if has_ended {
                break;
            }
            view = loop {
                let next = tokio::select! {
                    next = applied.changed() => next,
                    () = api.stopping().cancelled() => None,
                };
                let next = next.ok_or_else(|| convert::retry_later("stopping", "the peer is stopping; watch at another"))?;
                // What this peer had applied before the first answer was confirmed.
                if next.revision > view.revision {
                    break next;
                }
            };
        }
    }
}

fn without_time(mut rollout: v1::Rollout) -> v1::Rollout {
    for step in &mut rollout.steps {
        step.soaked_ms = 0;
    }
    rollout
}
