//! Rollouts.

use crate::output::{Page, Tone, View, column, key_values, millis, table};
use crate::table::{NONE, or_none, short_minute, short_time};
use crate::view::{At, History, List, RolloutView, StepView, short_release};

impl View for List<RolloutView> {
    fn to_table(&self, page: &Page) -> String {
        if self.items.is_empty() {
            return "no rollouts yet; `rollcall rollout start GROUP --to IDENT` starts one".to_owned();
        }
        let rows = self.items.iter().map(|rollout| {
            [
                column(&rollout.rollout_id, Tone::Plain),
                column(&rollout.group, Tone::Plain),
                column(short_release(&rollout.target), Tone::Plain),
                column(status_text(rollout), Tone::of(&rollout.status)),
                column(format!("{}/{}", rollout.done_count(), rollout.steps.len()), Tone::Plain),
                column(short_time(rollout.started_at.as_deref()), Tone::Dim),
            ]
        });
        table(page, ["ID", "GROUP", "TARGET", "STATUS", "DONE", "STARTED (UTC)"], rows)
    }
}

impl View for History {
    fn to_table(&self, page: &Page) -> String {
        if self.0.items.is_empty() {
            return "no rollouts of this group yet".to_owned();
        }
        let rows = self.0.items.iter().map(|rollout| {
            let took = rollout.elapsed_ms().map_or_else(|| NONE.to_owned(), millis);
            [
                column(&rollout.rollout_id, Tone::Plain),
                column(&rollout.kind, Tone::Plain),
                column(short_release(&rollout.target), Tone::Plain),
                column(status_text(rollout), Tone::of(&rollout.status)),
                column(format!("{}/{}", rollout.done_count(), rollout.steps.len()), Tone::Plain),
                column(took, Tone::Plain),
                column(short_minute(rollout.started_at.as_deref()), Tone::Dim),
            ]
        });
        table(page, ["ID", "KIND", "TARGET", "STATUS", "DONE", "TOOK", "STARTED (UTC)"], rows)
    }
}

impl View for At<RolloutView> {
    fn to_table(&self, page: &Page) -> String {
        let rollout = &self.item;
        let by = [rollout.source.as_deref(), rollout.started_by.as_deref()];
        let by: Vec<_> = by.into_iter().flatten().collect();
        let head = key_values(
            page,
            [
                ("rollout", format!("{} ({})", rollout.rollout_id, rollout.kind)),
                ("group", rollout.group.clone()),
                ("target", rollout.target.clone()),
                ("status", status_line(rollout)),
                ("waiting on", waiting_line(rollout)),
                ("started", format!("{} UTC by {}", short_time(rollout.started_at.as_deref()), by.join(", "))),
                ("reason", rollout.reason.clone().unwrap_or_default()),
                ("unchanged", rollout.unchanged_nodes.join(" ")),
                ("revision", self.revision.to_string()),
            ],
        );
        if rollout.steps.is_empty() {
            return head;
        }
        let mut text = format!("{head}\n\n{}", steps_table(page, rollout));
        for step in &rollout.steps {
            if let Some(output) =
                step.failure.as_ref().map(|failure| failure.output.trim_end()).filter(|o| !o.is_empty())
            {
                let indented: Vec<_> = output.lines().map(|line| format!("  {line}")).collect();
                text.push_str(&format!("\n\nlast output on {}\n{}", step.node_name, indented.join("\n")));
            }
        }
        text
    }
}

fn steps_table(page: &Page, rollout: &RolloutView) -> String {
    let rows = rollout.steps.iter().map(|step| {
        let health = step.member.as_ref().map_or(NONE, |member| member.health.as_str());
        let lasts = rollout.lasts_ms(step.phase_since_at_cluster_ms).map_or_else(|| NONE.to_owned(), millis);
        [
            column(&step.node_name, Tone::Plain),
            column(&step.phase, Tone::of(&step.phase)),
            column(lasts, Tone::Plain),
            column(health, Tone::of(health)),
            column(short_release(or_none(step.from.as_deref())), Tone::Dim),
            column(step_note(step), Tone::Plain),
        ]
    });
    table(page, ["NODE", "PHASE", "FOR", "HEALTH", "FROM", "NOTE"], rows)
}

/// What is to be said of a step besides its phase: why it failed, what it waits on, how far its soak is.
pub fn step_note(step: &StepView) -> String {
    let mut notes = Vec::new();
    if step.attempt > 1 {
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

fn status_text(rollout: &RolloutView) -> String {
    if rollout.status == "paused" && !rollout.pause_causes.is_empty() {
        format!("paused: {}", rollout.pause_causes.join(", "))
    } else {
        rollout.status.clone()
    }
}

/// `running · 2 of 6 done · 1m32s`.
pub fn rollout_header(rollout: &RolloutView) -> Vec<String> {
    let mut parts = vec![Tone::of(&rollout.status).paint(&status_text(rollout))];
    parts.push(format!("{} of {} done", rollout.done_count(), rollout.steps.len()));
    parts
}

fn status_line(rollout: &RolloutView) -> String {
    let mut parts = rollout_header(rollout);
    parts.extend(rollout.elapsed_ms().map(millis));
    parts.join(" · ")
}

fn waiting_line(rollout: &RolloutView) -> String {
    let Some(waiting) = rollout.waiting_on.as_ref().filter(|waiting| !rollout.is_ended() && !waiting.is_status())
    else {
        return String::new();
    };
    match rollout.lasts_ms(waiting.since_at_cluster_ms) {
        Some(ms) => format!("{} (for {})", waiting.text(), millis(ms)),
        None => waiting.text(),
    }
}
