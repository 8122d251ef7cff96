//! Several choices at once: what the planner would choose if each was applied before the next.

use crate::{Command, State};

use super::plan;
use super::preview::propose;

/// BOUND: choices on their way together. A commit takes some milliseconds, so that this is thousands of steps a second;
/// what the cluster hears meanwhile may make the last of them wrong, and they are refused.
const AHEAD: usize = 64;

/// What to propose now, in this order: each was chosen on a copy of the state in which those before it are applied.
/// Empty where [`plan`] chooses nothing.
#[must_use]
pub fn plan_ahead(state: &State) -> Vec<Command> {
    let (mut ahead, mut chosen) = (state.clone(), Vec::new());
    loop {
        let wanted = plan(&ahead);
        // A rollout that starts is known by the revision that it will have in the log.
        let is_last = !wanted.iter().all(|command| matches!(command, Command::GrantToken { .. })) || wanted.is_empty();
        for command in wanted {
            let is_refused = propose(&mut ahead, command.clone()).is_err();
            // What one group gets can be what another one has to wait for.
            if chosen.len() == AHEAD || (is_refused && !chosen.is_empty()) {
                return chosen;
            }
            chosen.push(as_of(state, command));
            if is_refused {
                // A defect: it is for the log to say so.
                return chosen;
            }
        }
        if is_last {
            return chosen;
        }
    }
}

fn as_of(state: &State, command: Command) -> Command {
    match command {
        Command::GrantToken { rollout, node, .. } => Command::GrantToken { rollout, node, based_on: state.revision() },
        other => other,
    }
}
