//! Rollouts.

use crate::output::{Page, Tone, View, column, key_values, millis, table};
use crate::table::step::steps_table;
use crate::table::{NONE, minute_utc, short_minute, short_time};
use crate::view::{At, History, List, RolloutView, short_release};

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
                column(format!("{}/{}", rollout.done_count(), rollout.step_count()), Tone::Plain),
                column(short_minute(rollout.started_at.as_deref()), Tone::Dim),
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
                column(format!("{}/{}", rollout.done_count(), rollout.step_count()), Tone::Plain),
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
                ("goes back", going_back_line(rollout)),
                ("waiting on", waiting_line(rollout)),
                ("to go on", rollout.asks_for().unwrap_or_default()),
                ("started", format!("{} UTC by {}", short_time(rollout.started_at.as_deref()), by.join(", "))),
                ("reason", rollout.reason.clone().unwrap_or_default()),
                ("approved", rollout.approved_by.as_ref().map(|by| format!("by {by}")).unwrap_or_default()),
                ("by itself", by_itself_line(rollout)),
                ("one way", one_way_line(rollout)),
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

fn status_text(rollout: &RolloutView) -> String {
    if rollout.status == "paused" && !rollout.pause_causes.is_empty() {
        format!("paused: {}", rollout.pause_causes.join(", "))
    } else {
        rollout.status.replace('_', " ")
    }
}

/// `running · 2 of 6 done`.
pub fn rollout_header(rollout: &RolloutView) -> Vec<String> {
    vec![Tone::of(&rollout.status).paint(&status_text(rollout)), rollout.progress()]
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

fn going_back_line(rollout: &RolloutView) -> String {
    let Some(why) = &rollout.going_back_why else { return String::new() };
    match rollout.lasts_ms(rollout.going_back_since_at_cluster_ms).filter(|_| !rollout.is_ended()) {
        Some(ms) => format!("{why} (for {})", millis(ms)),
        None => why.clone(),
    }
}

/// What an operator's `--until` brings.
fn by_itself_line(rollout: &RolloutView) -> String {
    let resumes = rollout.resumes_at.as_deref().map(|at| format!("resumes at {}", minute_utc(at)));
    let pauses = rollout.pauses_at.as_deref().map(|at| format!("pauses at {}", minute_utc(at)));
    resumes.into_iter().chain(pauses).collect::<Vec<_>>().join(", ")
}

fn one_way_line(rollout: &RolloutView) -> String {
    let is_news = rollout.one_way && !rollout.is_ended();
    if is_news { "what runs the target can't go back".to_owned() } else { String::new() }
}
