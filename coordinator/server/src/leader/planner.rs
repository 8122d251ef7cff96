//! The planner's loop: plans on each applied state and proposes what it chose, one thing after the other.

use rollcall_ident::Revision;
use rollcall_rollout::plan;

use super::propose;
use crate::raft::Consensus;

/// Plans for as long as this peer leads.
pub(super) async fn run(consensus: Consensus) {
    let mut applied = consensus.applied();
    let mut view = applied.current();
    loop {
        let mut refused_at = Revision(0);
        let mut chose = false;
        for command in plan(&view.state) {
            chose = true;
            match propose(&consensus, command.clone()).await {
                None => {}
                Some((outcome, _)) => {
                    if let Err(rejection) = outcome.outcome {
                        // A defect: the planner asks the same gates. Its own refusal must not make it try again.
                        tracing::warn!(%rejection, ?command, "the planner's choice was refused");
                        refused_at = refused_at.max(outcome.revision);
                    }
                }
            }
        }
        if chose && refused_at == Revision(0) {
            view = applied.current();
            continue;
        }
        view = loop {
            match applied.changed().await {
                None => return,
                Some(next) if next.revision > view.revision.max(refused_at) => break next,
                Some(_) => {}
            }
        };
    }
}
