//! Several choices at once: what the planner would choose if each was applied before the next.

use crate::{Command, State};

use super::plan;

/// BOUND: choices on their way together. A commit takes some milliseconds, so that this is thousands of steps a second;
/// what the cluster hears meanwhile may make the last of them wrong, and they are refused.
pub const AHEAD: usize = 64;

/// What to propose now, in this order: each was chosen on a copy of the state in which those before it are applied.
/// Empty where [`plan`] chooses nothing.
#[must_use]
pub fn plan_ahead(state: &State) -> Vec<Command> {
    let (mut ahead, mut chosen) = (state.clone(), Vec::new());
    while chosen.len() < AHEAD {
        let wanted = plan(&ahead);
        let may_go_on = !wanted.is_empty() && wanted.iter().all(|it| matches!(it, Command::GrantToken { .. }));
        for command in wanted {
            // A defect, where it is refused: it is for the log to say so.
            let is_taken = super::preview::propose(&mut ahead, command.clone()).is_ok();
            chosen.push(as_of(state, command));
            if !is_taken {
                return chosen;
            }
        }
        // A rollout that starts is known by the revision that it will have in the log.
        if !may_go_on {
            break;
        }
    }
    chosen
}

fn as_of(state: &State, command: Command) -> Command {
    match command {
        Command::GrantToken { rollout, node, .. } => Command::GrantToken { rollout, node, based_on: state.revision() },
        other => other,
    }
}
