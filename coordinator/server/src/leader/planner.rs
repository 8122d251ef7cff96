//! The planner's loop: plans on each applied state and proposes what it chose, all of it together.

use futures::future::join_all;
use rollcall_ident::Revision;
use rollcall_rollout::{Applied, Command, plan_ahead};

use super::propose;
use crate::raft::Consensus;

/// Plans for as long as this peer leads.
pub(super) async fn run(consensus: Consensus) {
    let mut applied = consensus.applied();
    let mut view = applied.current();
    loop {
        let chosen = plan_ahead(&view.state);
        // They enter the log in this order, and share its sync.
        let outcomes = join_all(chosen.iter().map(|command| propose(&consensus, command.clone()))).await;
        let outcomes = outcomes.into_iter().map(|outcome| outcome.map(|(applied, _)| applied)).collect::<Vec<_>>();
        let defect = refused_for_no_reason(view.revision, &chosen, &outcomes);
        if !chosen.is_empty() && defect.is_none() {
            view = applied.current();
            continue;
        }
        let planned_at = view.revision.max(defect.unwrap_or_default());
        view = loop {
            match applied.changed().await {
                None => return,
                Some(next) if next.revision > planned_at => break next,
                Some(_) => {}
            }
        };
    }
}

/// The revision at which one of the choices was refused though nothing came between it and the state that it was
/// planned on, but the choices before it. The planner asks the gates that `apply` asks, so that is a defect, and the
/// same choice at once would be refused again.
fn refused_for_no_reason(planned_on: Revision, chosen: &[Command], outcomes: &[Option<Applied>]) -> Option<Revision> {
    for ((command, applied), at) in chosen.iter().zip(outcomes).zip(planned_on.0 + 1..) {
        let applied = applied.as_ref().filter(|applied| applied.revision.0 == at)?;
        if let Err(rejection) = &applied.outcome {
            tracing::warn!(%rejection, ?command, "the planner's choice was refused");
            return Some(applied.revision);
        }
    }
    None
}
