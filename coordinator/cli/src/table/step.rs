//! Steps.

use crate::output::{Page, Tone, column, millis, table};
use crate::table::{NONE, or_none};
use crate::view::{RolloutView, StepView, short_release};

/// All steps of a rollout, in the order of their turns.
pub fn steps_table(page: &Page, rollout: &RolloutView) -> String {
    let rows = rollout.steps.iter().map(|step| {
        let health = step.member.as_ref().map_or(NONE, |member| member.health.as_str());
        let lasts = rollout.lasts_ms(step.phase_since_at_cluster_ms).map_or_else(|| NONE.to_owned(), millis);
        [
            column(&step.node_name, Tone::Plain),
            column(phase_text(step), Tone::of(&step.phase)),
            column(lasts, Tone::Plain),
            column(health, Tone::of(health)),
            column(short_release(or_none(step.from.as_deref())), Tone::Dim),
            column(step_note(step), Tone::Plain),
        ]
    });
    table(page, ["NODE", "PHASE", "FOR", "HEALTH", "FROM", "NOTE"], rows)
}

/// The phase; a way back that is done is no success of the target.
pub fn phase_text(step: &StepView) -> &str {
    if step.is_way_back() && step.phase == "succeeded" { "went back" } else { &step.phase }
}

/// What is to be said of a step besides its phase: why it failed, what it waits on, how far its soak is.
pub fn step_note(step: &StepView) -> String {
    if let Some(why) = step.skipped_text().filter(|_| step.phase == "skipped") {
        return why;
    }
    let mut notes = Vec::new();
    if step.is_way_back() && step.phase != "succeeded" {
        notes.push("going back".to_owned());
    }
    // The way back has an attempt of its own, which nobody asked about.
    if step.attempt > 1 && !step.is_way_back() {
        notes.push(format!("attempt {}", step.attempt));
    }
    if let Some(turning) = &step.turning {
        notes.push(format!("turning back ({})", turning.replace('_', " ")));
    }
    if let Some(failure) = step.failure.as_ref().filter(|_| step.phase == "failed") {
        notes.push(failure.text());
    } else if step.is_soaking() {
        notes.push(format!("healthy for {} of {}", millis(step.soaked_ms), millis(step.soak_needed_ms)));
    } else if let Some(waiting) = step.waiting_on.as_ref().filter(|waiting| waiting.is_news()) {
        notes.push(waiting.short_text());
    }
    if step.reboots > 0 {
        notes.push(format!("{} reboots", step.reboots));
    }
    notes.join("; ")
}
