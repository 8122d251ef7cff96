//! Where a step stands on its bar.

use crate::view::StepView;

/// A bar's length; positions are parts of it.
pub const FULL: u64 = 1000;
/// Where verifying begins: the rest of the bar is the soak.
const VERIFYING: u64 = 620;

/// The position of a step whose answer is `since_heard_ms` old: a soak goes on by itself. A bar tells how far a node is
/// on its way to the target, so the way back empties it.
pub fn position_of(step: &StepView, since_heard_ms: u64) -> u64 {
    let on_its_way = position_on_its_way(step, since_heard_ms);
    if step.is_way_back() { FULL - on_its_way } else { on_its_way }
}

fn position_on_its_way(step: &StepView, since_heard_ms: u64) -> u64 {
    match step.phase.as_str() {
        "failed" => step.failure.as_ref().map_or(0, |failure| position_of_phase(&failure.phase)),
        "verifying" if step.soak_needed_ms > 0 => {
            let soaked = soaked_ms(step, since_heard_ms);
            VERIFYING + (FULL - VERIFYING) * soaked / step.soak_needed_ms
        }
        phase => position_of_phase(phase),
    }
}

/// How far a step's soak is.
pub fn soaked_ms(step: &StepView, since_heard_ms: u64) -> u64 {
    // A soak that hasn't begun doesn't go on by itself: the first good sample begins it.
    let since_heard_ms = if step.is_soaking() { since_heard_ms } else { 0 };
    step.soaked_ms.saturating_add(since_heard_ms).min(step.soak_needed_ms)
}

fn position_of_phase(phase: &str) -> u64 {
    match phase {
        "granted" => 40,
        "preparing" => 100,
        "draining" => 200,
        "stopping" => 300,
        "installing" => 400,
        "rebooting" => 480,
        "starting" => 540,
        "verifying" => VERIFYING,
        "succeeded" => FULL,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use rollcall_proto::v1;

    use super::*;

    fn step(phase: v1::Phase, way: &str) -> StepView {
        v1::Step { phase: phase.into(), way: way.to_owned(), ..v1::Step::default() }.into()
    }

    #[test]
    fn the_way_back_empties_the_bar() {
        let phases = [v1::Phase::Queued, v1::Phase::Draining, v1::Phase::Starting, v1::Phase::Succeeded];
        let there: Vec<_> = phases.iter().map(|phase| position_of(&step(*phase, "forward"), 0)).collect();
        let back: Vec<_> = phases.iter().map(|phase| position_of(&step(*phase, "back"), 0)).collect();
        assert!(there.is_sorted() && there[0] == 0 && there[3] == FULL, "{there:?}");
        assert!(back.is_sorted_by(|a, b| a > b) && back[0] == FULL && back[3] == 0, "{back:?}");
        assert_eq!(position_of(&step(v1::Phase::Skipped, "forward"), 0), 0);
    }
}
