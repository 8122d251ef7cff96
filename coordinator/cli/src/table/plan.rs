//! Plans.

use crate::output::{Page, Tone, View, column, key_values, millis, table};
use crate::table::{minute_utc, or_none};
use crate::view::{At, PlanView, WindowFitView, short_release};

impl View for At<PlanView> {
    fn to_table(&self, page: &Page) -> String {
        let plan = &self.item;
        let mut blockers: Vec<_> = plan.blockers.iter().map(|blocker| blocker.text()).collect();
        // One reason may hold up several rounds.
        blockers.dedup();
        let (takes, window) =
            if plan.changes { (takes_text(plan), window_text(plan.window.as_ref())) } else { Default::default() };
        let head = key_values(
            page,
            [
                ("group", plan.group.clone()),
                ("target", plan.target.clone()),
                ("unchanged", plan.unchanged_nodes.join(" ")),
                ("takes", takes),
                ("window", window),
                ("blocked by", blockers.join("\n")),
                ("revision", self.revision.to_string()),
            ],
        );
        if !plan.changes {
            return format!("{head}\n\nnothing to do: every member runs the target");
        }
        // One command in two lines: idents are long, and a page is narrow.
        let next = format!(
            "  rollcall rollout start {} --expected-revision {} \\\n    --to {}",
            plan.group, self.revision, plan.target
        );
        format!("{head}\n\n{}\n\nto do it\n{next}", rounds_table(page, plan))
    }
}

fn rounds_table(page: &Page, plan: &PlanView) -> String {
    let mut previous_batch = None;
    let mut rows = Vec::new();
    for (index, round) in plan.rounds.iter().enumerate() {
        let batch = match round.batch {
            batch if previous_batch == Some(batch) => String::new(),
            batch if round.awaits_promotion => format!("{batch}, once promoted"),
            batch => batch.to_string(),
        };
        previous_batch = Some(round.batch);
        for (place, step) in round.steps.iter().enumerate() {
            let only_first = |text: &str| if place == 0 { text.to_owned() } else { String::new() };
            rows.push([
                column(only_first(&(index + 1).to_string()), Tone::Plain),
                column(only_first(&batch), Tone::Plain),
                column(&step.node_name, Tone::Plain),
                column(short_release(or_none(step.from.as_deref())), Tone::Dim),
                column(step.placed_by.replace('_', " "), Tone::Dim),
            ]);
        }
    }
    table(page, ["ROUND", "BATCH", "NODE", "FROM", "PLACED BY"], rows)
}

fn takes_text(plan: &PlanView) -> String {
    plan.takes_ms.map_or_else(
        || "nobody knows yet: no step of this group has been timed".to_owned(),
        |ms| format!("about {}, by what steps took so far", millis(ms)),
    )
}

fn window_text(window: Option<&WindowFitView>) -> String {
    let Some(window) = window else { return String::new() };
    let from = window.opens_at.as_deref().map(|at| format!("from {} ", minute_utc(at))).unwrap_or_default();
    let Some(closes_at) = window.closes_at.as_deref() else { return format!("{from}on, and nothing closes it") };
    let fits = match window.fits {
        Some(true) => Tone::Good.paint("it fits"),
        Some(false) => Tone::Warning.paint("it doesn't fit: what is left waits for the next one"),
        None => "nobody knows whether it fits".to_owned(),
    };
    format!("{from}until {}; {fits}", minute_utc(closes_at))
}
